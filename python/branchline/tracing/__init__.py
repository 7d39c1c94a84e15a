"""Traces of read requests: recorded, mapped to branches and baskets, compared and replayed.

A trace comes from Branchline or, under strace, from any program. Start with `trace.py` and `file_map.py`.
"""
