"""trace.html: a trace in one file without network, with pictures that zoom down to one basket."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from branchline.report.quantities import count, duration, percent, significant, size
from branchline.report.texts import printable
from branchline.report.whole_files import write_whole
from branchline.tracing.form import FILE, SPAN, Numbers, Trace, codes, numbers
from branchline.tracing.sentences import headline, remarks
from branchline.tracing.summary import Parts, Requests, summarise

#: Parts that are drawn; of more, those of the most bytes, which keeps the page below some 20 MB.
PARTS_MAX = 250_000
#: Branches with a colour of their own, and rows of a table.
COLOURED, ROWS_MAX = 8, 1000


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, and the number that it is sorted by."""

    text: str
    value: float | None = None


def write_page(trace: Trace, path: Path) -> None:
    """Writes the page. Raises StorageError."""
    found = summarise(trace)
    content = {
        "title": f"Trace of {trace.about.get('command', 'a job')}",
        "command": trace.about.get("command", "a job"),
        "headline": headline(found),
        "remarks": remarks(found),
        "notes": trace.notes,
        "facts": facts(found["totals"]),
        "tables": tables(found),
        "data": [data_text(trace, found)],
    }
    write_whole(path, environment().get_template("trace.html").render(content).encode("utf-8"))


def facts(totals: dict[str, Any]) -> list[tuple[str, str]]:
    """The numbers at the top of the page, each with what it is."""
    return [
        (count(totals["read_calls"]), "read calls"),
        (size(totals["read_bytes"]), "read"),
        (count(totals["basket_read_calls"]), f"calls for baskets and pages, {size(totals['basket_read_bytes'])}"),
        (size(totals["again_bytes"]), "read again"),
        (size(totals["unwanted_bytes"]), "read in vain"),
        (count(totals["seeks"]), f"seeks, {count(totals['seeks_back'])} of them back"),
        (duration(totals["reading_s"]), f"with a request on its way, of {duration(totals['wall_s'])}"),
        (significant(totals["in_flight_mean"], 2), "requests at a time while any"),
    ]


def tables(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Files, what was hit, branches, as rows of cells."""
    read = ("calls", "bytes", "read again", "in vain")
    files = [
        [Cell(row["file"]), _bytes(row["size_bytes"]), *_read(row), _part(row), _count(row["basket_read_calls"]),
         _bytes(row["basket_read_bytes"]), _count(row["seeks"]), _seconds(row["reading_s"])]
        for row in found["files"]
    ]  # fmt: skip
    kinds = [
        [Cell(row["what"]), _count(row["read_calls"]), _bytes(row["read_bytes"]),
         _bytes(row["read_bytes"] - row["distinct_bytes"])]
        for row in found["kinds"]
    ]  # fmt: skip
    branches = [
        [Cell(row["branch"]), Cell(row["tree"]), *_read(row), _count(row["baskets"]), _seconds(row["reading_s"])]
        for row in found["branches"]
    ]
    return [
        _table("files", "Files",
               ("file", "size", *read, "of the file", "for baskets", "their bytes", "seeks", "reading"), files),
        _table("kinds", "What was hit", ("what", "calls", "bytes", "read again"), kinds),
        _table("branches", "Branches", ("branch", "tree", *read, "baskets", "reading"), branches),
    ]  # fmt: skip


def _table(name: str, title: str, heads: Sequence[str], rows: list[list[Cell]]) -> dict[str, Any]:
    left_out = max(len(rows) - ROWS_MAX, 0)
    return {"name": name, "title": title, "heads": heads, "rows": rows[:ROWS_MAX], "left_out": left_out}


def _read(row: dict[str, Any]) -> list[Cell]:
    again = row["read_bytes"] - row["distinct_bytes"]
    return [_count(row["read_calls"]), _bytes(row["read_bytes"]), _bytes(again), _bytes(row["unwanted_bytes"])]


def _part(row: dict[str, Any]) -> Cell:
    whole = row["size_bytes"] or 0
    return Cell(percent(row["distinct_bytes"], whole), row["distinct_bytes"] / whole if whole else 0)


def _count(value: int) -> Cell:
    return Cell(count(value), value)


def _bytes(value: int | None) -> Cell:
    return Cell("-", 0) if value is None else Cell(size(value), value)


def _seconds(value: float) -> Cell:
    return Cell(duration(value), value)


def data_text(trace: Trace, found: dict[str, Any]) -> Markup:
    """What the pictures are drawn from, as JSON that a page may hold."""
    text = json.dumps(picture_data(trace, found), separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace("&", "\\u0026"))  # noqa: S704 - nothing in it ends the element


def picture_data(trace: Trace, found: dict[str, Any]) -> dict[str, Any]:
    """The parts of all requests with their times, the requests with their jumps, the spans, sizes and events."""
    requests = Requests.of(trace)
    parts = Parts.of(trace, requests.files)
    names: dict[str, int] = {}
    chosen = np.argsort(-parts.size, kind="stable")[:PARTS_MAX] if len(parts) > PARTS_MAX else np.arange(len(parts))
    chosen = np.sort(chosen[parts.offset[chosen] >= 0])
    order = np.argsort(requests.number)
    row = order[np.searchsorted(requests.number[order], parts.request[chosen])] if len(chosen) else chosen
    # Time begins with the first read: what a program does before, such as loading libraries, would fill the picture.
    start = int(requests.sent.min(initial=np.iinfo("i8").max)) if len(requests) else 0
    ranked = [one["branch"] for one in found["branches"][:COLOURED] if one["branch"]]
    branch = _renamed(parts.branch[chosen], parts.branches, names)
    tree = _renamed(parts.tree[chosen], parts.trees, names)
    rank = {name: number for number, name in enumerate(ranked)}
    ranks = np.array([rank.get(name, -1) for name in parts.branches] + [-1], "i8")[parts.branch[chosen]]
    columns = {
        "begin": (requests.sent[row] - start) / 1e9, "end": (requests.last[row] - start) / 1e9,
        "offset": parts.offset[chosen].astype("f8"), "first": parts.entry_start[chosen].astype("f8"),
        "behind": parts.entry_stop[chosen].astype("f8"), "size": parts.size[chosen].astype("f8"),
        "whole": parts.extent[chosen].astype("f8"), "file": parts.file[chosen], "what": parts.what[chosen],
        "branch": branch, "tree": tree, "rank": ranks, "basket": parts.basket[chosen], "request": parts.request[chosen],
    }  # fmt: skip
    spans, spanned = _spans(trace, start)
    file_number = {path: number for number, path in enumerate(requests.files)}
    return {
        "wall": float(requests.last.max(initial=start) - start) / 1e9,
        "files": _files(trace, requests),
        "names": [printable(name) for name in names],
        "whats": parts.whats,
        "ranked": ranked,
        "spanned": spanned,
        "parts": {name: _packed(column) for name, column in columns.items()},
        "requests": {
            "begin": _packed((requests.sent - start) / 1e9),
            "end": _packed((requests.last - start) / 1e9),
            "jump": _packed((requests.jumps() != 0).astype("i8")),
            "file": _packed(requests.file),
        },
        "spans": spans,
        "sizes": found["sizes"],
        "events": [{**one, "file": file_number[one["file"]]} for one in found["events"]],
    }


def _files(trace: Trace, requests: Requests) -> list[dict[str, Any]]:
    rows = trace.rows_of(FILE)
    known = dict(zip(rows["file"].to_pylist(), rows["size_bytes"].to_pylist(), strict=True))
    files = []
    for number, path in enumerate(requests.files):
        mine = requests.file == number
        reached = int((requests.offset + requests.got)[mine].max(initial=0))
        files.append({"name": printable(path), "size": max(known.get(path) or 0, reached)})
    return files


def _spans(trace: Trace, start: int) -> tuple[dict[str, Any], list[str]]:
    rows = trace.rows_of(SPAN)
    what, whats = codes(rows, "what")
    begin, end = ((numbers(rows, name, 0) - start) / 1e9 for name in ("sent_ns", "last_byte_ns"))
    used = sorted({int(one) for one in what if one >= 0})
    renumbered = np.searchsorted(np.array(used, "i8"), what) if used else what
    packed = {"begin": _packed(begin), "end": _packed(end), "what": _packed(renumbered)}
    return packed, [whats[one] for one in used]


def _renamed(indices: Numbers, texts: list[str], names: dict[str, int]) -> Numbers:
    """Numbers into one list of names for all columns; -1 stays."""
    used = np.unique(indices[indices >= 0])
    renumbered = np.full(len(texts) + 1, -1, "i8")
    for one in used.tolist():
        renumbered[one] = names.setdefault(texts[one], len(names))
    return renumbered[indices]


def _packed(column: npt.NDArray[Any]) -> tuple[str, str]:
    """A column as base64 of numbers of 8 bytes with a point, or of 4 bytes without."""
    kind = "f8" if column.dtype.kind == "f" else "i4"
    return kind, base64.b64encode(np.ascontiguousarray(column, "<" + kind).tobytes()).decode()


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
