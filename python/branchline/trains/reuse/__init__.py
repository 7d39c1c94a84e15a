"""Reuse of earlier results: cache keys, and the code and data that a result depends on."""
