"""Adds up results: accumulators, cutflows, and digests that show whether two results are equal."""
