"""A few of the runs with faults that a seed chooses; `make test-seeds` runs a thousand."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.clusters.seeded import FAULTS, Stage, fault_of, run_seed, stage

#: The first seed of each fault that needs no server of its own.
SEEDS = {
    fault.__name__: next(seed for seed in range(1000) if fault_of(seed)[0] is fault)
    for fault, weight in FAULTS.items()
    if weight and fault.__name__ in ("processes_die", "job_dies", "disk_is_full", "directory_goes")
}


@pytest.fixture(scope="module")
def prepared() -> Iterator[Stage]:
    """What all seeds share."""
    with stage() as found:
        yield found


@pytest.mark.parametrize("fault", SEEDS)
def test_a_run_with_faults_gives_the_same_result_or_says_what_is_missing(fault: str, prepared: Stage) -> None:
    print(run_seed(prepared, SEEDS[fault]))
