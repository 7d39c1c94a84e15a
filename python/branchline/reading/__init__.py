"""Reading: from file names to arrays, for ROOT and Parquet files on any storage.

`request.py` has the arguments of a read, `trees/` the public classes. Start with `trees/file.py` and `trees/tree.py`.
"""
