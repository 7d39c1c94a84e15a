"""Writes trees, RNTuples, histograms and copied objects to ROOT files, with uproot's interface."""
