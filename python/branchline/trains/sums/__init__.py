"""Sums of results: accumulators, cutflows, and digests that show whether two results are equal."""
