"""Sums of results: accumulators, cutflows, and digests for comparing two results."""
