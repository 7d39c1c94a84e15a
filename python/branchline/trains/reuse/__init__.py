"""Reuse of earlier results: cache keys, and the code and data on which a result depends."""
