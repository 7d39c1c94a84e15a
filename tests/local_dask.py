"""Clusters of Dask on this machine, whose scheduler lives in the process of the test."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def local_cluster(workers: int, **settings: Any) -> Iterator[Any]:
    """A LocalCluster. What it leaves open at its end is collected here, so that it does not fail another test.

    Its scheduler forgets to close some of the connections that it took.
    """
    from distributed import LocalCluster

    with LocalCluster(n_workers=workers, **settings) as cluster:
        yield cluster
    del cluster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
