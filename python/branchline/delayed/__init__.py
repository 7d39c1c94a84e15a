"""Collections of dask that read the branches that a computation needs, when it is computed."""
