"""Replay of a trace: the same requests, or the same baskets with a new plan, at another storage or read otherwise."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import groupby

import numpy as np

from branchline import _core
from branchline.errors import OptionError
from branchline.reading.access import Access, ByteRange
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.file_map import BASKET, PAGE
from branchline.tracing.trace import END_OF_FILE, EXTENT, MAPPED, NOT_CACHED, PART, REQUEST, Trace
from branchline.tracing.trace_summary import Parts, Requests, unwanted


@dataclass(frozen=True)
class Replayed:
    """The time and reads of a replay, and those of the original. ``seconds`` is from the first request to the last
    answer; the original's without the time in which no request was in flight.
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
        """All of it as numbers and texts."""
        return asdict(self)


def replay_requests(trace: Trace, on: str | None, access: Access) -> Replayed:
    """Requests the same ranges in the same order, each thread as soon as it has the answer before, at another place.

    ``on`` is where the files are now: see `moved`. Requests that got nothing, and those whose place is not known, are
    left out and counted. Raises OptionError, StorageError, and MissingFileError.
    """
    played, left_out = _played(trace)
    if not played:
        raise OptionError("the trace has no requests that can be played again")
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
    """The ranges up to the end of the file. Raises OptionError for one that begins behind it."""
    size = store.size_bytes
    for one in ranges:
        if one.offset > size:
            what = f"{store.path} has {size} bytes, and the trace has a request at byte {one.offset}"
            raise OptionError(what, hint="it is not the file that was traced; name its place with --on")
    return [ByteRange(one.offset, min(one.length, size - one.offset)) for one in ranges]


def replay_baskets(trace: Trace, on: str | None, access: Access) -> Replayed:
    """Reads the branches and entries of the trace again, as ``access`` plans it, decodes and drops them.

    If the trace records which baskets were used, these are read; else those that were read completely.
    Raises OptionError, and what reading raises.
    """
    wanted = _wanted(trace)
    if not wanted:
        raise OptionError("the trace has no baskets that can be read again")
    calls = read = 0
    begin = time.perf_counter()
    # Files with the same branches are read as one dataset, so that the next one is opened ahead.
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
    return _replayed(trace, f"the same baskets with --access {access.mode}", paths, seconds, calls, read, 0)


def moved(path: str, on: str | None) -> str:
    """The present location of a file: the old one; its name in a directory or at a URL; or, for ``OLD=NEW``, the path
    with a new beginning. Raises OptionError for a path that does not begin with OLD.
    """
    if on is None:
        return path
    old, is_pair, new = on.partition("=")
    # An equals sign after a question mark belongs to the query of a URL.
    if not is_pair or "?" in old:
        place, mark, query = on.partition("?")
        return f"{place.rstrip('/')}/{path.rpartition('/')[2]}{mark}{query}"
    if not path.startswith(old):
        raise OptionError(f"{path} does not begin with {old}", hint="give OLD=NEW for the beginnings of all files")
    return new + path[len(old) :]


def _played(trace: Trace) -> tuple[list[list[tuple[str, list[ByteRange]]]], int]:
    """For each thread of the original its requests in their order: file and ranges; and how many are left out."""
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
    """For each file and tree, in the order of the first request: branches, and the entries from first to last."""
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
        original_seconds=original.busy_ns() / 1e9,
        original_calls=len(original),
        original_bytes=int(original.got.sum()),
        left_out=left_out,
    )
