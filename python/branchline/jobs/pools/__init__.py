"""Remote workers: Dask and executors run groups of sub-jobs, through an agent on each worker."""
