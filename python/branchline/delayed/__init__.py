"""Collections of dask that read the branches that a computation needs, when it is computed."""

from branchline.delayed.collections import dask

__all__ = ["dask"]
