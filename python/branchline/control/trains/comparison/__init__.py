"""Comparison of the results of two trains, bin by bin and value by value."""
