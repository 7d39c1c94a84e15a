"""Compares two runs of a train: their results, bin by bin and value by value, and what they cost."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from branchline.base.limits import COMPARED_BYTES_MAX, COMPARED_FILE_MAX_BYTES, COMPARED_VALUES_SHOWN_MAX
from branchline.base.quantities import size
from branchline.control.trains.comparison.bins import compare_histograms, is_histogram
from branchline.control.trains.comparison.compared import (
    DIFFERS,
    EQUAL,
    NOT_COMPARED,
    ONLY_FIRST,
    ONLY_SECOND,
    SAME,
    CostCompared,
    PartCompared,
    RunsCompared,
    ValueCompared,
)
from branchline.control.trains.comparison.table_content import compare_tables
from branchline.control.trains.results import files_of, result_file
from branchline.records.sensors.record import JobRecord

#: Results in open formats, and tables. results.root has the histograms once more, with the time of writing.
_FOLDERS = ("results", "tables")
_PIECE_BYTES = 2**20
#: What stands for a table among results. Its path is that of the run, and its rows are compared by themselves.
_OF_TABLE = frozenset(("path", "format", "tree", "rows", "size_bytes", "columns", "is_merged"))
_TEXT_MAX = 80


class _Run:
    """A run and the files of its results."""

    def __init__(self, out: Path, record: JobRecord) -> None:
        self.out = out
        self.record = record
        self.names = [name for name in files_of(record) if Path(name).parts[:1] in [(one,) for one in _FOLDERS]]

    def path(self, name: str) -> Path | None:
        return result_file(self.out, self.record, name)


def compare_runs(first_out: Path, first: JobRecord, second_out: Path, second: JobRecord) -> RunsCompared:
    """Compares this run (``first``) with another one. Reads at most COMPARED_BYTES_MAX bytes of the results that
    differ; the rest is said to be not compared.
    """
    runs = _Run(first_out, first), _Run(second_out, second)
    left_bytes = COMPARED_BYTES_MAX
    parts = []
    for name in dict.fromkeys([*runs[0].names, *runs[1].names]):
        part, read_bytes = _part(name, *runs, left_bytes)
        left_bytes -= read_bytes
        parts.append(part)
    parts.sort(key=lambda one: (one.state in (SAME, EQUAL), -(one.in_errors or 0.0), -one.differing, one.name))
    is_identical = bool(parts) and all(one.state in (SAME, EQUAL) for one in parts)
    return RunsCompared(is_identical, parts, [*_costs(first, second)])


def _part(name: str, first: _Run, second: _Run, left_bytes: int) -> tuple[PartCompared, int]:
    """The part, and the bytes that were read for it."""
    ours, theirs = first.path(name), second.path(name)
    if ours is None or theirs is None:
        state = ONLY_FIRST if ours else ONLY_SECOND if theirs else NOT_COMPARED
        return PartCompared(name, _kind(name), state, note="" if ours or theirs else "its file is gone"), 0
    try:
        sizes = ours.stat().st_size, theirs.stat().st_size
        if sum(sizes) > left_bytes or max(sizes) > COMPARED_FILE_MAX_BYTES:
            note = f"it is too large to be compared here: {size(sizes[0])} and {size(sizes[1])}"
            return PartCompared(name, _kind(name), NOT_COMPARED, note=note), 0
        if sizes[0] == sizes[1] and _have_same_bytes(ours, theirs):
            return PartCompared(name, _kind(name)), sum(sizes)
        return _of_content(name, ours, theirs, first.record, second.record), sum(sizes)
    except OSError as error:
        return PartCompared(name, _kind(name), NOT_COMPARED, note=f"it cannot be read: {error.strerror}"), 0


def _have_same_bytes(first: Path, second: Path) -> bool:
    with first.open("rb") as left, second.open("rb") as right:
        while piece := left.read(_PIECE_BYTES):
            if piece != right.read(_PIECE_BYTES):
                return False
        return not right.read(1)


def _of_content(name: str, first: Path, second: Path, record: JobRecord, other: JobRecord) -> PartCompared:
    """The part whose bytes differ, by what they say."""
    if _kind(name) == "table":
        return _table(name, first, second, record, other)
    if not name.endswith(".json"):
        note = f"its bytes differ: {size(first.stat().st_size)} and {size(second.stat().st_size)}"
        return PartCompared(name, _kind(name), DIFFERS, note=note)
    try:
        contents = _json(first), _json(second)
        if is_histogram(contents[0]) and is_histogram(contents[1]):
            return compare_histograms(name, *contents)
        return _data(name, *contents)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError) as error:
        return PartCompared(name, _kind(name), DIFFERS, note=f"its content cannot be compared: {error!s:.200}")


def _json(path: Path) -> object:
    with path.open("rb") as file:
        content = file.read(COMPARED_FILE_MAX_BYTES + 1)
    if len(content) > COMPARED_FILE_MAX_BYTES:
        raise ValueError("it grew while it was read")
    plain: object = json.loads(content)
    return plain


def _kind(name: str) -> str:
    if name.startswith("tables/"):
        return "table"
    suffix = name.rpartition(".")[2]
    return {"json": "data", "npz": "array", "parquet": "columns", "zip": "histogram"}.get(suffix, "file")


def _table(name: str, first: Path, second: Path, record: JobRecord, other: JobRecord) -> PartCompared:
    """Bytes of a ROOT file have its date: columns are compared by the records, then by their values."""
    ours, theirs = ([one for one in each.tables if name in one.files] for each in (record, other))
    if not ours or not theirs:
        return PartCompared(name, "table", NOT_COMPARED)
    if ours[0].columns != theirs[0].columns:
        return PartCompared(name, "table", DIFFERS, note="it has other columns")
    return compare_tables(name, first, second, ours[0], theirs[0])


def _data(name: str, first: object, second: object) -> PartCompared:
    ours, theirs = dict(_values(first)), dict(_values(second))
    names = list(dict.fromkeys([*ours, *theirs]))
    differing = [one for one in names if one not in ours or one not in theirs or not _same(ours[one], theirs[one])]
    largest = max([_distance(ours.get(one), theirs.get(one)) for one in differing], default=0.0)
    shown = [
        ValueCompared(one[:_TEXT_MAX], _text(ours, one), _text(theirs, one))
        for one in differing[:COMPARED_VALUES_SHOWN_MAX]
    ]
    state = DIFFERS if differing else SAME
    return PartCompared(name, "data", state, len(names), len(differing), largest, values=shown)


def _values(content: object) -> Iterator[tuple[str, object]]:
    """All numbers and texts of the data, with the way to each."""
    waiting: list[tuple[str, object]] = [("", content)]
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict) and value:
            if value.keys() == _OF_TABLE:
                value = {key: one for key, one in value.items() if key != "path"}
            waiting += [(f"{name}/{key}" if name else str(key), one) for key, one in reversed(value.items())]
        elif isinstance(value, list) and value:
            waiting += [(f"{name}[{index}]", one) for index, one in reversed(list(enumerate(value)))]
        else:
            yield name, value


def _same(first: object, second: object) -> bool:
    # By their texts, so that 1, 1.0 and True differ, and what is not a number is equal to itself.
    return repr(first) == repr(second)


def _distance(first: object, second: object) -> float:
    if isinstance(first, int | float) and isinstance(second, int | float):
        distance = abs(float(first) - float(second))
        return distance if distance < float("inf") else 0.0
    return 0.0


def _text(values: dict[str, object], name: str) -> str:
    return repr(values[name])[:_TEXT_MAX] if name in values else ""


def _costs(first: JobRecord, second: JobRecord) -> Iterator[CostCompared]:
    """What both runs cost, the whole train first."""
    yield CostCompared("wall time", first.wall_s, second.wall_s, "s")
    yield CostCompared("CPU time", first.cpu_s, second.cpu_s, "s")
    yield CostCompared("bytes read", *_read_bytes(first, second), "bytes")
    yield CostCompared("read per second", *_rates(first, second, *_read_bytes(first, second)), "bytes/s")
    yield CostCompared("events", first.events, second.events, "events")
    yield CostCompared("events per second", *_rates(first, second, first.events, second.events), "events/s")
    yield CostCompared("memory", first.memory_peak_bytes, second.memory_peak_bytes, "bytes")
    theirs = {one.name: one for one in second.wagons}
    for one in first.wagons:
        other = theirs.get(one.name)
        if other is not None:
            yield CostCompared("CPU time", one.cpu_s, other.cpu_s, "s", one.name)
            yield CostCompared("events", one.events, other.events, "events", one.name)
            yield CostCompared("output", one.output_bytes, other.output_bytes, "bytes", one.name)


def _read_bytes(first: JobRecord, second: JobRecord) -> tuple[int, int]:
    return first.totals.bytes_read, second.totals.bytes_read


def _rates(first: JobRecord, second: JobRecord, ours: float, theirs: float) -> tuple[float, float]:
    return ours / first.wall_s if first.wall_s else 0.0, theirs / second.wall_s if second.wall_s else 0.0
