"""Every place does the same: in this process, in others of this machine, in an executor, on Parsl, on Dask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clusters.conformance import (
    CHECKS,
    Case,
    a_failing_wagon_is_stopped_alone,
    a_killed_worker_costs_nothing,
    a_subjob_that_goes_on_ending_its_process_is_set_aside,
    ctrl_c_keeps_what_is_done,
    the_result_is_the_same_bit_for_bit,
)
from tests.clusters.conftest import GetPlace
from tests.clusters.places import PLACES
from tests.sampled import long_but

pytestmark = pytest.mark.slow


CASES = [(name, check) for name in PLACES for check in CHECKS]
#: What differs most between places: executors, and Dask with its scheduler here or in another process.
MOST_DIFFERENT = (
    the_result_is_the_same_bit_for_bit,
    a_killed_worker_costs_nothing,
    a_failing_wagon_is_stopped_alone,
    a_subjob_that_goes_on_ending_its_process_is_set_aside,
    ctrl_c_keeps_what_is_done,
)
TRIED_BRIEFLY = ("threads", "processes of an executor", "Parsl", "Dask")
TRIED_RARELY = ("Dask over TCP",)
KEPT = [
    (name, check)
    for name, check in CASES
    if name not in TRIED_RARELY and (name not in TRIED_BRIEFLY or check in MOST_DIFFERENT)
]


@pytest.mark.parametrize(
    ("name", "check"), long_but(CASES, KEPT), ids=lambda value: getattr(value, "__name__", str(value))
)
def test_place(name: str, check: Callable[[Case], None], places: GetPlace, data: Path, tmp_path: Path) -> None:
    check(Case(places(name), data, tmp_path))
