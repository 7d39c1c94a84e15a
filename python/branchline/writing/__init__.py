"""Writes ROOT files from Python: trees, RNTuples, histograms, texts and directories, with the calls of uproot."""
