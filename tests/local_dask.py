"""Clusters of Dask on this machine, whose scheduler lives in the process of the test."""

from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal

#: For a worker to end, and for it to be gone after it was killed: four fifths and one fifth.
END_S = 25.0


@contextmanager
def local_cluster(workers: int, **settings: Any) -> Iterator[Any]:
    """A LocalCluster. What it leaves open at its end is collected here, so that it does not fail another test.

    Its scheduler forgets to close some of the connections that it took. Its workers have time to end: after 4 s Dask
    kills them, and where they are not gone a second later, as on a busy machine, the end of the cluster is an error.
    """
    from distributed import LocalCluster, Nanny

    class PatientNanny(Nanny):
        """The process that starts and ends a worker."""

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
    could not fork their commands and workers (`tests.branchline_command`).
    """
    for name in os.environ.keys() - before.keys():
        del os.environ[name]
    os.environ.update(before)
