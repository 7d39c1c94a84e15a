"""Compares two traces in tables, sentences and plots."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TypeVar

from branchline.base.quantities import count, duration, significant, size
from branchline.base.whole_files import write_html
from branchline.tracing.facts import BranchReads, FileReads, KindRow
from branchline.tracing.trace import Trace, TracedJob
from branchline.tracing.trace_page import PageTable, TableCell, data_text, environment
from branchline.tracing.trace_summary import summarise

Shown = Callable[[float], str]

#: Totals to compare, each with its field name in RequestTotals, its label, and a function that formats the value.
TOTALS: tuple[tuple[str, str, Shown], ...] = (
    ("read_calls", "read calls", count),
    ("read_bytes", "bytes read", size),
    ("distinct_bytes", "different bytes read", size),
    ("again_bytes", "bytes read again", size),
    ("unwanted_bytes", "bytes read and not used", size),
    ("basket_read_calls", "calls for baskets and pages", count),
    ("basket_read_bytes", "bytes of these calls", size),
    ("seeks", "seeks", count),
    ("seek_bytes", "bytes between reads", size),
    ("reading_s", "time with a request in flight", duration),
    ("in_flight_mean", "requests at a time", significant),
    ("wall_s", "wall time", duration),
)
#: Minimum relative change of a total to be described in a sentence. Times vary between runs, so the threshold for
#: times (CHANGED_TIME) is higher.
CHANGED, CHANGED_TIME = 0.005, 0.1
#: Names of the totals whose changes are described in sentences.
_WITH_SENTENCE = (
    "read_calls",
    "read_bytes",
    "again_bytes",
    "unwanted_bytes",
    "seeks",
    "seek_bytes",
    "reading_s",
    "wall_s",
)
_TIMES = ("reading_s", "wall_s", "in_flight_mean")


@dataclass(frozen=True)
class ValueChange:
    """A value in two traces; ``factor`` is ``second / first``, or None if ``first`` is 0."""

    first: float
    second: float
    factor: float | None

    @classmethod
    def of(cls, first: float, second: float) -> ValueChange:
        """Return the change between two numbers."""
        return cls(first, second, second / first if first else None)


@dataclass(frozen=True)
class TotalChange:
    """The change of a total; ``name`` is the total's field name in the summary."""

    name: str
    label: str
    change: ValueChange


@dataclass(frozen=True)
class RowChange:
    """The change in reads for one kind of piece, one file or one branch; ``tree`` is set only for a branch."""

    name: str
    tree: str
    read_calls: ValueChange
    read_bytes: ValueChange


@dataclass(frozen=True)
class TraceComparison:
    """The comparison of two traces, with their jobs."""

    jobs: tuple[TracedJob, TracedJob]
    totals: list[TotalChange]
    kinds: list[RowChange]
    files: list[RowChange]
    branches: list[RowChange]

    def as_json(self) -> dict[str, object]:
        """Return the comparison and its sentences as JSON-compatible values."""
        return {**asdict(self), "sentences": sentences(self)}


def compare(first: Trace, second: Trace) -> TraceComparison:
    """Compare two traces.

    Files are matched by name, ignoring their folders, and branches by tree and name.
    """
    one, two = summarise(first), summarise(second)
    totals = ((name, label, getattr(one.totals, name), getattr(two.totals, name)) for name, label, _ in TOTALS)
    return TraceComparison(
        jobs=(one.job, two.job),
        totals=[TotalChange(name, label, ValueChange.of(*values)) for name, label, *values in totals],
        kinds=_changes(one.kinds, two.kinds, lambda row: (row.what, "")),
        files=_changes(one.files, two.files, lambda row: (row.file.rpartition("/")[2], "")),
        branches=_changes(one.branches, two.branches, lambda row: (row.branch, row.tree)),
    )


Row = TypeVar("Row", KindRow, FileReads, BranchReads)


def _changes(first: Sequence[Row], second: Sequence[Row], name_of: Callable[[Row], tuple[str, str]]) -> list[RowChange]:
    """Return the change for each name and tree, sorted by the change in bytes and calls, largest first."""
    sides: list[dict[tuple[str, str], tuple[int, int]]] = [{}, {}]
    for side, rows in zip(sides, (first, second), strict=True):
        for row in rows:
            calls, read = side.get(name_of(row), (0, 0))
            side[name_of(row)] = (calls + row.read_calls, read + row.read_bytes)
    joined = []
    for key in dict.fromkeys((*sides[0], *sides[1])):
        one, two = sides[0].get(key, (0, 0)), sides[1].get(key, (0, 0))
        joined.append(RowChange(*key, ValueChange.of(one[0], two[0]), ValueChange.of(one[1], two[1])))
    return sorted(joined, key=lambda row: (-_distance(row.read_bytes), -_distance(row.read_calls)))


def _distance(change: ValueChange) -> float:
    return abs(change.second - change.first)


def sentences(found: TraceComparison) -> list[str]:
    """Return sentences on the changes; one sentence lists the totals that did not change."""
    shown = {name: show for name, _, show in TOTALS}
    changed, same = [], []
    for row in found.totals:
        if row.name not in _WITH_SENTENCE:
            continue
        one, two = row.change.first, row.change.second
        least = CHANGED_TIME if row.name in _TIMES else CHANGED
        if not abs(two - one) > least * max(abs(one), abs(two)):
            same.append(row.label)
            continue
        label = row.label[0].upper() + row.label[1:]
        changed.append(f"{label}: {_in_words(row.change, shown[row.name])}.")
    if same:
        changed.append(f"The same in both: {', '.join(same)}.")
    # Find the branches that only one of the two traces read.
    rows = found.branches
    only = {
        "first": [row.name for row in rows if row.read_bytes.first and not row.read_bytes.second],
        "second": [row.name for row in rows if row.read_bytes.second and not row.read_bytes.first],
    }
    return changed + [
        f"Branches that only the {which} read: {', '.join(names[:3])}"
        f"{f' and {count(len(names) - 3)} more' if names[3:] else ''}."
        for which, names in only.items()
        if names
    ]


def _in_words(change: ValueChange, show: Shown) -> str:
    one, two = change.first, change.second
    values = f"{show(two)} instead of {show(one)}"
    if not one or not two:
        return values
    if two > one:
        more = two / one
        return (
            f"{values}, {significant(more, 3)} times as much" if more >= 1.5 else f"{values}, {_percent(more - 1)} more"
        )
    less = one / two
    return (
        f"{values}, {significant(less, 3)} times less" if less >= 1.5 else f"{values}, {_percent(1 - two / one)} less"
    )


def _percent(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def write_comparison(first: Trace, second: Trace, path: Path) -> None:
    """Write a page with the plots of both traces. The plots are linked: zooming one also zooms the other."""
    found = compare(first, second)
    commands = [job.command for job in found.jobs]
    shown = {name: show for name, _, show in TOTALS}
    totals = [
        [
            TableCell(row.label),
            TableCell(shown[row.name](row.change.first), row.change.first),
            TableCell(shown[row.name](row.change.second), row.change.second),
            _factor(row.change),
        ]
        for row in found.totals
    ]
    tables = [PageTable.of("totals", "The whole", ("", "first", "second", "second / first"), totals)]
    for name, title, keys, rows in (
        ("files", "Files", ("name",), found.files),
        ("kinds", "What was read", ("what",), found.kinds),
        ("branches", "Branches, the most changed first", ("branch", "tree"), found.branches),
    ):
        heads = (*keys, "calls, first", "second", "bytes, first", "second", "second / first")
        cells = [[*(TableCell(text) for text in (row.name, row.tree)[: len(keys)]), *_pair(row)] for row in rows]
        tables.append(PageTable.of(name, title, heads, cells))
    content = {
        "title": f"{commands[0]} and {commands[1]}",
        "commands": commands,
        "sentences": sentences(found),
        "notes": list(dict.fromkeys((*first.notes, *second.notes))),
        "tables": tables,
        "data": [data_text(one, summarise(one)) for one in (first, second)],
    }
    write_html(path, environment().get_template("diff.html").render(content))


def _pair(row: RowChange) -> list[TableCell]:
    calls, read = row.read_calls, row.read_bytes
    return [
        TableCell(count(calls.first), calls.first),
        TableCell(count(calls.second), calls.second),
        TableCell(size(read.first), read.first),
        TableCell(size(read.second), read.second),
        _factor(read),
    ]


def _factor(change: ValueChange) -> TableCell:
    return TableCell("-", 0) if change.factor is None else TableCell(significant(change.factor, 3), change.factor)
