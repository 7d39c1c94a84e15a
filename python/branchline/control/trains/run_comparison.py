"""Compare two runs of a train: their results, bin by bin and value by value, and their costs.

Histograms in UHI's JSON are compared bin by bin. Tables are compared by column, since the bytes of ROOT files differ
with the time of writing.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from branchline.base.limits import (
    COMPARED_BINS_DRAWN_MAX,
    COMPARED_BYTES_MAX,
    COMPARED_FILE_MAX_BYTES,
    COMPARED_TABLE_MEMORY_BYTES,
    COMPARED_TABLE_ROWS,
    COMPARED_TABLE_S,
    COMPARED_VALUES_SHOWN_MAX,
)
from branchline.base.quantities import size
from branchline.control.trains.results import files_of, result_file
from branchline.errors import BranchlineError
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.record_parts import TableRecord

if TYPE_CHECKING:
    from branchline.writing.merging.value_digests import BranchDigest

# How a part of the results compares.
SAME, DIFFERS, ONLY_FIRST, ONLY_SECOND = "identical", "differs", "only in this run", "only in the other run"
# A table whose bytes differ, by the time of writing, and not its values.
EQUAL = "same values"
# Its bytes differ, and what that means cannot be told here.
NOT_COMPARED = "not compared"
#: Results in open formats, and tables. results.root has the histograms once more, with the time of writing.
_FOLDERS = ("results", "tables")
_PIECE_BYTES = 2**20
#: What stands for a table among results. Its path is that of the run, and its rows are compared by themselves.
_OF_TABLE = frozenset(("path", "format", "tree", "rows", "size_bytes", "columns", "is_merged"))
# Maximum length of a shown name or value.
_TEXT_MAX = 80
# Keys of an axis that do not affect its bins.
_AXIS_WORDS = ("name", "label", "title", "metadata", "writer_info")
# Maximum number and length of column names in a note, and maximum length of an error in it.
_NAMES_SHOWN, _NAME_MAX, _WHY_MAX = 5, 80, 200


@dataclass(frozen=True)
class BinsDrawn:
    """The bins of one axis in both runs, with sums over all other axes: ``edges`` has one more than each list."""

    axis: str = ""
    edges: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class PartCompared:
    """A file of the results in both runs: ``state`` is one of the words above, ``note`` says more.

    Of a histogram ``count`` is the number of bins with underflow and overflow, of data the number of values;
    ``differing`` is how many of them differ. ``largest`` is the largest difference of a bin or a number, and
    ``in_errors`` the largest difference in units of its bin's error, the larger of both runs; None without an error.
    ``values`` has some of the differing values as texts: name, this run, the other run.
    """

    name: str
    kind: str = ""
    state: str = SAME
    count: int = 0
    differing: int = 0
    largest: float = 0.0
    in_errors: float | None = None
    note: str = ""
    values: list[ValueCompared] = field(default_factory=list)
    bins: BinsDrawn | None = None


@dataclass(frozen=True)
class ValueCompared:
    """A number, text or list of the data in both runs; an empty text where it is missing."""

    name: str
    first: str = ""
    second: str = ""


@dataclass(frozen=True)
class CostCompared:
    """A quantity in both runs, in ``unit``: "s", "bytes", "events", "events/s" or "bytes/s". ``wagon`` is empty for the
    whole train.
    """

    name: str
    first: float
    second: float
    unit: str
    wagon: str = ""

    @property
    def change(self) -> float | None:
        """The share by which this run is above the other one; None where that was 0."""
        return self.first / self.second - 1 if self.second else None


@dataclass(frozen=True)
class RunsCompared:
    """Two runs. ``is_identical`` says that all results are the same, bit for bit: of tables their values."""

    is_identical: bool
    parts: list[PartCompared] = field(default_factory=list)
    costs: list[CostCompared] = field(default_factory=list)


def compare_runs(first_out: Path, first: JobRecord, second_out: Path, second: JobRecord) -> RunsCompared:
    """Compares this run (``first``) with another one. Reads at most COMPARED_BYTES_MAX bytes of the results that
    differ; the rest is said to be not compared.
    """
    runs = _Run(first_out, first), _Run(second_out, second)
    left_bytes = COMPARED_BYTES_MAX
    parts = []
    for name in dict.fromkeys([*runs[0].names, *runs[1].names]):
        part, read_bytes = _compare_part(name, *runs, left_bytes)
        left_bytes -= read_bytes
        parts.append(part)
    parts.sort(key=lambda one: (one.state in (SAME, EQUAL), -(one.in_errors or 0.0), -one.differing, one.name))
    is_identical = bool(parts) and all(one.state in (SAME, EQUAL) for one in parts)
    return RunsCompared(is_identical, parts, [*_costs(first, second)])


class _Run:
    """A run and the files of its results."""

    def __init__(self, out: Path, record: JobRecord) -> None:
        self.out = out
        self.record = record
        self.names = [name for name in files_of(record) if Path(name).parts[:1] in [(one,) for one in _FOLDERS]]

    def path(self, name: str) -> Path | None:
        return result_file(self.out, self.record, name)


def _compare_part(name: str, first: _Run, second: _Run, left_bytes: int) -> tuple[PartCompared, int]:
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
        return _compare_content(name, ours, theirs, first.record, second.record), sum(sizes)
    except OSError as error:
        return PartCompared(name, _kind(name), NOT_COMPARED, note=f"it cannot be read: {error.strerror}"), 0


def _kind(name: str) -> str:
    if name.startswith("tables/"):
        return "table"
    suffix = name.rpartition(".")[2]
    return {"json": "data", "npz": "array", "parquet": "columns", "zip": "histogram"}.get(suffix, "file")


def _have_same_bytes(first: Path, second: Path) -> bool:
    with first.open("rb") as left, second.open("rb") as right:
        while piece := left.read(_PIECE_BYTES):
            if piece != right.read(_PIECE_BYTES):
                return False
        return not right.read(1)


def _compare_content(name: str, first: Path, second: Path, record: JobRecord, other: JobRecord) -> PartCompared:
    """The part whose bytes differ, by what they say."""
    if _kind(name) == "table":
        return _compare_table_files(name, first, second, record, other)
    if not name.endswith(".json"):
        note = f"its bytes differ: {size(first.stat().st_size)} and {size(second.stat().st_size)}"
        return PartCompared(name, _kind(name), DIFFERS, note=note)
    try:
        contents = _load_json(first), _load_json(second)
        if is_histogram(contents[0]) and is_histogram(contents[1]):
            return compare_histograms(name, *contents)
        return _compare_data(name, *contents)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError) as error:
        return PartCompared(name, _kind(name), DIFFERS, note=f"its content cannot be compared: {error!s:.200}")


def _load_json(path: Path) -> object:
    with path.open("rb") as file:
        content = file.read(COMPARED_FILE_MAX_BYTES + 1)
    if len(content) > COMPARED_FILE_MAX_BYTES:
        raise ValueError("it grew while it was read")
    plain: object = json.loads(content)
    return plain


def _compare_data(name: str, first: object, second: object) -> PartCompared:
    ours, theirs = dict(_flatten(first)), dict(_flatten(second))
    names = list(dict.fromkeys([*ours, *theirs]))
    differing = [one for one in names if one not in ours or one not in theirs or not _same(ours[one], theirs[one])]
    largest = max([_distance(ours.get(one), theirs.get(one)) for one in differing], default=0.0)
    shown = [
        ValueCompared(one[:_TEXT_MAX], _value_text(ours, one), _value_text(theirs, one))
        for one in differing[:COMPARED_VALUES_SHOWN_MAX]
    ]
    state = DIFFERS if differing else SAME
    return PartCompared(name, "data", state, len(names), len(differing), largest, values=shown)


def _flatten(content: object) -> Iterator[tuple[str, object]]:
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


def _value_text(values: dict[str, object], name: str) -> str:
    return repr(values[name])[:_TEXT_MAX] if name in values else ""


_Array = npt.NDArray[Any]


def is_histogram(content: object) -> bool:
    """Whether this is a histogram in UHI's JSON."""
    return isinstance(content, dict) and "uhi_schema" in content and isinstance(content.get("storage"), dict)


def compare_histograms(name: str, first: Any, second: Any) -> PartCompared:
    """The histograms bin by bin, underflow and overflow too. Raises errors of wrong values for what is none."""
    axes = [_plain_axes(one) for one in (first, second)]
    ours, theirs = first["storage"], second["storage"]
    if axes[0] != axes[1]:
        return PartCompared(name, "histogram", DIFFERS, note="it has other bins")
    if ours.get("type") != theirs.get("type") or ours.keys() != theirs.keys():
        return PartCompared(name, "histogram", DIFFERS, note="its bins keep something else")
    numbers = {key: (_bin_numbers(ours[key]), _bin_numbers(theirs[key])) for key in ours if key != "type"}
    shape = numbers["values"][0].shape
    if any(one.shape != shape for pair in numbers.values() for one in pair):
        return PartCompared(name, "histogram", DIFFERS, note="it has other bins")
    is_other = np.zeros(shape, bool)
    for before, after in numbers.values():
        is_other |= (before != after) & ~(np.isnan(before) & np.isnan(after))
    left, right = numbers["values"]
    with np.errstate(all="ignore"):
        distance = np.nan_to_num(np.abs(left.astype(float) - right.astype(float)), posinf=0.0)
        error = np.maximum(_bin_errors(ours, numbers, 0), _bin_errors(ours, numbers, 1))
        has_error = is_other & (error > 0) & np.isfinite(error)
        pulls = distance[has_error] / error[has_error]
    return PartCompared(
        name,
        "histogram",
        DIFFERS if is_other.any() else SAME,
        int(is_other.size),
        int(is_other.sum()),
        float(distance.max(initial=0.0)),
        float(pulls.max()) if pulls.size and math.isfinite(pulls.max()) else None,
        bins=_draw_bins(first["axes"], left, right),
    )


def _plain_axes(content: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    if not all(isinstance(axis, dict) for axis in content["axes"]):
        raise ValueError("its axes are none")
    return [{key: value for key, value in axis.items() if key not in _AXIS_WORDS} for axis in content["axes"]]


def _bin_numbers(plain: object) -> _Array:
    found = np.asarray(plain)
    if found.dtype.kind not in "iufb" or not found.size:
        raise ValueError("its bins are not numbers")
    return found.astype(float) if found.dtype.kind == "b" else found


def _bin_errors(storage: Mapping[str, Any], numbers: Mapping[str, tuple[_Array, _Array]], which: int) -> _Array:
    """Of counts their square root; of a mean what its entries scatter by, over the root of their number."""
    values = numbers["values"][which].astype(float)
    if "variances" not in numbers:
        return np.asarray(np.sqrt(np.abs(values)))
    variances = numbers["variances"][which].astype(float)
    if storage.get("type") in ("mean", "weighted_mean"):
        counts = numbers.get("counts") or numbers.get("sum_of_weights")
        return np.asarray(np.sqrt(variances / counts[which])) if counts else np.zeros_like(values)
    return np.asarray(np.sqrt(variances))


def _draw_bins(axes: list[Mapping[str, Any]], first: _Array, second: _Array) -> BinsDrawn | None:
    """Both over the first axis with numbers, sums over the others, without underflow and overflow."""
    for index, axis in enumerate(axes):
        edges = _axis_edges(axis, first.shape[index])
        if edges is None:
            continue
        low = 1 if axis.get("underflow") else 0
        others = tuple(one for one in range(first.ndim) if one != index)
        lists = [one.astype(float).sum(axis=others)[low : low + len(edges) - 1] for one in (first, second)]
        if len(lists[0]) != len(edges) - 1 or not all(np.isfinite(one).all() for one in (*lists, edges)):
            continue
        step = math.ceil(len(lists[0]) / COMPARED_BINS_DRAWN_MAX)
        starts = np.arange(0, len(lists[0]), step)
        sums = [np.add.reduceat(one, starts).tolist() for one in lists]
        label = axis.get("metadata", {})
        name = label.get("label") or label.get("name") if isinstance(label, dict) else ""
        return BinsDrawn(str(name or "")[:80], [*edges[starts].tolist(), float(edges[-1])], *sums)
    return None


def _axis_edges(axis: Mapping[str, Any], cells: int) -> _Array | None:
    """The edges of an axis with numbers. Its number of bins comes from outside: it has to fit the cells."""
    if axis.get("type") == "regular":
        bins = axis["bins"]
        if not isinstance(bins, int) or not 0 < bins <= cells:
            return None
        return np.linspace(float(axis["lower"]), float(axis["upper"]), bins + 1)
    if axis.get("type") == "variable":
        return np.asarray(axis["edges"], float)
    return None


def _compare_table_files(name: str, first: Path, second: Path, record: JobRecord, other: JobRecord) -> PartCompared:
    """Bytes of a ROOT file have its date: columns are compared by the records, then by their values."""
    ours, theirs = ([one for one in each.tables if name in one.files] for each in (record, other))
    if not ours or not theirs:
        return PartCompared(name, "table", NOT_COMPARED)
    if ours[0].columns != theirs[0].columns:
        return PartCompared(name, "table", DIFFERS, note="it has other columns")
    return compare_tables(name, first, second, ours[0], theirs[0])


def compare_tables(name: str, ours: Path, theirs: Path, first: TableRecord, second: TableRecord) -> PartCompared:
    """The values of all columns, by digests. ``count`` is the number of columns, ``differing`` of those that differ.

    Takes up to COMPARED_TABLE_S seconds; a table that takes longer, or that cannot be read, is not compared.
    """
    end_s = time.monotonic() + COMPARED_TABLE_S
    try:
        found = [_column_digests(ours, first, end_s), _column_digests(theirs, second, end_s)]
    except _TooLongError:
        return PartCompared(name, "table", NOT_COMPARED, note=f"reading it takes more than {COMPARED_TABLE_S:.0f} s")
    # What is no Parquet file is told in many ways.
    except (BranchlineError, OSError, ValueError, TypeError, KeyError, MemoryError, NotImplementedError) as error:
        return PartCompared(name, "table", NOT_COMPARED, note=f"it cannot be read: {str(error)[:_WHY_MAX]}")
    return _compare_digests(name, *found)


def _compare_digests(name: str, ours: dict[str, BranchDigest], theirs: dict[str, BranchDigest]) -> PartCompared:
    if ours.keys() != theirs.keys():
        return PartCompared(
            name, "table", DIFFERS, note=f"it has other columns: {_column_names(ours.keys() ^ theirs.keys())}"
        )
    rows = [max((one.entries for one in each.values()), default=0) for each in (ours, theirs)]
    differing = [one for one in ours if ours[one] != theirs[one]]
    if rows[0] != rows[1]:
        note = f"{rows[0]} and {rows[1]} rows"
    elif differing:
        note = f"{rows[0]} rows in both; other values in {_column_names(differing)}"
    else:
        note = f"{rows[0]} rows, all with the same values"
    return PartCompared(name, "table", DIFFERS if differing else EQUAL, len(ours), len(differing), note=note)


class _TooLongError(Exception):
    """A page does not wait longer."""


def _column_names(names: Any) -> str:
    every = sorted(names)
    more = f" and {len(every) - _NAMES_SHOWN} more" if len(every) > _NAMES_SHOWN else ""
    return ", ".join(one[:_NAME_MAX] for one in every[:_NAMES_SHOWN]) + more


def _column_digests(path: Path, record: TableRecord, end_s: float) -> dict[str, BranchDigest]:
    """Raises _TooLongError, and what reading raises."""
    # Imported here since it imports awkward.
    from branchline.writing.merging.value_digests import BranchHasher

    hashers: dict[str, BranchHasher] = {}
    for step in _row_steps(path, record):
        if time.monotonic() > end_s:
            raise _TooLongError
        for column in step.fields:
            hashers.setdefault(column, BranchHasher()).add(step[column])
    return {column: hasher.value() for column, hasher in hashers.items()}


def _row_steps(path: Path, record: TableRecord) -> Iterator[Any]:
    """The rows of a file, some at a time, as records."""
    if path.suffix == ".parquet":
        import awkward as ak
        import pyarrow.parquet

        with pyarrow.parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(COMPARED_TABLE_ROWS):
                yield ak.from_arrow(batch)
        return
    from branchline.reading.trees.iteration import iterate

    source = f"{path}:{record.tree}" if record.tree else str(path)
    yield from iterate(
        [source], step_size=COMPARED_TABLE_ROWS, workers=1, memory_limit=COMPARED_TABLE_MEMORY_BYTES, access="plain"
    )


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
