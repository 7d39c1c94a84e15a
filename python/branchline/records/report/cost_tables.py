"""The cost tables of the report: a row for each wagon, branch, file and storage element, the highest cost first.

Long lists are truncated, so that the page of a job with 100 000 files stays small. The last row of a truncated table of
files or branches has the sums of the hidden rows.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from branchline.base.palette import GREY
from branchline.base.quantities import count, counted, duration, percent, rate, ratio, share, shares, size
from branchline.records.charts.chart import Chart
from branchline.records.charts.distributions import sorted_chart
from branchline.records.diagnosis.figures import codec_name
from branchline.records.sensors.record import FINISHED, BranchRecord, FileRecord, JobRecord, WagonRecord

FILES_SHOWN_MAX = 12
BRANCHES_SHOWN_MAX = 16
ROWS_SHOWN_MAX = 40

Row = TypeVar("Row")


class WagonRow(NamedTuple):
    """The costs of a wagon."""

    name: str
    status: str
    seconds: str
    share: str
    bar: float
    cells: list[str]


class WagonColumn(NamedTuple):
    """A column in the table of wagons, to the right of the bar: its heading, and a function that returns a wagon's
    text.
    """

    heading: str
    text: Callable[[WagonRecord], str]


WAGON_COLUMNS = (
    WagonColumn("CPU busy", lambda wagon: percent(wagon.cpu_s, wagon.seconds)),
    WagonColumn("Events", lambda wagon: count(wagon.events)),
    WagonColumn(
        "per 1\N{NARROW NO-BREAK SPACE}000 events",
        lambda wagon: duration(1000 * wagon.seconds / wagon.events) if wagon.events else "-",
    ),
    WagonColumn("Chunks", lambda wagon: count(wagon.chunks)),
    WagonColumn("Late reads", lambda wagon: count(wagon.misses)),
    WagonColumn("Output", lambda wagon: size(wagon.output_bytes)),
)


class Rows(NamedTuple, Generic[Row]):
    """The first rows of a table, and the number of hidden rows, which are only in job.json."""

    rows: list[Row]
    hidden_count: int


def first_rows(rows: list[Row]) -> Rows[Row]:
    """Return the first rows, up to the maximum number shown on the page."""
    return Rows(rows[:ROWS_SHOWN_MAX], max(0, len(rows) - ROWS_SHOWN_MAX))


def wagon_rows(job: JobRecord) -> list[WagonRow]:
    """Return a row for each wagon, the slowest first."""
    wagons = sorted(job.wagons, key=lambda wagon: -wagon.seconds)
    tenths = shares([wagon.seconds for wagon in wagons])
    longest_s = wagons[0].seconds if wagons else 0.0
    return [
        WagonRow(
            wagon.name,
            "stopped" if wagon.error else str(wagon.status or FINISHED),
            duration(wagon.seconds),
            share(tenth, wagon.seconds),
            _bar(wagon.seconds, longest_s),
            [column.text(wagon) for column in WAGON_COLUMNS],
        )
        for wagon, tenth in zip(wagons, tenths, strict=True)
    ]


def _bar(value: float, largest: float) -> float:
    """Return the length of a bar in per cent of the longest bar."""
    return round(100.0 * value / largest, 2) if largest > 0 else 0.0


def late_reads(job: JobRecord) -> str:
    """Describe which branches were read late because no wagon had declared them or used them in the first chunk."""
    misses = sorted(job.misses.items(), key=lambda item: -item[1])
    if not misses:
        return ""
    shown = ", ".join(f"{name} ({count(number)})" for name, number in misses[:8])
    more = f" and {counted(len(misses) - 8, 'more branch', 'more branches')}" if len(misses) > 8 else ""
    return f"Read late, because no wagon had declared or used them in the first chunk: {shown}{more}."


class BranchRow(NamedTuple):
    """The costs of a branch."""

    name: str
    codec: str
    baskets: str
    compressed: str
    plain: str
    factor: str
    decompress: str
    decode: str
    share: str
    bar: float
    bar_decode: float


class LargestRows(NamedTuple, Generic[Row]):
    """The largest rows of a table, and a row with the sums of the hidden ones (None if no rows are hidden)."""

    rows: list[Row]
    rest: Row | None
    total_count: int


def _cost_s(branch: BranchRecord) -> float:
    return float(branch.decompress_s + branch.decode_s)


def branch_table(job: JobRecord) -> LargestRows[BranchRow]:
    """Return the branches with the highest cost, and the sums of the remaining branches."""
    branches = sorted(job.branches, key=lambda branch: (-_cost_s(branch), branch.name))
    shown, left = _cut(branches, BRANCHES_SHOWN_MAX)
    tenths = shares([*map(_cost_s, shown), sum(map(_cost_s, left))])
    largest_s = _cost_s(branches[0]) if branches else 0.0
    rows = [
        _branch_row(branch, branch.name, tenth, largest_s) for branch, tenth in zip(shown, tenths[:-1], strict=True)
    ]
    rest = None
    if left:
        merged = BranchRecord("")
        for one in left:
            merged.add_baskets(one)
        rest = _branch_row(merged, f"{counted(len(left), 'other branch', 'other branches')}", tenths[-1], 0.0)
    return LargestRows(rows, rest, len(branches))


def _branch_row(branch: BranchRecord, name: str, tenths: int, largest_s: float) -> BranchRow:
    return BranchRow(
        name,
        codec_name(branch.codec),
        count(branch.baskets),
        size(branch.compressed_bytes),
        size(branch.plain_bytes),
        ratio(branch.plain_bytes, branch.compressed_bytes, 2),
        duration(branch.decompress_s),
        duration(branch.decode_s),
        share(tenths, _cost_s(branch)),
        _bar(branch.decompress_s, largest_s),
        _bar(branch.decode_s, largest_s),
    )


def _cut(items: Sequence[Row], rows_max: int) -> tuple[Sequence[Row], Sequence[Row]]:
    """Split items into those shown individually and those summed up in one row.

    A single remaining item is shown individually, because it takes no more space than a row of sums.
    """
    if len(items) <= rows_max + 1:
        return items, []
    return items[:rows_max], items[rows_max:]


class FileRow(NamedTuple):
    """The costs of a file."""

    name: str
    events: str
    seconds: str
    bar: float
    read: str
    speed: str
    calls_per_thousand: str
    fetch: str
    decompress: str
    decode: str


class Files(NamedTuple):
    """The slowest files, their common folder, and a chart of the read times of all files (None for one or two
    files).
    """

    table: LargestRows[FileRow]
    folder: str
    chart: Chart | None


def file_costs(job: JobRecord) -> Files:
    """Return the slowest files, the sums of the remaining files, and the distribution of the read times of all
    files.
    """
    files = sorted(job.files, key=lambda file: (-file.wall_s, file.path))
    shown, left = _cut(files, FILES_SHOWN_MAX)
    longest_s = files[0].wall_s if files else 0.0
    folder = _common_folder([str(file.path) for file in shown])
    rows = [_file_row(file, folder, longest_s) for file in shown]
    rest = None
    if left:
        merged = FileRecord(counted(len(left), "other file"))
        for one in left:
            merged.add(one)
            merged.events += one.events
            merged.wall_s += one.wall_s
        rest = _file_row(merged, "", 0.0)
    chart = None
    # A chart of one or two files would only repeat the table.
    if len(files) > 2:
        median_s = statistics.median(file.wall_s for file in files)
        summary = f"The median of the {counted(len(files), 'file')} is {duration(median_s)}, "
        summary += f"the slowest took {duration(longest_s)}"
        summary += f", {ratio(longest_s, median_s, 2)} times as long." if median_s > 0 else "."
        chart = sorted_chart("Time of each file", "s", [file.wall_s for file in files], GREY, summary)
    return Files(LargestRows(rows, rest, len(files)), folder, chart)


def _common_folder(paths: Sequence[str]) -> str:
    """Return the common folder of all paths, with a trailing slash; empty if there is none."""
    if not paths:
        return ""
    first, last = min(paths), max(paths)
    same = 0
    while same < min(len(first), len(last)) and first[same] == last[same]:
        same += 1
    return first[: first.rfind("/", 0, same) + 1]


def _file_row(file: FileRecord, folder: str, longest_s: float) -> FileRow:
    seconds, calls, events = file.wall_s, file.read_calls or 0, file.events or 0
    return FileRow(
        str(file.path).removeprefix(folder),
        count(events),
        duration(seconds),
        _bar(seconds, longest_s),
        size(file.bytes_read),
        rate(file.bytes_read or 0, seconds),
        ratio(1000 * calls, events, 2),
        duration(file.fetch_s),
        duration(file.decompress_s),
        duration(file.decode_s),
    )


class ElementRow(NamedTuple):
    """The costs of a storage element."""

    name: str
    files: str
    read: str
    calls: str
    call_size: str
    fetch: str
    speed: str


def element_rows(job: JobRecord) -> list[ElementRow]:
    """Return a row for each storage element, the slowest first."""
    elements = sorted(job.storage_elements, key=lambda element: -element.fetch_s)
    return [
        ElementRow(
            element.name,
            count(element.files),
            size(element.bytes_read),
            count(element.read_calls),
            size(element.bytes_read / element.read_calls) if element.read_calls else "-",
            duration(element.fetch_s),
            rate(element.bytes_read, element.fetch_s),
        )
        for element in elements
    ]
