"""The profile of code says where its time went."""

from __future__ import annotations

import contextlib
import time

import pytest

from branchline.trains.testing.profiling import Profile, Profiler


def spin(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def dear() -> None:
    spin(1.0)


def cheap() -> None:
    spin(0.01)


def share_of(profile: Profile, function: str) -> float:
    seconds = [
        one
        for stack, one in zip(profile.stacks, profile.seconds, strict=True)
        if any(profile.frames[index].function == function for index in stack)
    ]
    return sum(seconds) / sum(profile.seconds)


def test_what_takes_most_of_the_time_is_seen_most() -> None:
    profiler = Profiler()
    with profiler.during():
        dear()
        cheap()
    # What happens outside is not looked at.
    spin(0.2)
    found = profiler.profile()
    assert share_of(found, "dear") > 0.7
    assert share_of(found, "cheap") < 0.2
    assert share_of(found, "spin") > 0.9
    # Now and then it is seen while it enters or leaves its own context.
    assert {one.file for one in found.frames} - {contextlib.__file__} == {__file__}
    assert found.seconds == sorted(found.seconds, reverse=True)
    assert sum(found.seconds) < 60


def test_of_many_stacks_the_longest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.trains.testing.profiling.PROFILE_STACKS_MAX", 1)
    profiler = Profiler()
    with profiler.during():
        dear()
        spin(0.3)
    found = profiler.profile()
    assert len(found.stacks) == 1
    assert found.left_out_s > 0


def test_a_profile_of_nothing_is_empty() -> None:
    assert Profiler().profile() == Profile()
