"""Dask clusters on this machine. The scheduler runs in the process of the test."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

from tests.branchline_command import TEST_VARIABLES

#: Timeout for closing a worker. Dask waits four fifths of this time for the worker to exit, then kills it, and waits
#: one fifth for the killed process.
END_S = 25.0


@contextmanager
def local_cluster(workers: int, **settings: Any) -> Iterator[Any]:
    """Run a LocalCluster. Connections that it leaves open are garbage-collected here, because their ResourceWarning
    would fail a later test.

    The scheduler does not close all connections that it has accepted. Workers get more time to exit than the default of
    Dask, which kills them after 4 s and raises an error if they still exist a second later, as on a busy machine.
    """
    from distributed import LocalCluster, Nanny

    class PatientNanny(Nanny):
        """The process that starts and stops a worker, with a longer timeout."""

        async def close(  # type: ignore[override]
            self, timeout: float = END_S, reason: str = "nanny-close"
        ) -> Literal["OK"]:
            return await super().close(timeout, reason)

    before = dict(os.environ)
    with LocalCluster(n_workers=workers, worker_class=PatientNanny, **settings) as cluster:
        _restore_environment(before)
        yield cluster
    _restore_environment(before)
    del cluster
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


def _restore_environment(before: Mapping[str, str]) -> None:
    """Remove the variables that Dask sets for its workers and does not remove. With a changed environment, later tests
    could not fork their commands and workers (`tests.branchline_command`). Variables of the test are kept.
    """
    for name in os.environ.keys() - before.keys() - set(TEST_VARIABLES):
        del os.environ[name]
    os.environ.update({name: value for name, value in before.items() if name not in TEST_VARIABLES})
