"""Shared building blocks: units, text, lazy imports, atomic file writes, processes, argument checks.

Every package may import it; it imports only `branchline.errors`. Start with `quantities.py` and `checks.py`.
"""
