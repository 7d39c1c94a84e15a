"""Merge every file of a collection with itself in every way, and read the results with ROOT, uproot and Branchline."""
