"""Evaluate the profiles of trials: find the hottest lines, and export profiles to speedscope."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.limits import PROFILE_LINES_SHOWN
from branchline.control.trials.trial import TrialProfile, WagonTrial

_SCHEMA = "https://www.speedscope.app/file-format-schema.json"


@dataclass(frozen=True)
class HotLine:
    """A line of code with its fraction of the run time: ``own`` without, and ``whole`` with the functions it calls."""

    function: str
    file: str
    line: int
    own: float
    whole: float


def hot_lines(profile: TrialProfile) -> list[HotLine]:
    """Return the lines that take the most time. Lines in the user's sources come before lines in libraries."""
    total_s = sum(profile.seconds)
    if total_s <= 0:
        return []
    own: dict[int, float] = {}
    whole: dict[int, float] = {}
    for stack, seconds in zip(profile.stacks, profile.seconds, strict=True):
        for index in set(stack):
            whole[index] = whole.get(index, 0.0) + seconds
        if stack:
            own[stack[-1]] = own.get(stack[-1], 0.0) + seconds
    lines = [
        HotLine(one.function, one.file, one.line, own.get(index, 0.0) / total_s, whole.get(index, 0.0) / total_s)
        for index, one in enumerate(profile.frames)
    ]
    lines.sort(key=lambda one: (one.file.startswith("/") or one.file.startswith("<"), -one.whole, -one.own))
    return lines[:PROFILE_LINES_SHOWN]


def speedscope(name: str, wagons: list[WagonTrial]) -> dict[str, object]:
    """Convert the wagons' profiles to the JSON format of https://www.speedscope.app, with one profile per wagon."""
    frames: list[dict[str, object]] = []
    profiles: list[dict[str, object]] = []
    for wagon in wagons:
        if wagon.profile is None:
            continue
        first = len(frames)
        frames += [{"name": one.function, "file": one.file, "line": one.line} for one in wagon.profile.frames]
        profiles.append(
            {
                "type": "sampled",
                "name": wagon.name,
                "unit": "seconds",
                "startValue": 0,
                "endValue": sum(wagon.profile.seconds),
                "samples": [[first + index for index in stack] for stack in wagon.profile.stacks],
                "weights": wagon.profile.seconds,
            }
        )
    return {
        "$schema": _SCHEMA,
        "name": name,
        "exporter": "branchline",
        "shared": {"frames": frames},
        "profiles": profiles,
    }


def is_whole(profile: TrialProfile) -> bool:
    """Whether a profile is consistent. The check is needed because user code may have written the profile."""
    count = len(profile.frames)
    return len(profile.stacks) == len(profile.seconds) and all(
        0 <= index < count for stack in profile.stacks for index in stack
    )
