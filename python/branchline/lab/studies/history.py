"""The history of watched storages: a folder with a line for each storage and turn, and what it says."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.base.quantities import counted, percent, significant
from branchline.errors import OptionError
from branchline.lab.statistics import change_points
from branchline.lab.studies.study_result import ArmResult, StudyResult

HISTORY = "history.jsonl"
POINT_VERSION = 1
#: Turns whose median says how a storage is now.
RECENT = 5
#: Relative changes below this are not reported.
CHANGE_TELLING = 0.03


@dataclass(frozen=True)
class HistoryPoint:
    """The result of one study run for one storage: time relative to the reference with its interval, MB/s, and the
    numbers of good and failed samples with their errors. ``control`` compares the reference with itself.
    """

    at: str
    storage: str
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    megabytes_per_s: float | None = None
    samples: int = 0
    lost: int = 0
    error: str = ""
    control: float | None = None
    is_control_off: bool = False
    host: str = ""
    seed: int = 0
    point_version: int = POINT_VERSION


@dataclass(frozen=True)
class LevelChange:
    """The level of a storage changed: from this turn on it takes ``factor`` times the time."""

    at: str
    factor: float
    p_value: float


@dataclass(frozen=True)
class StorageHistory:
    """All turns of a storage, its changes, and how it is now: medians of the last turns."""

    storage: str
    points: list[HistoryPoint]
    changes: list[LevelChange] = field(default_factory=list)
    ratio: float | None = None
    megabytes_per_s: float | None = None
    failed_part: float = 0.0


def points_of(found: StudyResult, at: str, host: str, storages: Sequence[str]) -> list[HistoryPoint]:
    """Return the point of each storage from the result of one study run."""
    control = found.controls[0].time if found.controls else None
    points = []
    for arm in found.arms:
        storage = arm.levels.get("storage", "")
        if storage in storages:
            points.append(_point(arm, storage, at, host, found.seed))
    is_off = control is not None and control.differs
    value = None if control is None else control.value
    return [HistoryPoint(**{**vars(one), "control": value, "is_control_off": is_off}) for one in points]


def _point(arm: ArmResult, storage: str, at: str, host: str, seed: int) -> HistoryPoint:
    time = arm.time
    return HistoryPoint(
        at,
        storage,
        None if time is None else time.value,
        None if time is None else time.low,
        None if time is None else time.high,
        None if arm.bytes_per_s is None else arm.bytes_per_s / 1e6,
        arm.samples,
        arm.lost,
        next(iter(arm.errors), ""),
        host=host,
        seed=seed,
    )


def add_points(folder: Path, points: Sequence[HistoryPoint]) -> None:
    """Writes a turn, and waits until it is on the disk."""
    text = "".join(json.dumps(finite(to_plain(one))) + "\n" for one in points)
    path = folder / HISTORY
    with path.open("ab") as file:
        if file.tell() and not path.read_bytes().endswith(b"\n"):
            # A kill has torn the last line: it stays alone, and is left out.
            file.write(b"\n")
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def histories(folder: Path) -> list[StorageHistory]:
    """Return the history of each storage in a folder, without incomplete lines. Raises OptionError if it has none."""
    try:
        lines = (folder / HISTORY).read_bytes().splitlines()
    except OSError as error:
        what = f"there is no history in it: {error.strerror}"
        raise OptionError(what, path=str(folder), hint="branchline study schedule makes one") from None
    by_storage: dict[str, list[HistoryPoint]] = {}
    for line in lines:
        try:
            point: HistoryPoint = from_plain(HistoryPoint, json.loads(line))
        except ValueError:
            continue
        by_storage.setdefault(point.storage, []).append(point)
    return [_history(storage, points) for storage, points in by_storage.items()]


def _history(storage: str, points: list[HistoryPoint]) -> StorageHistory:
    known = [one for one in points if one.ratio]
    found = change_points([math.log(one.ratio) for one in known if one.ratio])
    changes = [LevelChange(known[one.index].at, one.factor, one.p_value) for one in found]
    recent = [one for one in known[-RECENT:] if one.ratio]
    rates = [one.megabytes_per_s for one in recent if one.megabytes_per_s is not None]
    lost = sum(one.lost for one in points[-RECENT:])
    taken = lost + sum(one.samples for one in points[-RECENT:])
    return StorageHistory(
        storage,
        points,
        changes,
        statistics.median(one.ratio for one in recent if one.ratio) if recent else None,
        statistics.median(rates) if rates else None,
        lost / taken if taken else 0.0,
    )


def verdict(found: Sequence[StorageHistory]) -> list[str]:
    """Return sentences for an administrator: current state, latest change, failures and comparison of the storages."""
    lines = [line for one in found for line in _of_storage(one)]
    compared = sorted((one for one in found if one.ratio is not None), key=lambda one: one.ratio or 0.0)
    if len(compared) > 1 and compared[0].ratio and compared[-1].ratio:
        fastest, slowest = compared[0], compared[-1]
        times = significant((slowest.ratio or 1.0) / (fastest.ratio or 1.0))
        lines.append(f"slowest is {slowest.storage}: it takes {times} times the time of {fastest.storage}")
    return lines


def _of_storage(one: StorageHistory) -> list[str]:
    turns = counted(len(one.points), "turn")
    if one.ratio is None:
        return [f"{one.storage}: nothing could be measured in {turns}: {one.points[-1].error or 'no pair is whole'}"]
    speed = "" if one.megabytes_per_s is None else f", {significant(one.megabytes_per_s)} MB of files/s"
    lines = [
        f"{one.storage}: {significant(one.ratio)} times the time of the reference in the last turns{speed} ({turns})"
    ]
    told = [change for change in one.changes if abs(math.log(change.factor)) > CHANGE_TELLING]
    lines += [f"{one.storage}: {change_text(change)}" for change in told]
    if not told:
        lines.append(f"{one.storage}: no change of its speed is seen")
    if one.failed_part:
        error = next((point.error for point in reversed(one.points) if point.error), "")
        lines.append(f"{one.storage}: {percent(one.failed_part, 1.0)} of the last samples failed: {error}")
    doubtful = sum(point.is_control_off for point in one.points)
    if doubtful:
        lines.append(
            f"{one.storage}: in {counted(doubtful, 'turn')} something else disturbed the machine that measures"
        )
    return lines


def change_text(change: LevelChange) -> str:
    """A change with its date and its size."""
    word = "slower" if change.factor > 1 else "faster"
    times = significant(max(change.factor, 1 / change.factor))
    return f"since {change.at[:16].replace('T', ' ')} UTC it is {times} times {word} (chance: {change.p_value:.3f})"
