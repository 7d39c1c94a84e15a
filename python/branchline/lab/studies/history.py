"""The history of watched storage elements: a file with a line per storage element and turn, and conclusions from it."""

from __future__ import annotations

import datetime as dt
import json
import math
import os
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from branchline.base.plain import finite, from_plain, to_plain
from branchline.base.quantities import MB, counted, percent, significant
from branchline.errors import OptionError
from branchline.lab.statistics import SIDE_MIN, change_points
from branchline.lab.studies.study_result import StudyResult

HISTORY = "history.jsonl"
POINT_VERSION = 1
#: Number of latest turns whose medians describe the present state of a storage element.
RECENT = 5
#: Minimum wall time in seconds of a useful sample of the reference job.
SAMPLE_MIN_S = 2.0
#: Minimum relative change that is reported.
CHANGE_TELLING = 0.03


@dataclass(frozen=True)
class ReferencePoint:
    """The results of the reference job in one turn, at one storage element and on one type of worker.

    - ``version`` and ``events`` identify the job. Only turns of the same job are compared.
    - ``fetch_bytes_per_s`` is the number of bytes per second of reading time, which is the thread time in read calls;
      ``call_bytes`` is the mean number of bytes of a read call.
    - ``read_s`` is the wall time of the job, ``benchmark_cpu_s`` the CPU time of the same work on a copy in memory.
    - ``wrong`` says which values or bytes are wrong; empty if none are.

    Numbers are medians over the samples, and None without successful samples.
    """

    version: int
    events: int
    fetch_bytes_per_s: float | None = None
    call_bytes: float | None = None
    read_s: float | None = None
    benchmark_cpu_s: float | None = None
    wrong: str = ""


@dataclass(frozen=True)
class HistoryPoint:
    """The result of one turn of measurements for one storage element.

    ``ratio`` is the time relative to the reference, with an interval from ``low`` to ``high``. ``samples`` and ``lost``
    are the numbers of successful and of failed samples, ``error`` is one of the errors. ``control`` compares the
    reference with itself. With ``is_busy``, other programs kept the machine busy: the point is stored, but does not
    count, since it does not measure the storage element.

    Turns of the reference job have a ``reference``; their ``ratio`` is the time of the job relative to its CPU
    benchmark. They are separate for each ``processor`` model and ``place``, the farm that ran the job (empty for this
    machine).
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
    processor: str = ""
    place: str = ""
    reference: ReferencePoint | None = None
    point_version: int = POINT_VERSION

    @property
    def moment(self) -> dt.datetime:
        """The time of the turn. Raises ValueError."""
        found = dt.datetime.fromisoformat(self.at)
        return found.replace(tzinfo=found.tzinfo or dt.UTC)

    @property
    def worker(self) -> str:
        """The type of the worker that ran the reference job: its processor, and the farm; empty if unknown."""
        return ": ".join(filter(None, (self.place, self.processor))) if self.processor else ""


#: The quantity that changed: the time relative to the reference of `study schedule`; or, for the reference job, the
#: time of the storage element per byte, the CPU time of the benchmark, or both at the same time.
Changed = Literal["time", "storage", "processor", "both"]


@dataclass(frozen=True)
class LevelChange:
    """A change in speed: from the turn ``at`` on, reading takes ``factor`` times as long as before, with a 95 %
    interval from ``low`` to ``high``. If ``what`` is "processor", this is the CPU time of the benchmark; if it is
    "both", ``processor`` has the change of the benchmark.
    """

    at: str
    factor: float
    p_value: float
    low: float
    high: float
    what: Changed = "time"
    processor: LevelChange | None = None

    @property
    def is_told(self) -> bool:
        """Whether the change is large enough to be reported."""
        return abs(math.log(self.factor)) > CHANGE_TELLING or (self.processor is not None and self.processor.is_told)


@dataclass(frozen=True)
class StorageHistory:
    """All turns of a storage element, the changes of its speed, and its present state: medians of the latest turns.

    ``reference`` is the present state of the reference job, whose turns are separate for each type of ``worker``. Its
    ``wrong`` comes from the latest turn.
    """

    storage: str
    points: list[HistoryPoint]
    changes: list[LevelChange] = field(default_factory=list)
    ratio: float | None = None
    megabytes_per_s: float | None = None
    failed_part: float = 0.0
    worker: str = ""
    reference: ReferencePoint | None = None

    @property
    def name(self) -> str:
        """The storage element, and the type of worker if it is known."""
        return series_name(self.storage, self.worker)

    @property
    def latest_reference(self) -> HistoryPoint | None:
        """The latest turn in which the reference job ran."""
        return next((one for one in reversed(self.points) if one.reference is not None), None)


def series_name(storage: str, worker: str) -> str:
    """Return the name of the history of a storage element on a type of worker."""
    return f"{storage} on {worker}" if worker else storage


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
    by_series: dict[tuple[str, str], list[HistoryPoint]] = {}
    for line in lines:
        try:
            point: HistoryPoint = from_plain(HistoryPoint, json.loads(line))
            point.moment  # noqa: B018 - raises ValueError for an invalid time
        except (ValueError, RecursionError):
            continue
        by_series.setdefault((point.storage, point.worker), []).append(point)
    return [history_of(*series, points) for series, points in _with_failures(by_series).items()]


def _with_failures(by_series: dict[tuple[str, str], list[HistoryPoint]]) -> dict[tuple[str, str], list[HistoryPoint]]:
    """Add turns that failed before a worker ran the job to the turns of all types of workers."""
    found = dict(by_series)
    for (storage, worker), points in by_series.items():
        of_workers = [(other, one) for other, one in by_series if other == storage and one]
        if not worker and of_workers:
            del found[storage, worker]
            for series in of_workers:
                found[series] = sorted([*found[series], *points], key=lambda one: one.at)
    return found


def counted_points(points: Sequence[HistoryPoint]) -> list[HistoryPoint]:
    """Return the turns that count: measured on a machine that was not busy, with the same job as the latest turn."""
    job = next(((one.reference.version, one.reference.events) for one in reversed(points) if one.reference), None)
    return [
        one
        for one in points
        if one.ratio
        and one.ratio > 0
        and not one.is_busy
        and (None if one.reference is None else (one.reference.version, one.reference.events)) == job
    ]


def history_of(storage: str, worker: str, points: list[HistoryPoint]) -> StorageHistory:
    """Return the history of a storage element on a type of worker, from its turns in order of time."""
    known = counted_points(points)
    recent = known[-RECENT:]
    lost = sum(one.lost for one in points[-RECENT:])
    taken = lost + sum(one.samples for one in points[-RECENT:])
    return StorageHistory(
        storage,
        points,
        _changes(known),
        _median(one.ratio for one in recent),
        _median(one.megabytes_per_s for one in recent),
        lost / taken if taken else 0.0,
        worker,
        _present(points, [one.reference for one in recent if one.reference is not None]),
    )


def _changes(known: Sequence[HistoryPoint]) -> list[LevelChange]:
    """Return all changes, in order. Those of the storage and of the processor are searched separately. They are one
    change if fewer turns lie between them than a change point needs on each side.
    """
    reference = [one.reference for one in known if one.reference is not None]
    if not reference:
        return _changes_of("time", known, [one.ratio for one in known])
    rates = [one.fetch_bytes_per_s for one in reference]
    storage = _changes_of("storage", known, [1 / one if one else None for one in rates])
    processor = _changes_of("processor", known, [one.benchmark_cpu_s for one in reference])
    turn_of = {one.at: number for number, one in enumerate(known)}
    found = []
    for one in storage:
        beside = [other for other in processor if abs(turn_of[other.at] - turn_of[one.at]) < SIDE_MIN]
        nearest = min(beside, key=lambda other: abs(turn_of[other.at] - turn_of[one.at]), default=None)
        if nearest is not None:
            processor.remove(nearest)
            one = replace(one, what="both", processor=nearest)
        found.append(one)
    return sorted([*found, *processor], key=lambda one: one.at)


def _changes_of(what: Changed, known: Sequence[HistoryPoint], times: Sequence[float | None]) -> list[LevelChange]:
    """Return the changes of a quantity; none if a turn has no value."""
    if any(one is None or not 0 < one < math.inf for one in times):
        return []
    found = change_points([math.log(one) for one in times if one is not None])
    return [LevelChange(known[one.index].at, one.factor, one.p_value, one.low, one.high, what) for one in found]


def _present(points: Sequence[HistoryPoint], recent: Sequence[ReferencePoint]) -> ReferencePoint | None:
    last = next((one.reference for one in reversed(points) if one.reference is not None), None)
    if last is None:
        return None
    return ReferencePoint(
        last.version,
        last.events,
        _median(one.fetch_bytes_per_s for one in recent),
        _median(one.call_bytes for one in recent),
        _median(one.read_s for one in recent),
        _median(one.benchmark_cpu_s for one in recent),
        last.wrong,
    )


def _median(values: Iterable[float | None]) -> float | None:
    known = [one for one in values if one is not None]
    return statistics.median(known) if known else None


def verdict(found: Sequence[StorageHistory]) -> list[str]:
    """Return sentences for an administrator: present state, latest change and failures of each storage element, and a
    comparison.
    """
    lines = [line for one in found for line in _of_storage(one)]
    for worker in dict.fromkeys(one.worker for one in found):
        compared = [one for one in found if one.worker == worker and one.ratio is not None]
        compared.sort(key=lambda one: one.ratio or 0.0)
        if len(compared) > 1 and compared[0].ratio and compared[-1].ratio:
            fastest, slowest = compared[0], compared[-1]
            times = significant((slowest.ratio or 1.0) / (fastest.ratio or 1.0))
            lines.append(f"slowest is {slowest.name}: it takes {times} times the time of {fastest.name}")
    return lines


def _of_storage(one: StorageHistory) -> list[str]:
    turns = counted(len(one.points), "turn")
    lines = []
    latest = one.latest_reference
    if latest is not None and latest.reference is not None and latest.reference.wrong:
        lines.append(f"{one.name}: at {moment_text(latest.at)} {latest.reference.wrong}")
    busy = sum(point.is_busy for point in one.points)
    if one.ratio is None and busy:
        return [*lines, f"{one.name}: no turn counts: other programs kept the machine busy ({turns})"]
    if one.ratio is None:
        error = one.points[-1].error or "no pair is whole"
        return lines or [f"{one.name}: nothing could be measured in {turns}: {error}"]
    lines.append(f"{one.name}: {_state_text(one)} ({turns})")
    told = [change for change in one.changes if change.is_told]
    lines += [f"{one.name}: {change_text(change)}" for change in told]
    if not told:
        lines.append(f"{one.name}: no change of its speed is seen")
    if one.failed_part:
        error = next((point.error for point in reversed(one.points) if point.error), "wrong values")
        lines.append(f"{one.name}: {percent(one.failed_part, 1.0)} of the last samples failed: {error}")
    if busy:
        lines.append(f"{one.name}: {counted(busy, 'turn')} on a machine busy with other programs do not count")
    doubtful = sum(point.is_control_off and not point.is_busy for point in one.points)
    if doubtful:
        lines.append(f"{one.name}: in {counted(doubtful, 'turn')} something else disturbed the machine that measures")
    return lines


def _state_text(one: StorageHistory) -> str:
    """Return the present speed of a storage element that was measured."""
    speed = "" if one.megabytes_per_s is None else f", {significant(one.megabytes_per_s)} MB of files/s"
    state, reference = significant(one.ratio or 0.0), one.reference
    if reference is None:
        return f"{state} times the time of the reference in the last turns{speed}"
    text = f"{state} times the time of its CPU benchmark in the last turns{speed}"
    if reference.benchmark_cpu_s is not None:
        text += f", CPU benchmark {significant(reference.benchmark_cpu_s)} s"
    if reference.read_s is not None and reference.read_s < SAMPLE_MIN_S:
        text += f"; samples of {significant(reference.read_s)} s are short, more --events make them longer"
    return text


def moment_text(at: str) -> str:
    """Return the date and time of a turn for people."""
    return f"{at[:16].replace('T', ' ')} UTC"


def change_text(change: LevelChange) -> str:
    """Return a sentence with the date, the size and the subject of a change."""
    since = f"since {moment_text(change.at)}"
    if change.what == "both" and change.processor is not None:
        return f"{since} both are different: {_storage_text(change)}, and {_processor_text(change.processor)}"
    if change.what == "processor":
        return f"{since} {_processor_text(change)}, and the storage is read as before"
    if change.what == "storage":
        return f"{since} {_storage_text(change)}, and the CPU benchmark takes as long as before"
    return f"{since} it is {_times_text(change)}"


def _storage_text(change: LevelChange) -> str:
    return f"the storage is {_times_text(change)}"


def _processor_text(change: LevelChange) -> str:
    return f"the CPU benchmark is {_times_text(change)}"


def _times_text(change: LevelChange) -> str:
    word = "slower" if change.factor > 1 else "faster"
    ends = (change.low, change.high) if change.factor > 1 else (1 / change.high, 1 / change.low)
    interval = " to ".join(map(significant, ends))
    times = significant(max(change.factor, 1 / change.factor))
    return f"{times} times {word} (95 %: {interval}; chance: {change.p_value:.3f})"
