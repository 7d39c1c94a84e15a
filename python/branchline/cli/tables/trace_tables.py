"""Prints traces as tables."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from branchline.base.quantities import count, counted, duration, percent, significant, size
from branchline.tracing.facts import FileReads, KindRow, Summary, headline, remarks
from branchline.tracing.replay import Replayed
from branchline.tracing.trace_comparison import TOTALS, RowChange, TraceComparison, ValueChange, sentences

#: Maximum number of rows in a table on the terminal; the output of --json has all rows.
ROWS_SHOWN = 25


def print_replayed(found: Replayed, console: Console) -> None:
    """Print the time and the reads of a replay next to the time and the reads of the original program."""
    _print(console, found.how, ("", "original", "now"), [
        ("time with requests in flight", duration(found.original_seconds), duration(found.seconds)),
        ("read calls", count(found.original_calls), count(found.read_calls)),
        ("bytes read", size(found.original_bytes), size(found.read_bytes)),
    ])  # fmt: skip
    if found.left_out:
        console.print(
            f"skipped: {counted(found.left_out, 'request')} that failed or whose position in the file is unknown"
        )


def print_summary(found: Summary, console: Console) -> None:
    """Print the tables of one trace."""
    _print(console, "files", ("file", "size", *_READ_HEAD, "of the file", "seeks"), [
        (row.file, "-" if row.size_bytes is None else size(row.size_bytes), *_read(row),
         percent(row.distinct_bytes, row.size_bytes or 0), count(row.seeks))
        for row in found.files
    ])  # fmt: skip
    _print(
        console,
        "parts of files; a call counts for the part in which it starts",
        ("what", *_READ_HEAD),
        [(row.what, *_read(row)) for row in found.kinds],
    )
    _print(
        console,
        "branches, most bytes first",
        ("branch", "tree", "calls", "bytes", "baskets", "read again", "not used", "reading"),
        [
            (row.branch, row.tree, count(row.read_calls), size(row.read_bytes), count(row.baskets),
             size(row.read_bytes - row.distinct_bytes), size(row.unwanted_bytes), duration(row.reading_s))
            for row in found.branches
        ],
    )  # fmt: skip
    _print(console, "sizes of requests", ("up to", "calls", "bytes"), [
        (size(row.up_to_bytes), count(row.read_calls), size(row.read_bytes)) for row in found.sizes
    ])  # fmt: skip
    heads = ("file", "events", "first event", "maximum of others", "median of others", "before the first")
    _print(console, "read calls of each event", heads, [
        (row.file, count(len(row.read_calls)), *_events(row.read_calls), count(row.opening_calls))
        for row in found.events
        if row.read_calls
    ])  # fmt: skip
    _print(console, "time of threads", ("activity", "times", "time"), [
        (row.what, count(row.count), duration(row.seconds)) for row in found.spans
    ])  # fmt: skip
    for line in (*headline(found), *remarks(found), *found.job.notes):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def print_comparison(found: TraceComparison, console: Console) -> None:
    """Print the tables that compare two traces, and what changed."""
    for name, job in zip(("first", "second"), found.jobs, strict=True):
        console.print(f"{name}: {job.command}", markup=False, highlight=False, soft_wrap=True)
    shown = {name: show for name, _, show in TOTALS}
    _print(console, "totals", ("", "first", "second", "second / first"), [
        (row.label, shown[row.name](row.change.first), shown[row.name](row.change.second), _factor(row.change))
        for row in found.totals
    ])  # fmt: skip
    heads = ("calls", "bytes", "second / first")
    for name, key, rows in (
        ("files", "name", found.files),
        ("kinds", "what", found.kinds),
        ("branches", "branch", found.branches),
    ):
        _print(console, name, (key, *heads), [(row.name, *_pair(row)) for row in rows])
    for line in sentences(found):
        console.print(line, markup=False, highlight=False, soft_wrap=True)


def _pair(row: RowChange) -> tuple[str, ...]:
    calls, read = row.read_calls, row.read_bytes
    return (
        f"{count(calls.first)} -> {count(calls.second)}",
        f"{size(read.first)} -> {size(read.second)}",
        _factor(read),
    )


def _factor(change: ValueChange) -> str:
    return "-" if change.factor is None else significant(change.factor, 3)


_READ_HEAD = ("calls", "bytes")


def _read(row: FileReads | KindRow) -> tuple[str, str]:
    return count(row.read_calls), size(row.read_bytes)


def _events(calls: list[int]) -> tuple[str, str, str]:
    later = sorted(calls[1:]) or [0]
    return count(calls[0]), count(later[-1]), significant(later[len(later) // 2], 3)


def _print(console: Console, title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    if not rows:
        return
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    for number, heading in enumerate(head):
        is_name = number == 0 or heading == "tree"
        table.add_column(Text(heading), justify="left" if is_name else "right", no_wrap=True)
    for row in rows[:ROWS_SHOWN]:
        table.add_row(*row)
    console.print(table)
    if len(rows) > ROWS_SHOWN:
        console.print(f"and {counted(len(rows) - ROWS_SHOWN, 'row')} more; see all with --json", highlight=False)
