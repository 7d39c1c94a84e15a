"""Files that a program fills: trees, RNTuples, histograms and copies, with the calls of uproot."""
