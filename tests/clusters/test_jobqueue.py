"""Trains on the workers that dask-jobqueue starts as jobs of a real Slurm."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.clusters.conformance import CHECKS, Case
from tests.clusters.places import PlaceHere, slurm_jobqueue
from tests.clusters.slurm import Slurm

# `make test` runs one train, `make test-cluster` all checks.
HERE = CHECKS if os.environ.get("BRANCHLINE_TEST_CLUSTERS") else CHECKS[:1]


@pytest.fixture(scope="module")
def workers(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlaceHere]:
    """Two jobs of Slurm, each with a worker."""
    with contextmanager(slurm_jobqueue)(tmp_path_factory.mktemp("slurm"), slurm) as place:
        yield place


@pytest.mark.parametrize("check", HERE, ids=lambda check: check.__name__)
def test_slurm(check: Callable[[Case], None], workers: PlaceHere, data: Path, tmp_path: Path) -> None:
    check(Case(workers, data, tmp_path))
