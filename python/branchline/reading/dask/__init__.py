"""Dask collections whose partitions read only the branches that a computation needs."""
