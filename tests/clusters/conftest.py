"""Batch systems that really run, each started once for the tests that ask for it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clusters.slurm import Slurm


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """A Slurm with three nodes."""
    farm = Slurm()
    try:
        farm.start()
        yield farm
    finally:
        farm.close()
