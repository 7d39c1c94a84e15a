"""A trace in the JSON of Chrome's trace viewer, which ui.perfetto.dev opens.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: an event of phase "X" is a slice of a
thread, with its begin (ts) and length (dur) in microseconds; "M" names processes and threads. Slices of a thread lie in
each other or apart: a thread with several requests on their way has further lanes, as threads with names of their own.
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
#: Between the numbers of a thread and of its further lanes; numbers of threads of Linux are below it.
_LANE = 1 << 23


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
    lanes = _Lanes()
    named: set[tuple[int, int]] = set()
    jobs = {row["process"] or 0: row["job"] for row in trace.rows_of(REQUEST).select(["process", "job"]).to_pylist()}
    for one in sorted(_slices(trace), key=lambda one: (_ends(one)[0], -_ends(one)[1])):
        process, thread = one["pid"], one["tid"]
        lane = lanes.place(one)
        one["tid"] = thread + lane * _LANE
        if (process, one["tid"]) not in named:
            if not any(known == process for known, _ in named):
                yield _name("process_name", process, thread, jobs.get(process) or trace.about.get("command", ""))
            named.add((process, one["tid"]))
            lane_name = f", {lane + 1} at a time" if lane else ""
            yield _name("thread_name", process, one["tid"], f"thread {thread}{lane_name}")
        yield one


class _Lanes:
    """For each thread its lanes, each with the ends of the slices that are open in it, the outermost first."""

    def __init__(self) -> None:
        self._open: dict[tuple[int, int], list[list[int]]] = {}

    def place(self, one: dict[str, Any]) -> int:
        """The first lane in which a slice lies apart from the others, or inside of one. They come as they begin."""
        lanes = self._open.setdefault((one["pid"], one["tid"]), [])
        begin, end = _ends(one)
        for number, ends in enumerate(lanes):
            while ends and ends[-1] <= begin:
                ends.pop()
            if not ends or end <= ends[-1]:
                ends.append(end)
                return number
        lanes.append([end])
        return len(lanes) - 1


def _ends(one: dict[str, Any]) -> tuple[int, int]:
    """Begin and end of a slice in nanoseconds, which its microseconds hold but for what rounding took."""
    begin = round(1000 * one["ts"])
    return begin, begin + round(1000 * one["dur"])


def _slices(trace: Trace) -> Iterator[dict[str, Any]]:
    hit = _hit(trace)
    for row in trace.rows_of(REQUEST).to_pylist():
        names = hit.get(row["request"], [])
        title = ", ".join(names[:_NAMES_MAX]) + (f" and {len(names) - _NAMES_MAX} more" if names[_NAMES_MAX:] else "")
        shown = {key: row[key] for key in _SHOWN if row[key] is not None}
        yield _slice(row, title or row["what"], f"request,{row['what']}", {**shown, "hit": names})
    for kind in (EXTENT, SPAN):
        for row in trace.rows_of(kind).to_pylist():
            shown = {key: row[key] for key in ("file", "branch", "basket", "wagon") if row[key] is not None}
            title = " ".join(part for part in (row["what"], row["branch"]) if part)
            yield _slice(row, title or kind, kind, shown)


def _hit(trace: Trace) -> dict[int, list[str]]:
    """What each request hit, as `branch basket 3`, in the order of the file."""
    found: dict[int, list[str]] = {}
    for row in trace.rows_of(PART).select(["request", "what", "branch", "basket", "tree"]).to_pylist():
        basket = "" if row["basket"] is None else f" {row['what']} {row['basket']}"
        name = f"{row['branch']}{basket}" if row["branch"] else " ".join(filter(None, (row["what"], row["tree"])))
        found.setdefault(row["request"], []).append(name)
    return found


def _slice(row: dict[str, Any], name: str, category: str, shown: dict[str, Any]) -> dict[str, Any]:
    begin = row["sent_ns"] or 0
    end = max(row["last_byte_ns"] or begin, begin)
    return {
        "ph": "X",
        "name": name,
        "cat": category,
        "pid": row["process"] or 0,
        "tid": row["thread"] or 0,
        "ts": begin / 1000,
        "dur": (end - begin) / 1000,
        "args": shown,
    }


def _name(what: str, process: int, thread: int, name: str) -> dict[str, Any]:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
