"""Building blocks without a subject of their own: units, texts, lazy imports, whole files, processes, argument checks.

Every package may import it, and it imports only `branchline.errors`. Start with `quantities.py` and `checks.py`.
"""
