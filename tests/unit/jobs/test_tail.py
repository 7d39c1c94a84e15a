"""When a sub-job counts as slow."""

from __future__ import annotations

import pytest

from branchline.base.limits import TAIL_FACTOR, TAIL_MIN_S, TAIL_PATIENCE
from branchline.jobs.stragglers import JobTail


def tail(*seconds: float) -> JobTail:
    made = JobTail()
    for one in seconds:
        made.finished(one)
    return made


def test_nothing_is_slow_before_anything_is_done() -> None:
    assert tail().limit_s(3) is None


def test_slow_is_what_takes_longer_than_the_median_of_many() -> None:
    assert tail(100, 20, 20, 30).limit_s(1) == TAIL_FACTOR * 25
    assert tail(100, 20, 20, 30).limit_s(1, together=3) == TAIL_FACTOR * 75
    assert tail(1, 1, 1, 1).limit_s(1) == TAIL_MIN_S


@pytest.mark.parametrize("unfinished", [2, 3, 100])
def test_where_few_are_done_a_sub_job_has_longer_but_not_for_ever(unfinished: int) -> None:
    assert tail(20, 30, 100).limit_s(unfinished) == TAIL_FACTOR * TAIL_PATIENCE * 30
