"""Writes trace.html: a page that works without network access, with plots that zoom in to single baskets.

The plots' data are stored in packed columns (`packed`), compact enough for millions of rows in one page. If there are
too many spans or requests, the strips below the plot show sums per time interval instead.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from branchline.base import palette
from branchline.base.quantities import NS_PER_S, count, duration, percent, significant, size
from branchline.base.texts import printable
from branchline.base.whole_files import write_html
from branchline.tracing.facts import BranchReads, FileReads, RequestTotals, SizeRow, Summary, headline, remarks
from branchline.tracing.trace import FILE, SPAN, Numbers, Trace, codes, numbers
from branchline.tracing.trace_summary import Parts, Requests, summarise

#: Maximum number of rows in a table.
TABLE_ROWS_MAX = 1000
#: Maximum number of parts in the plot. If a trace has more, the largest parts are drawn.
PARTS_MAX = 2_000_000
#: Maximum number of branches with their own colour in the plot.
COLOURED = 8
#: ROWS_MAX: maximum number of spans or requests that the strips show individually. Above it, they show sums for MOMENTS
#: time intervals.
ROWS_MAX, MOMENTS = 100_000, 20_000
#: Maximum number of bars in the plot of events. If a file has more events, a bar shows several neighbouring events.
BARS_MAX = 400
#: Maximum number of ticks on the time axis. The length of a tick in nanoseconds is a power of ten.
TICKS_MAX = 1_000_000_000
#: Integer columns by name, each encoded by `packed`.
Columns = dict[str, str]


def write_page(trace: Trace, path: Path) -> None:
    """Write the page. Raises StorageError."""
    found = summarise(trace)
    content = {
        "title": f"Trace of {trace.job.command}",
        "command": trace.job.command,
        "headline": headline(found),
        "remarks": remarks(found),
        "notes": trace.notes,
        "facts": facts(found.totals),
        "tables": tables(found),
        "data": [data_text(trace, found)],
    }
    write_html(path, environment().get_template("trace.html").render(content))


def facts(totals: RequestTotals) -> list[tuple[str, str]]:
    """Return the values at the top of the page, each with its label."""
    return [
        (count(totals.read_calls), "read calls"),
        (size(totals.read_bytes), "read"),
        (count(totals.basket_read_calls), f"calls for baskets and pages, {size(totals.basket_read_bytes)}"),
        (size(totals.again_bytes), "read again"),
        (size(totals.unwanted_bytes), "read and not used"),
        (count(totals.seeks), f"seeks, {count(totals.seeks_back)} backwards"),
        (duration(totals.reading_s), f"with a request in flight, of {duration(totals.wall_s)}"),
        (significant(totals.in_flight_mean, 2), "requests in flight, on average while reading"),
    ]


@dataclass(frozen=True)
class PageTable:
    """A table of a page. ``name`` is used in style sheets; ``left_out`` is the number of omitted rows."""

    name: str
    title: str
    heads: tuple[str, ...]
    rows: list[list[TableCell]]
    left_out: int

    @classmethod
    def of(cls, name: str, title: str, heads: tuple[str, ...], rows: list[list[TableCell]]) -> PageTable:
        """Create a table from the first ``TABLE_ROWS_MAX`` of the rows."""
        return cls(name, title, heads, rows[:TABLE_ROWS_MAX], max(len(rows) - TABLE_ROWS_MAX, 0))


@dataclass(frozen=True)
class TableCell:
    """A table cell: its text, and the value by which the table is sorted."""

    text: str
    value: float | None = None


def tables(found: Summary) -> list[PageTable]:
    """Return the tables of files, kinds of pieces, and branches."""
    read = ("calls", "bytes", "read again", "not used")
    files = [
        [TableCell(row.file), _bytes(row.size_bytes), *_read(row), _part(row), _count(row.basket_read_calls),
         _bytes(row.basket_read_bytes), _count(row.seeks), _seconds(row.reading_s)]
        for row in found.files
    ]  # fmt: skip
    kinds = [
        [TableCell(row.what), _count(row.read_calls), _bytes(row.read_bytes),
         _bytes(row.read_bytes - row.distinct_bytes)]
        for row in found.kinds
    ]  # fmt: skip
    branches = [
        [TableCell(row.branch), TableCell(row.tree), *_read(row), _count(row.baskets), _seconds(row.reading_s)]
        for row in found.branches
    ]
    return [
        PageTable.of("files", "Files",
               ("file", "size", *read, "of the file", "basket calls", "bytes of these", "seeks", "reading"), files),
        PageTable.of("kinds", "What was read", ("what", "calls that begin there", "bytes", "read again"), kinds),
        PageTable.of("branches", "Branches", ("branch", "tree", *read, "baskets", "reading"), branches),
    ]  # fmt: skip


def _read(row: FileReads | BranchReads) -> list[TableCell]:
    again = row.read_bytes - row.distinct_bytes
    return [_count(row.read_calls), _bytes(row.read_bytes), _bytes(again), _bytes(row.unwanted_bytes)]


def _part(row: FileReads) -> TableCell:
    whole = row.size_bytes or 0
    return TableCell(percent(row.distinct_bytes, whole), row.distinct_bytes / whole if whole else 0)


def _count(value: int) -> TableCell:
    return TableCell(count(value), value)


def _bytes(value: int | None) -> TableCell:
    return TableCell("-", 0) if value is None else TableCell(size(value), value)


def _seconds(value: float) -> TableCell:
    return TableCell(duration(value), value)


def data_text(trace: Trace, found: Summary) -> Markup:
    """Return the plots' data as JSON that is safe to embed in HTML."""
    text = json.dumps(asdict(picture_data(trace, found)), separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704 - it cannot close the element


@cache
def environment() -> jinja2.Environment:
    """Return the template environment, which escapes all text unless it is marked as safe."""
    found = jinja2.Environment(
        loader=jinja2.PackageLoader("branchline.tracing", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.globals["palette"] = palette
    return found


# --- plot data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PictureData:
    """Input of the page's script. ``wall`` and ``tick`` are in seconds; times in columns are in ticks."""

    wall: float
    tick: float
    files: list[DrawnFile]
    names: list[str]
    whats: list[str]
    ranked: list[str]
    spanned: list[str]
    parts: Columns
    requests: Columns
    spans: Columns
    sizes: list[SizeRow]
    events: list[DrawnEvents]


@dataclass(frozen=True)
class DrawnFile:
    """A file of the trace. ``size`` is the file size, or the end of the last read if the file size is unknown."""

    name: str
    size: int


@dataclass(frozen=True)
class DrawnEvents:
    """Calls and bytes per event of a file; ``file`` is the file's index. Each bar is the sum of ``joined`` events."""

    file: int
    joined: int
    read_calls: list[int]
    read_bytes: list[int]


def picture_data(trace: Trace, found: Summary) -> PictureData:
    """Return the data for all plots: request parts with their times, requests, seeks, spans, sizes and events."""
    requests = Requests.of(trace)
    parts = Parts.of(trace, requests.files)
    names: dict[str, int] = {}
    chosen = np.argsort(-parts.size, kind="stable")[:PARTS_MAX] if len(parts) > PARTS_MAX else np.arange(len(parts))
    chosen = np.sort(chosen[parts.offset[chosen] >= 0])
    order = np.argsort(requests.number)
    row = order[np.searchsorted(requests.number[order], parts.request[chosen])] if len(chosen) else chosen
    # Sort by time: neighbouring values then differ little, so they compress well.
    by_time = np.argsort(row, kind="stable")
    chosen, row = chosen[by_time], row[by_time]
    # The time axis starts at the first read; otherwise startup, such as loading libraries, would fill the plot.
    start = int(requests.sent.min(initial=np.iinfo("i8").max)) if len(requests) else 0
    clock = _Clock(start, int(requests.last.max(initial=start)))
    ranked = [one.branch for one in found.branches[:COLOURED] if one.branch]
    rank = {name: number for number, name in enumerate(ranked)}
    ranks = np.array([rank.get(name, -1) for name in parts.branches] + [-1], "i8")[parts.branch[chosen]]
    columns = {
        "begin": clock.ticks(requests.sent)[row],
        "took": (clock.ticks(requests.last) - clock.ticks(requests.sent))[row],
        "offset": parts.offset[chosen], "size": parts.size[chosen],
        "cut": parts.extent[chosen] - parts.size[chosen], "file": parts.file[chosen], "what": parts.what[chosen],
        "branch": _renamed(parts.branch[chosen], parts.branches, names),
        "tree": _renamed(parts.tree[chosen], parts.trees, names), "rank": ranks, "basket": parts.basket[chosen],
        "first": parts.entry_start[chosen], "behind": parts.entry_stop[chosen], "request": parts.request[chosen],
    }  # fmt: skip
    span_rows = trace.rows_of(SPAN)
    what, whats = codes(span_rows, "what")
    used = np.unique(what[what >= 0])
    renumbered = np.searchsorted(used, what) if len(used) else what
    spans = _lanes(clock, numbers(span_rows, "sent_ns", 0), numbers(span_rows, "last_byte_ns", 0), renumbered)
    spanned = [whats[one] for one in used.tolist()]
    rows = trace.rows_of(FILE)
    known = dict(zip(rows["file"].to_pylist(), rows["size_bytes"].to_pylist(), strict=True))
    reached = np.zeros(len(requests.files) + 1, "i8")
    np.maximum.at(reached, requests.file, requests.offset + requests.got)
    drawn = [
        DrawnFile(printable(path), max(known.get(path) or 0, int(reached[number])))
        for number, path in enumerate(requests.files)
    ]
    return PictureData(
        wall=(clock.end - start) / NS_PER_S,
        tick=clock.tick_ns / NS_PER_S,
        files=drawn,
        names=[printable(name) for name in names],
        whats=parts.whats,
        ranked=ranked,
        spanned=spanned,
        parts={name: packed(column) for name, column in columns.items()},
        requests=_lanes(clock, requests.sent, requests.last, requests.file, requests.jumps() != 0),
        spans=spans,
        sizes=found.sizes,
        events=_events(found, requests.files),
    )


class _Clock:
    """Converts times to ticks since the start of the plot."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, max(end, start)
        self.tick_ns = 1
        while (self.end - start) // self.tick_ns > TICKS_MAX:
            self.tick_ns *= 10

    def ticks(self, times: Numbers) -> Numbers:
        return (times - self.start) // self.tick_ns


def packed(column: Numbers) -> str:
    """Encode an integer column as a string.

    The differences between neighbours are grouped by byte significance, deflated, and encoded in base64. Most
    differences are small or repeated, and take only a byte or two.
    """
    steps = np.diff(np.asarray(column, "<i8"), prepend=0)
    # Zigzag encoding stores the sign in the lowest bit, so that small negative numbers also have few nonzero bytes.
    folded = (steps << 1) ^ (steps >> 63)
    planes = np.ascontiguousarray(folded.astype("<u8").view("u1").reshape(-1, 8).T)
    used = int(np.flatnonzero(np.any(planes, axis=1)).max(initial=-1)) + 1
    return f"{len(column)}:{base64.b64encode(zlib.compress(planes[:used].tobytes(), 5)).decode()}"


def _lanes(
    clock: _Clock, begin: Numbers, end: Numbers, kind: Numbers, counted: npt.NDArray[np.bool_] | None = None
) -> Columns:
    """Return the start, duration, kind and count of each row.

    Above ``ROWS_MAX`` rows, return the total duration and count of each kind per time interval instead.
    """
    counts = np.zeros(len(begin), "i8") if counted is None else counted.astype("i8")
    if len(begin) <= ROWS_MAX:
        first, last = clock.ticks(begin), clock.ticks(end)
        columns = {"begin": first, "took": last - first, "busy": last - first, "kind": kind, "count": counts}
        return {name: packed(column) for name, column in columns.items()}
    ticks = max(int(clock.ticks(np.array([clock.end]))[0]), 1)
    edges = np.unique(np.linspace(0, ticks, MOMENTS + 1).astype("i8"))
    found = []
    for one in np.unique(kind).tolist():
        mine = kind == one
        first, last = clock.ticks(begin[mine]), clock.ticks(end[mine])
        busy = np.diff(_filled(first, last, edges))
        at = np.clip(np.searchsorted(edges, first, side="right") - 1, 0, len(edges) - 2)
        number = np.bincount(at, counts[mine], len(edges) - 1).astype("i8")
        rows = np.nonzero((busy > 0) | (number > 0))[0]
        found.append((edges[rows], np.diff(edges)[rows], busy[rows], np.full(len(rows), one), number[rows]))
    names = ("begin", "took", "busy", "kind", "count")
    return {name: packed(np.concatenate(one)) for name, one in zip(names, zip(*found, strict=True), strict=True)}


def _filled(begin: Numbers, end: Numbers, at: Numbers) -> Numbers:
    """Return, for each time in ``at``, the total duration of all intervals up to this time."""

    def before(times: Numbers) -> Numbers:
        ordered = np.sort(times)
        number = np.searchsorted(ordered, at)
        sums: Numbers = number * at - np.append(0, np.cumsum(ordered))[number]
        return sums

    return before(begin) - before(end)


def _events(found: Summary, files: list[str]) -> list[DrawnEvents]:
    """Return the calls and bytes per event of each file. Above ``BARS_MAX`` events, neighbouring events are joined."""
    number = {path: place for place, path in enumerate(files)}
    rows = []
    for one in found.events:
        joined = max(1, -(-len(one.read_calls) // BARS_MAX))
        calls, got = (_sums_of(column, joined) for column in (one.read_calls, one.read_bytes))
        rows.append(DrawnEvents(number[one.file], joined, calls, got))
    return rows


def _sums_of(column: list[int], joined: int) -> list[int]:
    """Return the sum of each group of ``joined`` neighbouring values."""
    return [int(one) for one in np.add.reduceat(column, np.arange(0, len(column), joined))] if column else []


def _renamed(indices: Numbers, texts: list[str], names: dict[str, int]) -> Numbers:
    """Replace each index of a string in ``texts`` by the index of this string in ``names``; -1 stays -1.

    Strings that ``names`` does not contain are added to it.
    """
    used = np.unique(indices[indices >= 0])
    renumbered = np.full(len(texts) + 1, -1, "i8")
    for one in used.tolist():
        renumbered[one] = names.setdefault(texts[one], len(names))
    return renumbered[indices]
