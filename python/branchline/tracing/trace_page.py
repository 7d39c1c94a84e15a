"""trace.html: a trace in one file without network, with pictures that zoom down to one basket.

The data of the pictures are columns, small enough for millions of rows in one page (`packed`). Of very many spans and
requests the strips below the picture need no more than what was done in each moment, and get that.
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

from branchline.base.quantities import count, duration, percent, significant, size
from branchline.base.texts import printable
from branchline.base.whole_files import write_whole
from branchline.tracing.facts import BranchRow, FileRow, SizeRow, Summary, Totals, headline, remarks
from branchline.tracing.trace import FILE, SPAN, Numbers, Trace, codes, numbers
from branchline.tracing.trace_summary import Parts, Requests, summarise

#: Rows of a table.
TABLE_ROWS_MAX = 1000
#: Most parts that are drawn: those with most bytes.
PARTS_MAX = 2_000_000
#: Branches with a colour of their own.
COLOURED = 8
#: With more spans or requests than this, the strips show sums for this many intervals of time.
ROWS_MAX, MOMENTS = 100_000, 20_000
#: Most bars of events; of more events, neighbours are joined.
BARS_MAX = 400
#: Times are multiples of a power of ten of nanoseconds, this many of which are the whole time at most.
TICKS_MAX = 1_000_000_000
#: Columns of whole numbers by their names, each ``packed``.
Columns = dict[str, str]


def write_page(trace: Trace, path: Path) -> None:
    """Writes the page. Raises StorageError."""
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
    write_whole(path, environment().get_template("trace.html").render(content).encode("utf-8"))


def facts(totals: Totals) -> list[tuple[str, str]]:
    """The numbers at the top of the page, each with its label."""
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
    """A table of a page: its ``name`` for styles, the heads of its columns, the rows that are shown, and how many more
    there are.
    """

    name: str
    title: str
    heads: tuple[str, ...]
    rows: list[list[Cell]]
    left_out: int

    @classmethod
    def of(cls, name: str, title: str, heads: tuple[str, ...], rows: list[list[Cell]]) -> PageTable:
        """A table of at most ``TABLE_ROWS_MAX`` of these rows."""
        return cls(name, title, heads, rows[:TABLE_ROWS_MAX], max(len(rows) - TABLE_ROWS_MAX, 0))


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the number that it is sorted by."""

    text: str
    value: float | None = None


def tables(found: Summary) -> list[PageTable]:
    """The tables of files, of kinds of pieces, and of branches."""
    read = ("calls", "bytes", "read again", "not used")
    files = [
        [Cell(row.file), _bytes(row.size_bytes), *_read(row), _part(row), _count(row.basket_read_calls),
         _bytes(row.basket_read_bytes), _count(row.seeks), _seconds(row.reading_s)]
        for row in found.files
    ]  # fmt: skip
    kinds = [
        [Cell(row.what), _count(row.read_calls), _bytes(row.read_bytes),
         _bytes(row.read_bytes - row.distinct_bytes)]
        for row in found.kinds
    ]  # fmt: skip
    branches = [
        [Cell(row.branch), Cell(row.tree), *_read(row), _count(row.baskets), _seconds(row.reading_s)]
        for row in found.branches
    ]
    return [
        PageTable.of("files", "Files",
               ("file", "size", *read, "of the file", "basket calls", "bytes of these", "seeks", "reading"), files),
        PageTable.of("kinds", "What was read", ("what", "calls that begin there", "bytes", "read again"), kinds),
        PageTable.of("branches", "Branches", ("branch", "tree", *read, "baskets", "reading"), branches),
    ]  # fmt: skip


def _read(row: FileRow | BranchRow) -> list[Cell]:
    again = row.read_bytes - row.distinct_bytes
    return [_count(row.read_calls), _bytes(row.read_bytes), _bytes(again), _bytes(row.unwanted_bytes)]


def _part(row: FileRow) -> Cell:
    whole = row.size_bytes or 0
    return Cell(percent(row.distinct_bytes, whole), row.distinct_bytes / whole if whole else 0)


def _count(value: int) -> Cell:
    return Cell(count(value), value)


def _bytes(value: int | None) -> Cell:
    return Cell("-", 0) if value is None else Cell(size(value), value)


def _seconds(value: float) -> Cell:
    return Cell(duration(value), value)


def data_text(trace: Trace, found: Summary) -> Markup:
    """The data of the pictures, as JSON that is safe in a page."""
    text = json.dumps(asdict(picture_data(trace, found)), separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704 - nothing in it ends the element


@cache
def environment() -> jinja2.Environment:
    """The templates, in which every text is escaped unless it is marked."""
    return jinja2.Environment(
        loader=jinja2.PackageLoader("branchline.tracing", "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=lambda value: printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value,
        trim_blocks=True,
        lstrip_blocks=True,
    )


# --- the data of the pictures -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PictureData:
    """What the script of the page draws from. ``wall`` and ``tick`` are seconds; times in columns are ticks."""

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
    """A file of the trace, and its size in bytes as far as it is known."""

    name: str
    size: int


@dataclass(frozen=True)
class DrawnEvents:
    """Calls and bytes of the events of a file, by its number; ``joined`` neighbours are one bar."""

    file: int
    joined: int
    read_calls: list[int]
    read_bytes: list[int]


def picture_data(trace: Trace, found: Summary) -> PictureData:
    """The parts of all requests with their times, the requests with their jumps, the spans, sizes and events."""
    requests = Requests.of(trace)
    parts = Parts.of(trace, requests.files)
    names: dict[str, int] = {}
    chosen = np.argsort(-parts.size, kind="stable")[:PARTS_MAX] if len(parts) > PARTS_MAX else np.arange(len(parts))
    chosen = np.sort(chosen[parts.offset[chosen] >= 0])
    order = np.argsort(requests.number)
    row = order[np.searchsorted(requests.number[order], parts.request[chosen])] if len(chosen) else chosen
    # Neighbours in time differ little.
    by_time = np.argsort(row, kind="stable")
    chosen, row = chosen[by_time], row[by_time]
    # Time begins with the first read: what a program does before, such as loading libraries, would fill the picture.
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
    spans, spanned = _spans(trace, clock)
    return PictureData(
        wall=(clock.end - start) / 1e9,
        tick=clock.tick_ns / 1e9,
        files=_files(trace, requests),
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
    """Times since the start of the picture, in ticks."""

    def __init__(self, start: int, end: int) -> None:
        self.start, self.end = start, max(end, start)
        self.tick_ns = 1
        while (self.end - start) // self.tick_ns > TICKS_MAX:
            self.tick_ns *= 10

    def ticks(self, times: Numbers) -> Numbers:
        return (times - self.start) // self.tick_ns


def packed(column: Numbers) -> str:
    """A column of whole numbers as text: the differences between neighbours, as bytes of equal weight together,
    deflated, in base64. Most differences are small or the same again, which leaves a byte or two of each.
    """
    steps = np.diff(np.asarray(column, "<i8"), prepend=0)
    # The lowest bit is the sign, so that small numbers of both signs have small bytes.
    folded = (steps << 1) ^ (steps >> 63)
    planes = np.ascontiguousarray(folded.astype("<u8").view("u1").reshape(-1, 8).T)
    used = int(np.flatnonzero(np.any(planes, axis=1)).max(initial=-1)) + 1
    return f"{len(column)}:{base64.b64encode(zlib.compress(planes[:used].tobytes(), 5)).decode()}"


def _lanes(
    clock: _Clock, begin: Numbers, end: Numbers, kind: Numbers, counted: npt.NDArray[np.bool_] | None = None
) -> Columns:
    """Times of a kind each, with what is counted at their beginning. Of very many rows they are joined to moments: how
    long of each was filled how often, and how many were counted in it.
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
    """How much of all intervals lies before each of some moments, taken together."""

    def before(times: Numbers) -> Numbers:
        ordered = np.sort(times)
        number = np.searchsorted(ordered, at)
        sums: Numbers = number * at - np.append(0, np.cumsum(ordered))[number]
        return sums

    return before(begin) - before(end)


def _events(found: Summary, files: list[str]) -> list[DrawnEvents]:
    """Calls and bytes of the events of each file; many events are taken together."""
    number = {path: place for place, path in enumerate(files)}
    rows = []
    for one in found.events:
        joined = max(1, -(-len(one.read_calls) // BARS_MAX))
        calls, got = (_sums_of(column, joined) for column in (one.read_calls, one.read_bytes))
        rows.append(DrawnEvents(number[one.file], joined, calls, got))
    return rows


def _sums_of(column: list[int], joined: int) -> list[int]:
    """The sums of this many neighbours each."""
    return [int(one) for one in np.add.reduceat(column, np.arange(0, len(column), joined))] if column else []


def _files(trace: Trace, requests: Requests) -> list[DrawnFile]:
    rows = trace.rows_of(FILE)
    known = dict(zip(rows["file"].to_pylist(), rows["size_bytes"].to_pylist(), strict=True))
    reached = np.zeros(len(requests.files) + 1, "i8")
    np.maximum.at(reached, requests.file, requests.offset + requests.got)
    return [
        DrawnFile(printable(path), max(known.get(path) or 0, int(reached[number])))
        for number, path in enumerate(requests.files)
    ]


def _spans(trace: Trace, clock: _Clock) -> tuple[Columns, list[str]]:
    rows = trace.rows_of(SPAN)
    what, whats = codes(rows, "what")
    used = np.unique(what[what >= 0])
    renumbered = np.searchsorted(used, what) if len(used) else what
    spans = _lanes(clock, numbers(rows, "sent_ns", 0), numbers(rows, "last_byte_ns", 0), renumbered)
    return spans, [whats[one] for one in used.tolist()]


def _renamed(indices: Numbers, texts: list[str], names: dict[str, int]) -> Numbers:
    """Numbers into one list of names for all columns; -1 stays."""
    used = np.unique(indices[indices >= 0])
    renumbered = np.full(len(texts) + 1, -1, "i8")
    for one in used.tolist():
        renumbered[one] = names.setdefault(texts[one], len(names))
    return renumbered[indices]
