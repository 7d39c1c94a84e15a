"""A trace in the JSON of Chrome's trace viewer, which ui.perfetto.dev opens.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: an event of phase "X" is a slice of a
thread, with its begin (ts) and length (dur) in microseconds; "M" names processes and threads.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from branchline.report.whole_files import whole_file
from branchline.tracing.form import EXTENT, PART, REQUEST, SPAN, Trace

#: Columns of a request that are shown when its slice is chosen.
_SHOWN = ("file", "offset", "size_bytes", "got_bytes", "store", "connection", "attempt", "outcome", "wagon")
#: Names in the title of a slice; the others are counted.
_NAMES_MAX = 3


def write_perfetto(trace: Trace, path: Path) -> None:
    """Writes the trace, which appears when it is whole. Raises StorageError."""
    with whole_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","otherData":')
        json.dump({key: str(value) for key, value in trace.about.items()}, file)
        file.write(',"traceEvents":[\n')
        for number, event in enumerate(_events(trace)):
            file.write((",\n" if number else "") + json.dumps(event, separators=(",", ":")))
        file.write("\n]}\n")


def _events(trace: Trace) -> Iterator[dict[str, Any]]:
    hit = _hit(trace)
    named = set()
    for row in trace.rows_of(REQUEST).to_pylist():
        process, thread = row["process"] or 0, row["thread"] or 0
        if (process, thread) not in named:
            named.add((process, thread))
            yield _name("process_name", process, thread, row["job"] or trace.about.get("command", ""))
        names = hit.get(row["request"], [])
        title = ", ".join(names[:_NAMES_MAX]) + (f" and {len(names) - _NAMES_MAX} more" if names[_NAMES_MAX:] else "")
        shown = {key: row[key] for key in _SHOWN if row[key] is not None}
        yield _slice(row, process, thread, title or row["what"], f"request,{row['what']}", {**shown, "hit": names})
    for kind in (EXTENT, SPAN):
        for row in trace.rows_of(kind).to_pylist():
            shown = {key: row[key] for key in ("file", "branch", "basket", "wagon") if row[key] is not None}
            title = " ".join(part for part in (row["what"], row["branch"]) if part)
            yield _slice(row, row["process"] or 0, row["thread"] or 0, title or kind, kind, shown)


def _hit(trace: Trace) -> dict[int, list[str]]:
    """What each request hit, as `branch basket 3`, in the order of the file."""
    found: dict[int, list[str]] = {}
    for row in trace.rows_of(PART).select(["request", "what", "branch", "basket", "tree"]).to_pylist():
        basket = "" if row["basket"] is None else f" {row['what']} {row['basket']}"
        name = f"{row['branch']}{basket}" if row["branch"] else " ".join(filter(None, (row["what"], row["tree"])))
        found.setdefault(row["request"], []).append(name)
    return found


def _slice(
    row: dict[str, Any], process: int, thread: int, name: str, category: str, shown: dict[str, Any]
) -> dict[str, Any]:
    begin = row["sent_ns"] or 0
    end = max(row["last_byte_ns"] or begin, begin)
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": process,
        "tid": thread,
        "ts": begin / 1000,
        "dur": (end - begin) / 1000,
        "args": shown,
    }


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
