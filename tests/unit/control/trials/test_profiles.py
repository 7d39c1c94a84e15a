"""Profiles of trials, as the page and speedscope show them."""

from __future__ import annotations

from branchline.control.trials.profiles import HotLine, hot_lines, is_whole, speedscope
from branchline.control.trials.trial import TrialFrame, TrialProfile, WagonTrial

PROFILE = TrialProfile(
    [
        TrialFrame("W.process", "mine.py", 5),
        TrialFrame("loop", "mine.py", 9),
        TrialFrame("sum", "/usr/lib/numpy.py", 1),
    ],
    [[0, 1], [0, 2], [0]],
    [3.0, 0.5, 0.5],
)


def test_the_lines_of_the_user_come_first_with_their_shares() -> None:
    assert hot_lines(PROFILE) == [
        HotLine("W.process", "mine.py", 5, 0.125, 1.0),
        HotLine("loop", "mine.py", 9, 0.75, 0.75),
        HotLine("sum", "/usr/lib/numpy.py", 1, 0.125, 0.125),
    ]
    assert hot_lines(TrialProfile()) == []


def test_speedscope_gets_samples_with_weights_for_each_wagon() -> None:
    """By the rules of its schema: indices into shared frames, as many weights as samples, their sum as the end."""
    found = speedscope(
        "a trial", [WagonTrial("a", profile=PROFILE), WagonTrial("none"), WagonTrial("b", profile=PROFILE)]
    )
    assert found["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    shared, profiles = found["shared"], found["profiles"]
    assert isinstance(shared, dict)
    assert isinstance(profiles, list)
    assert shared["frames"][0] == {"name": "W.process", "file": "mine.py", "line": 5}
    assert [one["name"] for one in profiles] == ["a", "b"]
    for one in profiles:
        assert (one["type"], one["unit"], one["startValue"], one["endValue"]) == ("sampled", "seconds", 0, 4.0)
        assert len(one["samples"]) == len(one["weights"])
        assert all(0 <= index < len(shared["frames"]) for stack in one["samples"] for index in stack)
    assert profiles[1]["samples"][0] == [3, 4]


def test_a_profile_that_does_not_hang_together_is_not_shown() -> None:
    assert is_whole(PROFILE)
    for wrong in (
        TrialProfile(PROFILE.frames, [[3]], [1.0]),
        TrialProfile(PROFILE.frames, [[-1]], [1.0]),
        TrialProfile(PROFILE.frames, [[0]], []),
    ):
        assert not is_whole(wrong)
