"""When a sub-job counts as slow."""

from __future__ import annotations

import pytest

from branchline.base.limits import TAIL_FACTOR, TAIL_MIN_S, TAIL_PATIENCE
from branchline.jobs.stragglers import KIND_DONE_MIN, Durations


def durations(*seconds: float) -> Durations:
    made = Durations()
    for one in seconds:
        made.finished(one)
    return made


def test_nothing_is_slow_before_anything_is_done() -> None:
    assert durations().limit_s(3, durations().usual_s()) is None


def test_slow_is_what_takes_longer_than_the_median_of_many() -> None:
    known = durations(100, 20, 20, 30)
    assert known.usual_s() == 25
    assert known.limit_s(1, 25) == TAIL_FACTOR * 25
    assert known.limit_s(1, 3 * 25) == TAIL_FACTOR * 75
    assert durations(1, 1, 1, 1).limit_s(1, 1) == TAIL_MIN_S


@pytest.mark.parametrize("unfinished", [2, 3, 100])
def test_where_few_are_done_a_sub_job_has_longer_but_not_for_ever(unfinished: int) -> None:
    assert durations(20, 30, 100).limit_s(unfinished, 30) == TAIL_FACTOR * TAIL_PATIENCE * 30


def test_the_median_is_that_of_the_kind_and_the_site() -> None:
    known = durations(*[10.0] * 9)
    for number in range(KIND_DONE_MIN):
        assert known.known_s("slow", "A") is None
        assert known.usual_s("slow", "A") == 10.0
        known.finished(30.0 + number, "slow", "A")
    assert known.known_s("slow", "A") == known.usual_s("slow", "A") == 31.0
    assert known.known_s("slow", "B") is None


def test_hosts_are_slow_relative_to_the_kind() -> None:
    known = durations()
    for kind, usual_s in (("near", 1.0), ("far", 10.0)):
        for number in range(20):
            known.finished(usual_s, kind, "A", f"n{number % 4}")
            known.finished(2 * usual_s, kind, "A", "slow")
    known.finished(100.0, "near", "A", "unlucky")
    assert known.slow_nodes() == {"slow"}
