"""trace.html: a trace in one file without network, with pictures that zoom down to one basket."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

import jinja2
from markupsafe import Markup

from branchline.base.quantities import count, duration, percent, significant, size
from branchline.base.texts import printable
from branchline.base.whole_files import write_whole
from branchline.tracing.picture_data import picture_data
from branchline.tracing.sentences import headline, remarks
from branchline.tracing.summary_rows import BranchRow, FileRow, Summary, Totals
from branchline.tracing.trace import Trace
from branchline.tracing.trace_summary import summarise

#: Rows of a table.
ROWS_MAX = 1000


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the number that it is sorted by."""

    text: str
    value: float | None = None


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
        """A table of at most ``ROWS_MAX`` of these rows."""
        return cls(name, title, heads, rows[:ROWS_MAX], max(len(rows) - ROWS_MAX, 0))


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
