"""Jobs run a callable on sub-jobs, at a place. This package does not depend on trains.

Places are local processes, Dask, executors and batch systems. Start with `subjob.py`, then `local.py` and `where.py`.
"""
