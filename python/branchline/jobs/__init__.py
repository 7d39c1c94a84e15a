"""Jobs: a callable that runs on sub-jobs, and the places where it can run. Independent of trains.

Places are local processes, Dask, executors and batch systems. Start with `subjob.py`, then `local.py` and `where.py`.
"""
