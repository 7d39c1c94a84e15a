"""Reading: from file names to arrays, for ROOT and Parquet files on any storage.

`request.py` holds the arguments of a read, `trees/` the public handles. Start with `trees/file.py` and `trees/tree.py`.
"""
