"""Exports a trace in the JSON format of Chrome's trace viewer, for ui.perfetto.dev.

The format is described in https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU. An event of
phase "X" is a slice of a thread, with start (ts) and duration (dur) in microseconds. An event of phase "M" names a
process or a thread.
Slices of a thread must be nested or disjoint, so concurrent requests of a thread are put on additional tracks, which
are threads with their own names.

Traces may have millions of slices, so events are formatted in columns, one block at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from branchline.base.whole_files import whole_file
from branchline.tracing.trace import EXTENT, PART, REQUEST, SPAN, Numbers, Trace, codes, numbers

#: Columns that Perfetto shows when a slice is selected, by kind of row.
_SHOWN = {
    REQUEST: ("file", "offset", "size_bytes", "got_bytes", "store", "connection", "attempt", "outcome", "wagon"),
    EXTENT: ("file", "branch", "basket", "wagon"),
    SPAN: ("file", "branch", "basket", "wagon"),
}
#: Maximum number of names in the title of a slice; the title ends with the number of omitted names.
_NAMES_MAX = 3
#: Added to a thread ID for each additional track of the thread. Larger than any Linux thread ID, so IDs are unique.
_LANE = 1 << 23
#: Number of slices formatted at a time.
_BLOCK = 100_000
_THOUSANDTHS = pa.array([f".{number:03d}" for number in range(1000)])


def write_perfetto(trace: Trace, path: Path) -> None:
    """Write the trace to a JSON file, which appears at ``path`` only when complete. Raises StorageError."""
    with whole_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","otherData":')
        json.dump({key: str(value) for key, value in trace.job.to_json().items()}, file)
        file.write(',"traceEvents":[\n')
        for number, text in enumerate(_events(trace)):
            file.write((",\n" if number else "") + text)
        file.write("\n]}\n")


@dataclass(frozen=True)
class _Kind:
    """The slices of one kind, and the function that formats them."""

    rows: pa.Table
    texts: Callable[[pa.Table], pa.Array]


def _events(trace: Trace) -> Iterator[str]:
    """Yield the JSON text of all events, a block of events at a time."""
    hits = _Hits(trace)
    kinds = [
        _Kind(trace.rows_of(REQUEST), hits.texts),
        *(_Kind(trace.rows_of(kind), _texts_of(kind)) for kind in (EXTENT, SPAN)),
    ]
    sizes = [one.rows.num_rows for one in kinds]
    kind = np.repeat(np.arange(len(kinds)), sizes)
    row = np.concatenate([np.arange(size) for size in sizes])
    process, thread, begin, last = (
        np.concatenate([numbers(one.rows, name, 0) for one in kinds])
        for name in ("process", "thread", "sent_ns", "last_byte_ns")
    )
    end = np.maximum(begin, last)
    order = np.lexsort((-end, begin))
    lane = _lanes(process[order], thread[order], begin[order], end[order])
    yield from _names(trace, process[order], thread[order], lane)
    for start in range(0, len(order), _BLOCK):
        block = order[start : start + _BLOCK]
        heads = _joined(
            '{"ph":"X","pid":', process[block], ',"tid":', thread[block] + lane[start : start + _BLOCK] * _LANE,
            ',"ts":', _microseconds(begin[block]), ',"dur":', _microseconds(end[block] - begin[block]), ",",
        )  # fmt: skip
        tails: list[pa.Array] = []
        places = []
        for number, one in enumerate(kinds):
            own = np.nonzero(kind[block] == number)[0]
            if len(own):
                tails.append(one.texts(one.rows.take(pa.array(row[block][own]))))
                places.append(own)
        tail = pa.concat_arrays(tails).take(pa.array(np.argsort(np.concatenate(places))))
        yield ",\n".join(_joined(heads, tail).to_pylist())


def _lanes(process: Numbers, thread: Numbers, begin: Numbers, end: Numbers) -> Numbers:
    """Assign each slice to a track of its thread, so that any two slices of a track are either nested or disjoint.

    Uses the first possible track. Slices must be sorted by start time, and then by decreasing length.
    """
    opened: dict[tuple[int, int], list[list[int]]] = {}
    found = []
    columns = (column.tolist() for column in (process, thread, begin, end))
    for own_process, own_thread, own_begin, own_end in zip(*columns, strict=True):
        # For each track, the end times of the open slices, outermost slice first.
        lanes = opened.setdefault((own_process, own_thread), [])
        for number, ends in enumerate(lanes):
            while ends and ends[-1] <= own_begin:
                ends.pop()
            if not ends or own_end <= ends[-1]:
                ends.append(own_end)
                found.append(number)
                break
        else:
            found.append(len(lanes))
            lanes.append([own_end])
    return np.array(found, "i8")


def _names(trace: Trace, process: Numbers, thread: Numbers, lane: Numbers) -> Iterator[str]:
    """Yield the events that name processes, threads and their tracks."""
    texts: list[str | None] = trace.rows_of(REQUEST)["job"].to_pylist()
    jobs = dict(zip(numbers(trace.rows_of(REQUEST), "process", 0).tolist(), texts, strict=True))
    named = set()
    for own_process, own_thread, own_lane in np.unique(np.stack([process, thread, lane], axis=1), axis=0).tolist():
        if own_process not in named:
            named.add(own_process)
            yield _name("process_name", own_process, own_thread, jobs.get(own_process) or trace.job.command)
        behind = f", {own_lane + 1} at a time" if own_lane else ""
        yield _name("thread_name", own_process, own_thread + own_lane * _LANE, f"thread {own_thread}{behind}")


def _name(what: str, process: int, thread: int, name: str | None) -> str:
    event = {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name or ""}}
    return json.dumps(event, separators=(",", ":"))


def _escaped(table: pa.Table, name: str) -> pa.Array:
    """Return a string column, escaped for JSON; missing values are null."""
    column, texts = codes(table, name)
    inner = pa.array([json.dumps(text)[1:-1] for text in texts], pa.string())
    return inner.take(pa.array(column, mask=column < 0))


def _joined(*parts: pa.Array | Numbers | str) -> pa.Array:
    """Concatenate string or number columns row by row; a Python string is repeated in every row."""
    columns = [
        pa.array(part).cast(pa.string()) if isinstance(part, np.ndarray) else pa.scalar(part)
        if isinstance(part, str) else part
        for part in parts
    ]  # fmt: skip
    return pc.binary_join_element_wise(*columns, "")


def _microseconds(nanoseconds: Numbers) -> pa.Array:
    return _joined(nanoseconds // 1000, _THOUSANDTHS.take(pa.array(nanoseconds % 1000)))


def _behind(mark: str, *parts: pa.Array | Numbers | str) -> pa.Array:
    """Concatenate a prefix and the parts row by row; the result is empty in rows where a part is null."""
    return pc.fill_null(_joined(mark, *parts), "")


def _shown(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """Format the columns ``names`` of each row as members of a JSON object, each with a leading comma; skip nulls."""
    members = []
    for name in names:
        if pa.types.is_dictionary(table.schema.field(name).type):
            members.append(_behind(f',"{name}":"', _escaped(table, name), '"'))
        else:
            members.append(_behind(f',"{name}":', table[name].combine_chunks().cast(pa.string())))
    return _joined(*members)


def _texts_of(kind: str) -> Callable[[pa.Table], pa.Array]:
    """Return a function that formats the name, category and arguments of extent or span events."""

    def texts(table: pa.Table) -> pa.Array:
        what, branch = _escaped(table, "what"), _escaped(table, "branch")
        titles = pc.coalesce(_joined(what, " ", branch), what, branch, kind)
        shown = _joined(f'"kind":"{kind}"', _shown(table, _SHOWN[kind]))
        return _joined('"name":"', titles, f'","cat":"{kind}","args":{{', shown, "}}")

    return texts


def _part_names(parts: pa.Table) -> pa.Array:
    """Return the branch and basket of each part; for parts outside baskets, the kind of piece and the tree."""
    what, branch = _escaped(parts, "what"), _escaped(parts, "branch")
    basket = _behind(" ", what, " ", parts["basket"].combine_chunks().cast(pa.string()))
    others = _joined(what, _behind(" ", _escaped(parts, "tree")))
    return pc.coalesce(_joined(branch, basket), others)


class _Hits:
    """The pieces hit by each request, as `branch basket 3`, in the order of the file."""

    def __init__(self, trace: Trace) -> None:
        parts = trace.rows_of(PART)
        order = np.argsort(numbers(parts, "request"), kind="stable")
        self._request = numbers(parts, "request")[order]
        self._parts = parts.select(["what", "branch", "basket", "tree"]).take(pa.array(order))

    def texts(self, table: pa.Table) -> pa.Array:
        """Format the name, category and arguments of request events."""
        # Collect the names of the parts of each request in a list.
        requests = numbers(table, "request")
        first = np.searchsorted(self._request, requests, "left")
        counts = np.searchsorted(self._request, requests, "right") - first
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(first - offsets[:-1], counts) + np.arange(offsets[-1])
        names = _part_names(self._parts.take(pa.array(places))) if len(places) else pa.array([], pa.string())
        hit = pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names)
        many = pc.list_value_length(hit).to_numpy(zero_copy_only=False)
        what = _escaped(table, "what")
        titles = pc.binary_join(pc.list_slice(hit, 0, _NAMES_MAX), ", ")
        titles = pc.if_else(pa.array(many > _NAMES_MAX), _joined(titles, " and ", many - _NAMES_MAX, " more"), titles)
        titles = pc.if_else(pa.array(many > 0), titles, what)
        listed = pc.if_else(pa.array(many > 0), _joined('["', pc.binary_join(hit, '","'), '"]'), "[]")
        members = _joined('"hit":', listed, _shown(table, _SHOWN[REQUEST]))
        return _joined('"name":"', titles, '","cat":"request,', what, '","args":{', members, "}}")
