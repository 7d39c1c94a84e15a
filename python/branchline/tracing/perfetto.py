"""A trace in the JSON of Chrome's trace viewer, which ui.perfetto.dev opens.

https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU: an event of phase "X" is a slice of a
thread, with its begin (ts) and length (dur) in microseconds; "M" names processes and threads. Slices of a thread lie in
each other or apart: a thread with several requests in flight has further lanes, as threads with names of their own.

Traces have millions of slices: they are made column by column, a block of them at a time.
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

#: Columns that are shown when a slice is chosen.
_SHOWN = {
    REQUEST: ("file", "offset", "size_bytes", "got_bytes", "store", "connection", "attempt", "outcome", "wagon"),
    EXTENT: ("file", "branch", "basket", "wagon"),
    SPAN: ("file", "branch", "basket", "wagon"),
}
#: Names in the title of a slice; the others are counted.
_NAMES_MAX = 3
#: Difference between the numbers of a thread's tracks, the rows in which Perfetto draws it. Linux's numbers are below.
_LANE = 1 << 23
#: Slices that are formatted at a time.
_BLOCK = 100_000
_THOUSANDTHS = pa.array([f".{number:03d}" for number in range(1000)])


def write_perfetto(trace: Trace, path: Path) -> None:
    """Writes the file, which gets its name when it is complete. Raises StorageError."""
    with whole_file(path) as unfinished, unfinished.open("w", encoding="utf-8") as file:
        file.write('{"displayTimeUnit":"ns","otherData":')
        json.dump({key: str(value) for key, value in trace.job.to_json().items()}, file)
        file.write(',"traceEvents":[\n')
        for number, text in enumerate(_events(trace)):
            file.write((",\n" if number else "") + text)
        file.write("\n]}\n")


@dataclass(frozen=True)
class _Kind:
    """The slices of one kind, and the function that formats some of them."""

    rows: pa.Table
    texts: Callable[[pa.Table], pa.Array]


def _events(trace: Trace) -> Iterator[str]:
    """Pieces of the text of all events."""
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
    """For each slice the first track of its thread in which it overlaps no other, or lies inside of one. They come
    as they begin, and of those that begin together the longest first.
    """
    opened: dict[tuple[int, int], list[list[int]]] = {}
    found = []
    columns = (column.tolist() for column in (process, thread, begin, end))
    for own_process, own_thread, own_begin, own_end in zip(*columns, strict=True):
        # For each track the ends of the slices that are open in it, the outermost first.
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
    """The events that name processes, and threads with their tracks."""
    jobs = dict(zip(numbers(trace.rows_of(REQUEST), "process", 0).tolist(), _texts(trace, "job"), strict=True))
    named = set()
    for own_process, own_thread, own_lane in np.unique(np.stack([process, thread, lane], axis=1), axis=0).tolist():
        if own_process not in named:
            named.add(own_process)
            yield _name("process_name", own_process, own_thread, jobs.get(own_process) or trace.job.command)
        behind = f", {own_lane + 1} at a time" if own_lane else ""
        yield _name("thread_name", own_process, own_thread + own_lane * _LANE, f"thread {own_thread}{behind}")


def _texts(trace: Trace, column: str) -> list[str | None]:
    """A column of all requests."""
    found: list[str | None] = trace.rows_of(REQUEST)[column].to_pylist()
    return found


def _name(what: str, process: int, thread: int, name: str | None) -> str:
    event = {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name or ""}}
    return json.dumps(event, separators=(",", ":"))


def _escaped(table: pa.Table, name: str) -> pa.Array:
    """A column of texts as they are within the quotes of JSON; null where there is none."""
    column, texts = codes(table, name)
    inner = pa.array([json.dumps(text)[1:-1] for text in texts], pa.string())
    return inner.take(pa.array(column, mask=column < 0))


def _joined(*parts: pa.Array | Numbers | str) -> pa.Array:
    """Texts, each made of parts one after the other: columns of texts or numbers, and the same text for all."""
    columns = [
        pa.array(part).cast(pa.string()) if isinstance(part, np.ndarray) else pa.scalar(part)
        if isinstance(part, str) else part
        for part in parts
    ]  # fmt: skip
    return pc.binary_join_element_wise(*columns, "")


def _microseconds(nanoseconds: Numbers) -> pa.Array:
    return _joined(nanoseconds // 1000, _THOUSANDTHS.take(pa.array(nanoseconds % 1000)))


def _behind(mark: str, *parts: pa.Array | Numbers | str) -> pa.Array:
    """A mark followed by the parts; empty where a part is null."""
    return pc.fill_null(_joined(mark, *parts), "")


def _shown(table: pa.Table, names: Sequence[str]) -> pa.Array:
    """The shown columns of each row as members of a JSON object, each after a comma, without nulls."""
    members = []
    for name in names:
        if pa.types.is_dictionary(table.schema.field(name).type):
            members.append(_behind(f',"{name}":"', _escaped(table, name), '"'))
        else:
            members.append(_behind(f',"{name}":', table[name].combine_chunks().cast(pa.string())))
    return _joined(*members)


def _texts_of(kind: str) -> Callable[[pa.Table], pa.Array]:
    """The function that formats the ends of the events of a kind without parts."""

    def texts(table: pa.Table) -> pa.Array:
        what, branch = _escaped(table, "what"), _escaped(table, "branch")
        titles = pc.coalesce(_joined(what, " ", branch), what, branch, kind)
        shown = _joined(f'"kind":"{kind}"', _shown(table, _SHOWN[kind]))
        return _joined('"name":"', titles, f'","cat":"{kind}","args":{{', shown, "}}")

    return texts


def _part_names(parts: pa.Table) -> pa.Array:
    """Branch and basket of each part, or the kind of the piece."""
    what, branch = _escaped(parts, "what"), _escaped(parts, "branch")
    basket = _behind(" ", what, " ", parts["basket"].combine_chunks().cast(pa.string()))
    others = _joined(what, _behind(" ", _escaped(parts, "tree")))
    return pc.coalesce(_joined(branch, basket), others)


class _Hits:
    """The pieces that each request hit, as `branch basket 3`, in the order of the file."""

    def __init__(self, trace: Trace) -> None:
        parts = trace.rows_of(PART)
        order = np.argsort(numbers(parts, "request"), kind="stable")
        self._request = numbers(parts, "request")[order]
        self._parts = parts.select(["what", "branch", "basket", "tree"]).take(pa.array(order))

    def _hit(self, requests: Numbers) -> pa.Array:
        """The names of the parts of some requests: a list for each."""
        first = np.searchsorted(self._request, requests, "left")
        counts = np.searchsorted(self._request, requests, "right") - first
        offsets = np.concatenate([[0], np.cumsum(counts)])
        places = np.repeat(first - offsets[:-1], counts) + np.arange(offsets[-1])
        names = _part_names(self._parts.take(pa.array(places))) if len(places) else pa.array([], pa.string())
        return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), names)

    def texts(self, table: pa.Table) -> pa.Array:
        """The ends of the events of some requests."""
        hit = self._hit(numbers(table, "request"))
        many = pc.list_value_length(hit).to_numpy(zero_copy_only=False)
        what = _escaped(table, "what")
        titles = pc.binary_join(pc.list_slice(hit, 0, _NAMES_MAX), ", ")
        titles = pc.if_else(pa.array(many > _NAMES_MAX), _joined(titles, " and ", many - _NAMES_MAX, " more"), titles)
        titles = pc.if_else(pa.array(many > 0), titles, what)
        listed = pc.if_else(pa.array(many > 0), _joined('["', pc.binary_join(hit, '","'), '"]'), "[]")
        members = _joined('"hit":', listed, _shown(table, _SHOWN[REQUEST]))
        return _joined('"name":"', titles, '","cat":"request,', what, '","args":{', members, "}}")
