"""Replays a trace on another storage system or with other options.

Either the recorded requests are sent again, or the recorded baskets are read again with a new plan.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import groupby

import numpy as np

from branchline import _core
from branchline.base.quantities import NS_PER_S
from branchline.errors import OptionError
from branchline.reading.access import Access, ByteRange
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.file_map import BASKET, PAGE
from branchline.tracing.trace import END_OF_FILE, EXTENT, MAPPED, NOT_CACHED, PART, REQUEST, Trace
from branchline.tracing.trace_summary import Parts, Requests, unwanted


@dataclass(frozen=True)
class Replayed:
    """Duration, calls and bytes of a replay, compared with the original.

    ``seconds`` is the time from the first request to the last response. ``original_seconds`` excludes the periods
    without a request in flight.
    """

    how: str
    files: tuple[str, ...]
    seconds: float
    read_calls: int
    read_bytes: int
    original_seconds: float
    original_calls: int
    original_bytes: int
    left_out: int

    def as_json(self) -> dict[str, object]:
        """Return all fields as numbers and strings."""
        return asdict(self)


def replay_requests(trace: Trace, on: str | None, access: Access) -> Replayed:
    """Send the requests of a trace again in their order; each thread sends the next request after the response.

    ``on`` is the new location of the files: see `moved`. Requests without a result, or at an unknown offset, are
    skipped and counted in ``left_out``. Raises OptionError, StorageError, and MissingFileError.
    """
    played, left_out = _played(trace)
    if not played:
        raise OptionError("the trace has no requests that can be replayed")
    files = sorted({path for one in played for path, _ in one})
    stores = {path: _core.Store(moved(path, on), access) for path in files}

    def play(thread: Sequence[tuple[str, list[ByteRange]]]) -> tuple[int, int]:
        calls, read = 0, 0
        for path, ranges in thread:
            done = stores[path].read(_within(stores[path], ranges))
            calls, read = calls + done.read_calls, read + done.bytes_read
        return calls, read

    begin = time.perf_counter()
    with ThreadPoolExecutor(len(played)) as pool:
        efforts = list(pool.map(play, played))
    seconds = time.perf_counter() - begin
    calls, read = sum(calls for calls, _ in efforts), sum(read for _, read in efforts)
    return _replayed(
        trace, "the same requests", [store.path for store in stores.values()], seconds, calls, read, left_out
    )


def _within(store: _core.Store, ranges: Sequence[ByteRange]) -> list[ByteRange]:
    """Clip the ranges to the file size. Raises OptionError for a range that starts after the end of the file."""
    size = store.size_bytes
    for one in ranges:
        if one.offset > size:
            what = f"{store.path} has {size} bytes, but the trace has a request at byte {one.offset}"
            raise OptionError(what, hint="it is not the file that was traced; give its location with --on")
    return [ByteRange(one.offset, min(one.length, size - one.offset)) for one in ranges]


def replay_baskets(trace: Trace, on: str | None, access: Access) -> Replayed:
    """Read the branches and entries of the trace again as planned by ``access``, and discard the decoded values.

    If the trace records which baskets were used, these baskets are read again. Otherwise, all baskets that the trace
    shows as completely read are read again. Raises OptionError and read errors.
    """
    wanted = _wanted(trace)
    if not wanted:
        raise OptionError("the trace has no baskets that can be replayed")
    calls = read = 0
    begin = time.perf_counter()
    # Files with equal branches are read as one dataset, since a dataset opens its next file in advance.
    for (tree, branches), group in groupby(wanted, key=lambda one: (one[1], one[2])):
        sources = [Source(moved(path, on), tree, start, stop) for path, _, _, start, stop in group]
        with ChunkStream(sources, list(branches), access=access) as stream:
            for chunk in stream:
                del chunk
            files = stream.records().files
        calls += sum(one.read_calls for one in files)
        read += sum(one.bytes_read for one in files)
    seconds = time.perf_counter() - begin
    paths = [moved(path, on) for path, *_ in wanted]
    return _replayed(trace, f"the same baskets with {access.words}", paths, seconds, calls, read, 0)


def moved(path: str, on: str | None) -> str:
    """Return the new location of a file.

    Without ``on``, the location is unchanged. If ``on`` is a directory or a URL, it is joined with the file's name. If
    ``on`` has the form ``OLD=NEW``, the prefix OLD of the path is replaced with NEW; raises OptionError for a path that
    does not start with OLD.
    """
    if on is None:
        return path
    old, is_pair, new = on.partition("=")
    # An equals sign after a question mark is part of a URL's query.
    if not is_pair or "?" in old:
        place, mark, query = on.partition("?")
        return f"{place.rstrip('/')}/{path.rpartition('/')[2]}{mark}{query}"
    if not path.startswith(old):
        raise OptionError(f"{path} does not start with {old}", hint="give OLD=NEW with a common prefix of all files")
    return new + path[len(old) :]


def _played(trace: Trace) -> tuple[list[list[tuple[str, list[ByteRange]]]], int]:
    """Return each thread's requests in order (as a file and its ranges), and the number of skipped requests."""
    ranges: dict[int, list[list[int]]] = {}
    parts = trace.rows_of(PART).select(["request", "offset", "size_bytes"]).to_pylist()
    for row in parts:
        if row["offset"] is None:
            continue
        own = ranges.setdefault(row["request"], [])
        if own and sum(own[-1]) == row["offset"]:
            own[-1][1] += row["size_bytes"]
        else:
            own.append([row["offset"], row["size_bytes"]])
    threads: dict[tuple[int, int], list[tuple[str, list[ByteRange]]]] = {}
    left_out = 0
    rows = trace.rows_of(REQUEST).select(["request", "process", "thread", "file", "sent_ns", "outcome"]).to_pylist()
    for row in sorted(rows, key=lambda row: row["sent_ns"] or 0):
        own = ranges.get(row["request"], [])
        if not own:
            left_out += row["outcome"] not in (END_OF_FILE, MAPPED, NOT_CACHED)
            continue
        thread = threads.setdefault((row["process"] or 0, row["thread"] or 0), [])
        thread.append((row["file"], [ByteRange(offset, length) for offset, length in own]))
    return list(threads.values()), left_out


def _wanted(trace: Trace) -> list[tuple[str, str, tuple[str, ...], int, int]]:
    """Return the branches and the range of entries for each file and tree, in the order of their first requests."""
    requests = Requests.of(trace)
    parts = Parts.of(trace, requests.files)
    first = {path: number for number, path in enumerate(requests.files)}
    found: dict[tuple[str, str], tuple[set[str], int, int]] = {}
    used = trace.rows_of(EXTENT)
    if used.num_rows:
        columns = ("file", "tree", "branch", "entry_start", "entry_stop")
        rows = list(zip(*(used[name].to_pylist() for name in columns), strict=True))
    else:
        is_whole = parts.is_any(BASKET, PAGE) & ~unwanted(trace, parts) & (parts.entry_start >= 0)
        rows = [
            (requests.files[parts.file[row]], parts.trees[parts.tree[row]], parts.branches[parts.branch[row]],
             int(parts.entry_start[row]), int(parts.entry_stop[row]))
            for row in np.nonzero(is_whole)[0]
        ]  # fmt: skip
    for path, tree, branch, start, stop in rows:
        branches, low, high = found.get((path, tree), (set(), start, stop))
        found[path, tree] = (branches | {branch}, min(low, start), max(high, stop))
    ordered = sorted(found.items(), key=lambda item: first.get(item[0][0], len(first)))
    return [(path, tree, tuple(sorted(branches)), low, high) for (path, tree), (branches, low, high) in ordered]


def _replayed(
    trace: Trace, how: str, files: Sequence[str], seconds: float, calls: int, read: int, left_out: int
) -> Replayed:
    original = Requests.of(trace)
    return Replayed(
        how=how,
        files=tuple(files),
        seconds=seconds,
        read_calls=calls,
        read_bytes=read,
        original_seconds=original.busy_ns() / NS_PER_S,
        original_calls=len(original),
        original_bytes=int(original.got.sum()),
        left_out=left_out,
    )
