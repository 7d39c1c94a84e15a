"""Compare the results and costs of two runs of a train.

Histograms in UHI's JSON format are compared bin by bin. Tables are compared column by column and not byte by byte,
because ROOT files contain their creation time.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, TypeGuard

import numpy as np

from branchline.base.array_types import Numbers
from branchline.base.limits import (
    COMPARED_BINS_DRAWN_MAX,
    COMPARED_BYTES_MAX,
    COMPARED_FILE_MAX_BYTES,
    COMPARED_TABLE_MEMORY_BYTES,
    COMPARED_TABLE_ROWS,
    COMPARED_TABLE_S,
    COMPARED_VALUES_SHOWN_MAX,
)
from branchline.base.quantities import MIB, size
from branchline.control.trains.results import files_of, result_file
from branchline.errors import BranchlineError
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.record_parts import TableRecord

if TYPE_CHECKING:
    import awkward as ak

    from branchline.writing.merging.value_digests import BranchDigest

# States of a compared result file.
SAME, DIFFERS, ONLY_FIRST, ONLY_SECOND = "identical", "differs", "only in this run", "only in the other run"
# State of a table with the same values but different bytes, because ROOT files contain their creation time.
EQUAL = "same values"
# State of a result file whose bytes differ, but whose content could not be compared.
NOT_COMPARED = "not compared"
#: Folders whose files are compared. The file results.root is not compared: it only repeats the histograms.
_FOLDERS = ("results", "tables")
_PIECE_BYTES = MIB
#: Keys of a JSON object that describes a table. The value of "path" is not compared, because it depends on the run.
_OF_TABLE = frozenset(("path", "format", "tree", "rows", "size_bytes", "columns", "is_merged"))
# Maximum number of characters of a shown name or value.
_TEXT_MAX = 80
# Keys of a histogram axis that do not affect the bins.
_AXIS_WORDS = ("name", "label", "title", "metadata", "writer_info")
# Limits for the note of a result file: number of column names, and characters of a column name and of an error.
_NAMES_SHOWN, _NAME_MAX, _WHY_MAX = 5, 80, 200


@dataclass(frozen=True)
class BinsDrawn:
    """The bins along one axis in both runs, summed over all other axes.

    ``edges`` has one more element than ``first`` and ``second``.
    """

    axis: str = ""
    edges: list[float] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    second: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class PartCompared:
    """The comparison of a result file in both runs.

    - ``state``: SAME, EQUAL, DIFFERS, ONLY_FIRST, ONLY_SECOND or NOT_COMPARED; ``note`` has details.
    - ``count``: number of bins of a histogram, including underflow and overflow; otherwise number of values.
    - ``differing``: number of bins or values that differ.
    - ``largest``: largest absolute difference.
    - ``in_errors``: largest ratio of a bin's difference to the larger error of both runs; None without errors.
    - ``values``: some of the differing values.
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
    """A value in both runs, as strings. A missing value is an empty string."""

    name: str
    first: str = ""
    second: str = ""


@dataclass(frozen=True)
class CostCompared:
    """A cost in both runs, for a wagon, or for the whole train if ``wagon`` is empty.

    ``unit`` is "s", "bytes", "events", "events/s" or "bytes/s".
    """

    name: str
    first: float
    second: float
    unit: str
    wagon: str = ""

    @property
    def change(self) -> float | None:
        """Relative change from ``second`` to ``first``; None if ``second`` is 0."""
        return self.first / self.second - 1 if self.second else None


@dataclass(frozen=True)
class RunsCompared:
    """The comparison of two runs.

    ``is_identical`` is whether all files have the same bytes or, for tables, the same values.
    """

    is_identical: bool
    parts: list[PartCompared] = field(default_factory=list)
    costs: list[CostCompared] = field(default_factory=list)


def compare_runs(first_out: Path, first: JobRecord, second_out: Path, second: JobRecord) -> RunsCompared:
    """Compare this run (``first``) with another run (``second``).

    Reads at most COMPARED_BYTES_MAX bytes. The remaining files get the state NOT_COMPARED.
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


# --- result files -----------------------------------------------------------------------------------------------------


class _Run:
    """A run with the names of its compared result files."""

    def __init__(self, out: Path, record: JobRecord) -> None:
        self.out = out
        self.record = record
        self.names = [name for name in files_of(record) if Path(name).parts[:1] in [(one,) for one in _FOLDERS]]

    def path(self, name: str) -> Path | None:
        return result_file(self.out, self.record, name)


def _compare_part(name: str, first: _Run, second: _Run, left_bytes: int) -> tuple[PartCompared, int]:
    """Return the comparison of a result file, and the number of bytes that were read."""
    ours, theirs = first.path(name), second.path(name)
    if ours is None or theirs is None:
        state = ONLY_FIRST if ours else ONLY_SECOND if theirs else NOT_COMPARED
        return PartCompared(name, _kind(name), state, note="" if ours or theirs else "the file is missing"), 0
    try:
        sizes = ours.stat().st_size, theirs.stat().st_size
        if sum(sizes) > left_bytes or max(sizes) > COMPARED_FILE_MAX_BYTES:
            note = f"too large to compare here: {size(sizes[0])} and {size(sizes[1])}"
            return PartCompared(name, _kind(name), NOT_COMPARED, note=note), 0
        if sizes[0] == sizes[1] and _have_same_bytes(ours, theirs):
            return PartCompared(name, _kind(name)), sum(sizes)
        return _compare_content(name, ours, theirs, first.record, second.record), sum(sizes)
    except OSError as error:
        return PartCompared(name, _kind(name), NOT_COMPARED, note=f"cannot read it: {error.strerror}"), 0


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
    """Compare the content of a result file whose bytes differ between the runs."""
    if _kind(name) == "table":
        # ROOT files contain their creation time, so compare columns: first as listed in the records, then their values.
        tables = [next((one for one in each.tables if name in one.files), None) for each in (record, other)]
        if tables[0] is None or tables[1] is None:
            return PartCompared(name, "table", NOT_COMPARED)
        if tables[0].columns != tables[1].columns:
            return PartCompared(name, "table", DIFFERS, note="the columns differ")
        return _compare_tables(name, first, second, tables[0], tables[1])
    if not name.endswith(".json"):
        note = f"the bytes differ: {size(first.stat().st_size)} and {size(second.stat().st_size)}"
        return PartCompared(name, _kind(name), DIFFERS, note=note)
    try:
        ours, theirs = _load_json(first), _load_json(second)
        if is_histogram(ours) and is_histogram(theirs):
            return _compare_histograms(name, ours, theirs)
        return _compare_data(name, ours, theirs)
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError, MemoryError) as error:
        return PartCompared(name, _kind(name), DIFFERS, note=f"cannot compare the content: {error!s:.200}")


# --- JSON data --------------------------------------------------------------------------------------------------------


def _load_json(path: Path) -> object:
    with path.open("rb") as file:
        content = file.read(COMPARED_FILE_MAX_BYTES + 1)
    if len(content) > COMPARED_FILE_MAX_BYTES:
        raise ValueError("the file grew during reading")
    plain: object = json.loads(content)
    return plain


def _compare_data(name: str, first: object, second: object) -> PartCompared:
    ours, theirs = dict(_flatten(first)), dict(_flatten(second))
    names = list(dict.fromkeys([*ours, *theirs]))
    # Compare the repr, so that 1, 1.0 and True differ, and NaN equals NaN.
    differing = [one for one in names if one not in ours or one not in theirs or repr(ours[one]) != repr(theirs[one])]
    largest = max([_distance(ours.get(one), theirs.get(one)) for one in differing], default=0.0)
    shown = [
        ValueCompared(one[:_TEXT_MAX], _value_text(ours, one), _value_text(theirs, one))
        for one in differing[:COMPARED_VALUES_SHOWN_MAX]
    ]
    state = DIFFERS if differing else SAME
    return PartCompared(name, "data", state, len(names), len(differing), largest, values=shown)


def _flatten(content: object) -> Iterator[tuple[str, object]]:
    """Yield the path and the value of each leaf in JSON data."""
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


def _distance(first: object, second: object) -> float:
    if isinstance(first, int | float) and isinstance(second, int | float):
        distance = abs(float(first) - float(second))
        return distance if distance < float("inf") else 0.0
    return 0.0


def _value_text(values: dict[str, object], name: str) -> str:
    return repr(values[name])[:_TEXT_MAX] if name in values else ""


# --- histograms -------------------------------------------------------------------------------------------------------


class _UhiAxis(TypedDict, total=False):
    """An unvalidated axis in UHI's JSON format. ``type`` determines which other keys the axis has."""

    type: str
    bins: object
    lower: float
    upper: float
    edges: list[float]
    underflow: bool
    metadata: object


class UhiHistogram(TypedDict):
    """A histogram in UHI's JSON format. The axes are not validated."""

    axes: list[_UhiAxis]
    storage: dict[str, object]


def is_histogram(content: object) -> TypeGuard[UhiHistogram]:
    """Whether JSON data are a histogram in UHI's JSON format."""
    return isinstance(content, dict) and "uhi_schema" in content and isinstance(content.get("storage"), dict)


def _compare_histograms(name: str, first: UhiHistogram, second: UhiHistogram) -> PartCompared:
    """Compare two histograms bin by bin, including underflow and overflow.

    Raises ValueError, TypeError or KeyError for invalid histograms.
    """
    axes = [_plain_axes(one) for one in (first, second)]
    ours, theirs = first["storage"], second["storage"]
    if axes[0] != axes[1]:
        return PartCompared(name, "histogram", DIFFERS, note="the binning differs")
    if ours.get("type") != theirs.get("type") or ours.keys() != theirs.keys():
        return PartCompared(name, "histogram", DIFFERS, note="the storage types differ")
    numbers = {key: (_bin_numbers(ours[key]), _bin_numbers(theirs[key])) for key in ours if key != "type"}
    shape = numbers["values"][0].shape
    if any(one.shape != shape for pair in numbers.values() for one in pair):
        return PartCompared(name, "histogram", DIFFERS, note="the binning differs")
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


def _plain_axes(content: UhiHistogram) -> list[dict[str, object]]:
    if not all(isinstance(axis, dict) for axis in content["axes"]):
        raise ValueError("the axes are invalid")
    return [{key: value for key, value in axis.items() if key not in _AXIS_WORDS} for axis in content["axes"]]


def _bin_numbers(plain: object) -> Numbers:
    found = np.asarray(plain)
    if found.dtype.kind not in "iufb" or not found.size:
        raise ValueError("the bins are not numbers")
    return found.astype(float) if found.dtype.kind == "b" else found


def _bin_errors(storage: Mapping[str, object], numbers: Mapping[str, tuple[Numbers, Numbers]], which: int) -> Numbers:
    """Return the bins' errors: the errors of means, or else the square roots of the variances or of the values."""
    values = numbers["values"][which].astype(float)
    if "variances" not in numbers:
        return np.asarray(np.sqrt(np.abs(values)))
    variances = numbers["variances"][which].astype(float)
    if storage.get("type") in ("mean", "weighted_mean"):
        counts = numbers.get("counts") or numbers.get("sum_of_weights")
        return np.asarray(np.sqrt(variances / counts[which])) if counts else np.zeros_like(values)
    return np.asarray(np.sqrt(variances))


def _draw_bins(axes: Sequence[_UhiAxis], first: Numbers, second: Numbers) -> BinsDrawn | None:
    """Return the bins of both runs along the first suitable axis, summed over the other axes.

    A suitable axis is numeric and has only finite values and edges. Underflow and overflow are excluded. Returns None
    if there is no suitable axis.
    """
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


def _axis_edges(axis: _UhiAxis, cells: int) -> Numbers | None:
    """Return the bin edges of a numeric axis; None for other axes.

    Returns None if a regular axis claims more than ``cells`` bins, because the number of bins is untrusted.
    """
    if axis.get("type") == "regular":
        bins = axis["bins"]
        if not isinstance(bins, int) or not 0 < bins <= cells:
            return None
        return np.linspace(float(axis["lower"]), float(axis["upper"]), bins + 1)
    if axis.get("type") == "variable":
        return np.asarray(axis["edges"], float)
    return None


# --- tables -----------------------------------------------------------------------------------------------------------


def _compare_tables(name: str, ours: Path, theirs: Path, first: TableRecord, second: TableRecord) -> PartCompared:
    """Compare the columns of two tables by digests of their values. ``count`` and ``differing`` count columns.

    A table gets the state NOT_COMPARED if it cannot be read, or not within COMPARED_TABLE_S seconds.
    """
    end_s = time.monotonic() + COMPARED_TABLE_S
    try:
        our_columns = _column_digests(ours, first, end_s)
        their_columns = _column_digests(theirs, second, end_s)
    except _TooLongError:
        return PartCompared(name, "table", NOT_COMPARED, note=f"reading it takes more than {COMPARED_TABLE_S:.0f} s")
    # Readers raise various exceptions for damaged files.
    except (BranchlineError, OSError, ValueError, TypeError, KeyError, MemoryError, NotImplementedError) as error:
        return PartCompared(name, "table", NOT_COMPARED, note=f"cannot read it: {str(error)[:_WHY_MAX]}")
    if our_columns.keys() != their_columns.keys():
        others = _column_names(our_columns.keys() ^ their_columns.keys())
        return PartCompared(name, "table", DIFFERS, note=f"different columns: {others}")
    rows = [max((one.entries for one in each.values()), default=0) for each in (our_columns, their_columns)]
    differing = [one for one in our_columns if our_columns[one] != their_columns[one]]
    if rows[0] != rows[1]:
        note = f"{rows[0]} and {rows[1]} rows"
    elif differing:
        note = f"{rows[0]} rows in both; values differ in {_column_names(differing)}"
    else:
        note = f"{rows[0]} rows, all with the same values"
    return PartCompared(name, "table", DIFFERS if differing else EQUAL, len(our_columns), len(differing), note=note)


class _TooLongError(Exception):
    """Reading a table takes longer than the time limit of a page."""


def _column_names(names: Iterable[str]) -> str:
    every = sorted(names)
    more = f" and {len(every) - _NAMES_SHOWN} more" if len(every) > _NAMES_SHOWN else ""
    return ", ".join(one[:_NAME_MAX] for one in every[:_NAMES_SHOWN]) + more


def _column_digests(path: Path, record: TableRecord, end_s: float) -> dict[str, BranchDigest]:
    """Return the digests of all columns of a table. Raises _TooLongError after ``end_s``, and all read errors."""
    # Imported only if needed: this module imports awkward, which would delay the start of the server.
    from branchline.writing.merging.value_digests import BranchHasher

    hashers: dict[str, BranchHasher] = {}
    for step in _row_steps(path, record):
        if time.monotonic() > end_s:
            raise _TooLongError
        for column in step.fields:
            hashers.setdefault(column, BranchHasher()).add(step[column])
    return {column: hasher.value() for column, hasher in hashers.items()}


def _row_steps(path: Path, record: TableRecord) -> Iterator[ak.Array]:
    """Yield the rows of a table file in chunks, as awkward records."""
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


# --- costs ------------------------------------------------------------------------------------------------------------


def _costs(first: JobRecord, second: JobRecord) -> Iterator[CostCompared]:
    """Yield the costs of both runs: first for the whole train, then for each wagon that both runs have."""
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
