"""The same jobs on the same platform take the same time in SimGrid: within 1 % in makespan and median."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.cases import Case, median, narrow_cards, one_link, several_ways
from tests.simulation.simgrid import ends_in_simgrid

#: What makes the case, and jobs.
CASES = [
    (one_link, 50), (one_link, 1000), (several_ways, 60), (several_ways, 250), (narrow_cards, 100),
    (narrow_cards, 1000),
]  # fmt: skip


@pytest.mark.parametrize(("make", "jobs"), CASES)
def test_jobs_take_what_they_take_in_simgrid(make: Callable[[int, int], Case], jobs: int) -> None:
    case = make(jobs, 17)
    ours, theirs = case.ends(), ends_in_simgrid(case.for_simgrid())
    print(f"makespan {max(ours):.2f} s, SimGrid {max(theirs):.2f} s; median {median(ours):.2f}, {median(theirs):.2f}")
    assert max(ours) == pytest.approx(max(theirs), rel=0.01)
    assert median(ours) == pytest.approx(median(theirs), rel=0.01)
