"""The history of watched storage elements: a file with a line per storage element and turn, and conclusions from it."""

from __future__ import annotations

import json
import math
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.plain import finite, from_plain, to_plain
from branchline.base.quantities import MB, counted, percent, significant
from branchline.errors import OptionError
from branchline.lab.statistics import change_points
from branchline.lab.studies.study_result import StudyResult

HISTORY = "history.jsonl"
POINT_VERSION = 1
#: Number of latest turns whose medians describe the present state of a storage element.
RECENT = 5
#: Minimum relative change that is reported.
CHANGE_TELLING = 0.03


@dataclass(frozen=True)
class HistoryPoint:
    """The result of one turn of measurements for one storage element.

    ``ratio`` is the time relative to the reference, with an interval from ``low`` to ``high``. ``samples`` and ``lost``
    are the numbers of successful and of failed samples, ``error`` is one of the errors. ``control`` compares the
    reference with itself. With ``is_busy``, other programs kept the machine busy: the point is stored, but does not
    count, since its times are not those of the storage element.
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
    is_busy: bool = False
    point_version: int = POINT_VERSION


@dataclass(frozen=True)
class LevelChange:
    """A change in the speed of a storage element: from the turn ``at`` on, reading takes ``factor`` times as long as
    before.
    """

    at: str
    factor: float
    p_value: float


@dataclass(frozen=True)
class StorageHistory:
    """All turns of a storage element, the changes of its speed, and its present state: medians of the latest turns."""

    storage: str
    points: list[HistoryPoint]
    changes: list[LevelChange] = field(default_factory=list)
    ratio: float | None = None
    megabytes_per_s: float | None = None
    failed_part: float = 0.0


def points_of(found: StudyResult, at: str, host: str, storages: Sequence[str]) -> list[HistoryPoint]:
    """Return the result of one turn for each storage element."""
    control = found.controls[0].time if found.controls else None
    points = []
    for arm in found.arms:
        storage = arm.levels.get("storage", "")
        if storage not in storages:
            continue
        time = arm.time
        point = HistoryPoint(
            at,
            storage,
            None if time is None else time.value,
            None if time is None else time.low,
            None if time is None else time.high,
            None if arm.bytes_per_s is None else arm.bytes_per_s / MB,
            arm.samples,
            arm.lost,
            next(iter(arm.errors), ""),
            control=None if control is None else control.value,
            is_control_off=control is not None and control.differs,
            host=host,
            seed=found.seed,
            is_busy=arm.is_busy,
        )
        points.append(point)
    return points


def add_points(folder: Path, points: Sequence[HistoryPoint]) -> None:
    """Append the results of a turn to the history, and sync the file to disk."""
    text = "".join(json.dumps(finite(to_plain(one))) + "\n" for one in points)
    path = folder / HISTORY
    with path.open("ab") as file:
        if file.tell() and not path.read_bytes().endswith(b"\n"):
            # A killed process left an incomplete line. End the line here; it is skipped when the history is read.
            file.write(b"\n")
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


def histories(folder: Path) -> list[StorageHistory]:
    """Return the history of each storage element in a folder. Incomplete lines are skipped. Raises OptionError if the
    folder has no history.
    """
    try:
        lines = (folder / HISTORY).read_bytes().splitlines()
    except OSError as error:
        what = f"the directory contains no history: {error.strerror}"
        raise OptionError(what, path=str(folder), hint="create one with: branchline study schedule") from None
    by_storage: dict[str, list[HistoryPoint]] = {}
    for line in lines:
        try:
            point: HistoryPoint = from_plain(HistoryPoint, json.loads(line))
        except ValueError:
            continue
        by_storage.setdefault(point.storage, []).append(point)
    return [_history(storage, points) for storage, points in by_storage.items()]


def _history(storage: str, points: list[HistoryPoint]) -> StorageHistory:
    known = [one for one in points if one.ratio and not one.is_busy]
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
    """Return sentences for an administrator: present state, latest change and failures of each storage element, and a
    comparison.
    """
    lines = [line for one in found for line in _of_storage(one)]
    compared = sorted((one for one in found if one.ratio is not None), key=lambda one: one.ratio or 0.0)
    if len(compared) > 1 and compared[0].ratio and compared[-1].ratio:
        fastest, slowest = compared[0], compared[-1]
        times = significant((slowest.ratio or 1.0) / (fastest.ratio or 1.0))
        lines.append(f"slowest is {slowest.storage}: it takes {times} times the time of {fastest.storage}")
    return lines


def _of_storage(one: StorageHistory) -> list[str]:
    turns = counted(len(one.points), "turn")
    busy = sum(point.is_busy for point in one.points)
    if one.ratio is None and busy:
        return [f"{one.storage}: no turn counts: other programs kept the machine busy ({turns})"]
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
    if busy:
        lines.append(f"{one.storage}: {counted(busy, 'turn')} on a machine busy with other programs do not count")
    doubtful = sum(point.is_control_off and not point.is_busy for point in one.points)
    if doubtful:
        lines.append(
            f"{one.storage}: in {counted(doubtful, 'turn')} something else disturbed the machine that measures"
        )
    return lines


def change_text(change: LevelChange) -> str:
    """Return a sentence with the date and the factor of a change."""
    word = "slower" if change.factor > 1 else "faster"
    times = significant(max(change.factor, 1 / change.factor))
    return f"since {change.at[:16].replace('T', ' ')} UTC it is {times} times {word} (chance: {change.p_value:.3f})"
