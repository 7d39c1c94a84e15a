"""Summarises a trace: calls and bytes by kind of piece, file, branch and event; request sizes, seeks and rereads."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from branchline.base.quantities import NS_PER_S
from branchline.tracing.facts import (
    BranchReads,
    EventRow,
    FileReads,
    KindRow,
    RequestTotals,
    SizeRow,
    SpanRow,
    Summary,
)
from branchline.tracing.file_map import BASKET, FREE, GAP, PAGE
from branchline.tracing.trace import (
    EXTENT,
    FILE,
    MAPPED,
    NO_FAILURES,
    NOT_CACHED,
    PART,
    REQUEST,
    SPAN,
    Numbers,
    Trace,
    codes,
    numbers,
)

#: Directories with a tree for each event, as written by ALICE's simulation.
EVENT_DIRECTORY = re.compile(r"(?:^|/)Event(\d+)/")
#: Kinds of pieces without content.
NOTHING = (GAP, FREE)


@dataclass(frozen=True)
class Requests:
    """The requests of a trace as columns, sorted by send time."""

    number: Numbers
    file: Numbers
    files: list[str]
    offset: Numbers
    requested: Numbers
    got: Numbers
    sent: Numbers
    last: Numbers
    thread: Numbers
    end: Numbers

    @classmethod
    def of(cls, trace: Trace) -> Requests:
        """Return the requests of a trace, without memory mappings and without reads that missed the page cache.

        A read that missed the page cache is followed by a second read, which is counted.
        """
        return trace.once("requests", lambda: cls._of(trace))

    @classmethod
    def _of(cls, trace: Trace) -> Requests:
        rows = trace.rows_of(REQUEST)
        file, files = codes(rows, "file")
        what, whats = codes(rows, "what")
        sent = numbers(rows, "sent_ns", 0)
        columns = [
            numbers(rows, "request"), file, numbers(rows, "offset"), numbers(rows, "size_bytes", 0),
            numbers(rows, "got_bytes", 0), sent, numbers(rows, "last_byte_ns", 0), numbers(rows, "thread"),
        ]  # fmt: skip
        outcome, outcomes = codes(rows, "outcome")
        is_read = what != (whats.index("mmap") if "mmap" in whats else -2)
        is_read &= outcome != (outcomes.index(NOT_CACHED) if NOT_CACHED in outcomes else -2)
        order = np.nonzero(is_read)[0][np.argsort(sent[is_read], kind="stable")]
        number, file, offset, requested, got, sent, last, thread = (column[order] for column in columns)
        end = _ends(trace, number, offset + got)
        return cls(number, file, files, offset, requested, got, sent, np.maximum(last, sent), thread, end)

    def __len__(self) -> int:
        return len(self.number)

    def jumps(self) -> Numbers:
        """Return the distance of each read from the end of the file's previous read in bytes; 0 for the first read."""
        jumps = np.zeros(len(self), "i8")
        for one in range(len(self.files)):
            rows = np.nonzero((self.file == one) & (self.offset >= 0))[0]
            jumps[rows[1:]] = self.offset[rows[1:]] - self.end[rows[:-1]]
        return jumps

    def busy_ns(self) -> int:
        """Return the total time during which at least one request was in flight, in nanoseconds."""
        # This is the length of the union of all requests' time intervals.
        begin = self.sent
        length = self.last - self.sent
        order = np.argsort(begin, kind="stable")
        ends = (begin + length)[order]
        if not len(ends):
            return 0
        before = np.append(np.iinfo("i8").min, np.maximum.accumulate(ends)[:-1])
        return int(np.maximum(ends - np.maximum(before, begin[order]), 0).sum())


def _ends(trace: Trace, number: Numbers, end: Numbers) -> Numbers:
    """Return the end offset of each request; if it has several ranges, the end of the last one."""
    parts = trace.rows_of(PART)
    request, offset = numbers(parts, "request"), numbers(parts, "offset")
    if not len(request):
        return end
    known = offset >= 0
    far = np.zeros(int(max(number.max(initial=0), request.max(initial=0))) + 1, "i8")
    np.maximum.at(far, request[known], (offset + numbers(parts, "size_bytes", 0))[known])
    return np.where(far[number] > 0, far[number], end)


@dataclass(frozen=True)
class Parts:
    """The request parts as columns: one part for each piece of a file that a request hit.

    ``fresh`` is the size of a part without the bytes that parts at smaller offsets already cover. The sum of ``fresh``
    is therefore the number of distinct bytes.
    """

    request: Numbers
    file: Numbers
    what: Numbers
    whats: list[str]
    tree: Numbers
    trees: list[str]
    branch: Numbers
    branches: list[str]
    basket: Numbers
    entry_start: Numbers
    entry_stop: Numbers
    offset: Numbers
    size: Numbers
    extent: Numbers
    fresh: Numbers
    #: Cache for the result of `first_parts`.
    kept: dict[str, Numbers] = field(default_factory=dict)
    extents: list[tuple[Numbers, int]] = field(default_factory=list)

    @classmethod
    def of(cls, trace: Trace, files: list[str]) -> Parts:
        """Return the parts of a trace. File indices refer to ``files``, the list of `Requests`."""
        return trace.once("parts", lambda: cls._of(trace, files))

    @classmethod
    def _of(cls, trace: Trace, files: list[str]) -> Parts:
        rows = trace.rows_of(PART)
        file, own_files = codes(rows, "file")
        known = {path: number for number, path in enumerate(files)}
        renumbered = np.array([known.get(path, -1) for path in own_files] + [-1], "i8")[file]
        offset, size = numbers(rows, "offset"), numbers(rows, "size_bytes", 0)
        # Count each byte of a file once: sort the parts by offset, and count the bytes after the ends of earlier parts.
        fresh = np.where(offset < 0, size, 0)
        for one in np.unique(renumbered):
            own = np.nonzero((renumbered == one) & (offset >= 0))[0]
            own = own[np.argsort(offset[own], kind="stable")]
            ends = (offset + size)[own]
            before = np.append(0, np.maximum.accumulate(ends)[:-1]) if len(own) else ends
            fresh[own] = np.maximum(ends - np.maximum(before, offset[own]), 0)
        return cls(
            numbers(rows, "request"), renumbered, *codes(rows, "what"), *codes(rows, "tree"), *codes(rows, "branch"),
            numbers(rows, "basket"), numbers(rows, "entry_start"), numbers(rows, "entry_stop"), offset, size,
            numbers(rows, "extent_bytes"), fresh,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.request)

    def is_any(self, *words: str) -> npt.NDArray[np.bool_]:
        """Return a mask of the parts whose kind is one of ``words``."""
        return np.isin(self.what, [self.whats.index(word) for word in words if word in self.whats])


def summarise(trace: Trace) -> Summary:
    """Compute all values that the tables and pages of a trace show."""
    requests = Requests.of(trace)
    parts = Parts.of(trace, requests.files)
    wasted = unwanted(trace, parts)
    jumps = requests.jumps()
    busy = requests.busy_ns()
    took = int((requests.last - requests.sent).sum())
    calls, bytes_read = basket_reads(requests, parts)
    outcome, outcomes = codes(trace.rows_of(REQUEST), "outcome")
    ended = dict(zip(outcomes, np.bincount(outcome[outcome >= 0], minlength=len(outcomes)).tolist(), strict=True))
    return Summary(
        job=trace.job,
        totals=RequestTotals(
            read_calls=len(requests),
            requested_bytes=int(requests.requested.sum()),
            read_bytes=int(requests.got.sum()),
            distinct_bytes=int(parts.fresh.sum()),
            again_bytes=int(requests.got.sum() - parts.fresh.sum()),
            unwanted_bytes=int(parts.fresh[wasted].sum()),
            basket_read_calls=calls,
            basket_read_bytes=bytes_read,
            files=len({int(one) for one in requests.file}),
            seeks=int(np.count_nonzero(jumps)),
            seeks_back=int(np.count_nonzero(jumps < 0)),
            seek_bytes=int(np.abs(jumps).sum()),
            wall_s=trace.job.wall_ns / NS_PER_S,
            reading_s=busy / NS_PER_S,
            in_flight_mean=took / busy if busy else 0.0,
            mapped_calls=ended.get(MAPPED, 0),
            failed_calls=sum(count for one, count in ended.items() if one not in NO_FAILURES),
        ),
        kinds=by_kind(requests, parts),
        files=by_file(trace, requests, parts, wasted, jumps),
        branches=by_branch(requests, parts, wasted),
        events=by_event(requests, parts),
        sizes=by_size(requests),
        spans=spans(trace),
    )


def first_parts(requests: Requests, parts: Parts) -> Numbers:
    """Return the index of the part with the first byte of each request; -1 for a request without parts.

    This part determines the kind and branch under which the request is counted.
    """
    if "first" not in parts.kept:
        first = np.full(len(requests), -1, "i8")
        order = np.lexsort((parts.offset, parts.request))
        number, place = np.unique(parts.request[order], return_index=True)
        sorted_numbers = np.argsort(requests.number)
        at = sorted_numbers[np.searchsorted(requests.number[sorted_numbers], number)] if len(number) else number
        first[at] = order[place]
        parts.kept["first"] = first
    return parts.kept["first"]


def basket_reads(requests: Requests, parts: Parts) -> tuple[int, int]:
    """Return the number of read calls that start in a basket or page, and the bytes that they received."""
    first = first_parts(requests, parts)
    is_data = np.append(parts.is_any(BASKET, PAGE), False)[first]
    return int(is_data.sum()), int(requests.got[is_data].sum())


def by_kind(requests: Requests, parts: Parts) -> list[KindRow]:
    """Return a row for each kind of piece. A call counts for the kind of the piece with the call's first byte."""
    first = first_parts(requests, parts)
    what = np.append(parts.what, -1)[first]
    return sorted(
        (
            KindRow(
                what=word,
                read_calls=int((what == number).sum()),
                read_bytes=int(parts.size[parts.what == number].sum()),
                distinct_bytes=int(parts.fresh[parts.what == number].sum()),
            )
            for number, word in enumerate(parts.whats)
            if (parts.what == number).any()
        ),
        key=lambda row: -row.read_bytes,
    )


def unwanted(trace: Trace, parts: Parts) -> npt.NDArray[np.bool_]:
    """Return a mask of the parts that were not used: gaps, and baskets that were never read completely.

    If the trace records which baskets and pages were used, all others count as unused, even if they were read
    completely.
    """
    is_data = parts.is_any(BASKET, PAGE)
    wasted = parts.is_any(*NOTHING)
    key, count = _extents(parts)
    if not count:
        return wasted
    had = np.bincount(key[is_data], parts.fresh[is_data], count)
    whole = np.zeros(count)
    whole[key[is_data]] = parts.extent[is_data]
    wasted[is_data] = (had < whole)[key[is_data]]
    if trace.rows_of(EXTENT).num_rows:
        wasted[is_data] = ~_used(trace, parts)[is_data]
    return wasted


def _used(trace: Trace, parts: Parts) -> npt.NDArray[np.bool_]:
    """Return a mask of the parts whose basket or page was used."""
    used, rows = trace.rows_of(EXTENT), trace.rows_of(PART)
    offset = numbers(used, "offset")
    file = _common(codes(rows, "file"), codes(used, "file"))
    branch = _common(codes(rows, "branch"), codes(used, "branch"))
    placed = offset >= 0
    # The offset of a piece is the smallest offset of its parts.
    key, count = _extents(parts)
    begin = np.full(max(count, 1), np.iinfo("i8").max)
    np.minimum.at(begin, key, parts.offset)
    is_used = _is_among((file[0], begin[key]), (file[1][placed], offset[placed]))
    what, whats = codes(used, "what")
    if PAGE in whats and (what == whats.index(PAGE)).any():
        return is_used
    # A basket that is embedded in the tree's record has no offset; all baskets of its branch then count as used.
    return is_used | _is_among((file[0], branch[0]), (file[1][~placed], branch[1][~placed]))


def _common(one: tuple[Numbers, list[str]], other: tuple[Numbers, list[str]]) -> tuple[Numbers, Numbers]:
    """Convert two string columns to indices into one common list of strings."""
    places = {text: number for number, text in enumerate(one[1])}
    renumbered = [places.setdefault(text, len(places)) for text in other[1]]
    return one[0], np.array([*renumbered, -1], "i8")[other[0]]


def _is_among(pairs: tuple[Numbers, Numbers], others: tuple[Numbers, Numbers]) -> npt.NDArray[np.bool_]:
    """Return a mask of the ``pairs`` that occur in ``others``."""
    if not len(others[0]):
        return np.zeros(len(pairs[0]), bool)
    key, _ = _numbered(*(np.concatenate(columns) for columns in zip(pairs, others, strict=True)))
    found: npt.NDArray[np.bool_] = np.isin(key[: len(pairs[0])], key[len(pairs[0]) :])
    return found


def _extents(parts: Parts) -> tuple[Numbers, int]:
    """Return, for each part, the ID of its piece of a file, and the number of pieces."""
    if not len(parts):
        return parts.request, 0
    if not parts.extents:
        parts.extents.append(_numbered(parts.file, parts.tree, parts.branch, parts.basket, parts.extent))
    return parts.extents[0]


def _numbered(*columns: Numbers) -> tuple[Numbers, int]:
    """Return an ID for each row, and the number of distinct IDs. Rows that agree in all columns get equal IDs."""
    key, count = np.zeros(len(columns[0]), "i8"), 1
    for column in columns:
        own, values_count = _ranked(column)
        key, count = _ranked(key * values_count + own)
    return key, count


def _ranked(column: Numbers) -> tuple[Numbers, int]:
    """Return the rank of each value among the distinct values, and the number of distinct values.

    If the values have a small range, a lookup table is used instead of sorting.
    """
    low, high = int(column.min(initial=0)), int(column.max(initial=0))
    if high - low > max(4 * len(column), 1 << 16):
        values, own = np.unique(column, return_inverse=True)
        return own.reshape(-1), len(values)
    is_there = np.zeros(high - low + 1, bool)
    is_there[column - low] = True
    places = np.cumsum(is_there) - 1
    return places[column - low], int(is_there.sum())


def _distinct(key: Numbers, other: Numbers, count: int) -> Numbers:
    """Return the number of distinct values of ``other`` for each of ``count`` keys."""
    pair, pairs_count = _numbered(key, other)
    owner = np.zeros(pairs_count, "i8")
    owner[pair] = key
    return np.bincount(owner, minlength=count)


def by_file(
    trace: Trace, requests: Requests, parts: Parts, wasted: npt.NDArray[np.bool_], jumps: Numbers
) -> list[FileReads]:
    """Return a row for each file, in the order of first reads."""
    rows_of_files = trace.rows_of(FILE)
    sizes = dict(zip(rows_of_files["file"].to_pylist(), rows_of_files["size_bytes"].to_pylist(), strict=True))
    first = first_parts(requests, parts)
    is_data = np.append(parts.is_any(BASKET, PAGE), False)[first]
    _, order = np.unique(requests.file, return_index=True)
    rows = []
    for number in requests.file[np.sort(order)]:
        mine, hit = requests.file == number, parts.file == number
        rows.append(
            FileReads(
                file=requests.files[number],
                size_bytes=sizes.get(requests.files[number]),
                read_calls=int(mine.sum()),
                read_bytes=int(requests.got[mine].sum()),
                distinct_bytes=int(parts.fresh[hit].sum()),
                unwanted_bytes=int(parts.fresh[hit & wasted].sum()),
                basket_read_calls=int((mine & is_data).sum()),
                basket_read_bytes=int(requests.got[mine & is_data].sum()),
                seeks=int(np.count_nonzero(jumps[mine])),
                seeks_back=int(np.count_nonzero(jumps[mine] < 0)),
                reading_s=float((requests.last - requests.sent)[mine].sum()) / NS_PER_S,
            )
        )
    return rows


def by_branch(requests: Requests, parts: Parts, wasted: npt.NDArray[np.bool_]) -> list[BranchReads]:
    """Return a row for each branch over all files, the one with most bytes first.

    A request that hit several branches counts for each branch; its time is divided among the branches in proportion to
    their bytes.
    """
    data = np.nonzero(parts.is_any(BASKET, PAGE))[0]
    if not len(data):
        return []
    sorted_numbers = np.argsort(requests.number)
    at = sorted_numbers[np.searchsorted(requests.number[sorted_numbers], parts.request[data])]
    seconds = (requests.last - requests.sent)[at] / NS_PER_S * parts.size[data] / np.maximum(requests.got[at], 1)
    key, count = _numbered(parts.tree[data], parts.branch[data])
    pairs = np.zeros((2, count), "i8")
    pairs[:, key] = parts.tree[data], parts.branch[data]
    extents, _ = _extents(parts)
    columns = {
        "read_calls": _distinct(key, parts.request[data], count),
        "read_bytes": np.bincount(key, parts.size[data], count),
        "distinct_bytes": np.bincount(key, parts.fresh[data], count),
        "unwanted_bytes": np.bincount(key, parts.fresh[data] * wasted[data], count),
        "baskets": _distinct(key, extents[data], count),
    }
    spent = np.bincount(key, seconds, count)
    rows = [
        BranchReads(
            tree=parts.trees[tree] if tree >= 0 else "",
            branch=parts.branches[branch] if branch >= 0 else "",
            **{name: int(column[row]) for name, column in columns.items()},
            reading_s=float(spent[row]),
        )
        for row, (tree, branch) in enumerate(pairs.T)
    ]
    return sorted(rows, key=lambda row: (-row.read_bytes, row.branch))


def events_of(requests: Requests, parts: Parts) -> Numbers:
    """Return the event of each request: the first entry of the request's baskets, or the number in ``Event12/TreeK``.

    The event is -1 for a request that does not start in a basket, for example a request for a file header.
    """
    entry = parts.entry_start.copy()
    numbered = [EVENT_DIRECTORY.search(name) for name in parts.trees]
    for number, found in enumerate(numbered):
        if found is not None:
            entry[parts.tree == number] = int(found[1])
    first = np.full(len(requests), np.iinfo("i8").max)
    rows = np.nonzero(entry >= 0)[0]
    sorted_numbers = np.argsort(requests.number)
    at = sorted_numbers[np.searchsorted(requests.number[sorted_numbers], parts.request[rows])] if len(rows) else rows
    np.minimum.at(first, at, entry[rows])
    begins = np.append(parts.is_any(BASKET, PAGE), False)[first_parts(requests, parts)]
    return np.where(begins & (first < np.iinfo("i8").max), first, -1)


def by_event(requests: Requests, parts: Parts) -> list[EventRow]:
    """Return the calls and bytes per event of each file, and the calls and bytes before the first event."""
    event = events_of(requests, parts)
    rows = []
    for number in np.unique(requests.file):
        mine = requests.file == number
        known = mine & (event >= 0)
        count = int(event[known].max(initial=-1)) + 1
        rows.append(
            EventRow(
                file=requests.files[number],
                opening_calls=int((mine & (event < 0)).sum()),
                opening_bytes=int(requests.got[mine & (event < 0)].sum()),
                read_calls=np.bincount(event[known], minlength=count).tolist(),
                read_bytes=np.bincount(event[known], requests.got[known], count).astype("i8").tolist(),
            )
        )
    return rows


def by_size(requests: Requests) -> list[SizeRow]:
    """Group requests by received bytes, rounded up to a power of two."""
    power = np.ceil(np.log2(np.maximum(requests.got, 1))).astype("i8")
    return [
        SizeRow(
            up_to_bytes=1 << int(one),
            read_calls=int((power == one).sum()),
            read_bytes=int(requests.got[power == one].sum()),
        )
        for one in np.unique(power)
    ]


def spans(trace: Trace) -> list[SpanRow]:
    """Return the count and total duration of each thread activity that the trace records."""
    rows = trace.rows_of(SPAN)
    if not rows.num_rows:
        return []
    what, whats = codes(rows, "what")
    took = numbers(rows, "last_byte_ns", 0) - numbers(rows, "sent_ns", 0)
    return [
        SpanRow(what=word, count=int((what == number).sum()), seconds=float(took[what == number].sum()) / NS_PER_S)
        for number, word in enumerate(whats)
        if (what == number).any()
    ]
