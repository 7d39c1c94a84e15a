"""The requests for reading files, planned by the engine's own rules without reading data.

A file is read by one worker, or split into parts for several workers: `pieces_of` returns what each worker reads, in
order. From one piece to the next, the planner carries over what a worker learns about the link and the files.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from branchline import _core
from branchline.base.limits import LEARN_ENTRIES, memory_limit_bytes
from branchline.base.quantities import parse_bytes
from branchline.errors import MemoryLimitError
from branchline.lab.forecast.laid_file import LaidFile
from branchline.reading.access import Access
from branchline.reading.layout.extents import Numbers, as_numbers

#: How a tree is opened: by the stream that reads it ("stream"), separately ("apart"), or earlier, for a previous piece
#: ("before").
Opening = Literal["stream", "apart", "before"]
#: Number of bytes from which the engine learns the bandwidth of a link (`LINK_BYTES_MIN`).
LEARNED_BYTES = 16 << 20
#: Minimum number of bytes in flight for received bytes to count towards `LEARNED_BYTES` (`LINK_FULL_BYTES`).
FULL_BYTES = 4 << 20
#: Baskets count as too large for the memory limit if they are requested this many times as often as without the limit.
ASKED_AGAIN = 1.1


@dataclass(frozen=True)
class PlanRequest:
    """The settings with which files are read.

    ``link`` is the round trip in seconds and the bandwidth in bytes per second; None if unknown. ``seen`` is the
    observation from the previous file. ``is_named`` is true if the branches to read are named. ``entries`` is the range
    of entries that is read, None for all. ``opening`` says how the tree is opened, see `Opening`.
    """

    access: Access = field(default_factory=Access)
    link: tuple[float, float] | None = None
    step_bytes: int = parse_bytes("100 MB")
    step_entries: int | None = None
    #: Whether all chunks of a file have the same number of entries, as in a train.
    has_even_steps: bool = False
    memory_limit_bytes: int = memory_limit_bytes("1 GiB")
    threads: int = 1
    is_named: bool = False
    seen: tuple[int, float] | None = None
    entries: tuple[int, int] | None = None
    opening: Opening = "stream"


@dataclass(frozen=True)
class PlannedReads:
    """The requests for reading a file.

    ``call``, ``offset`` and ``size`` have an element for each range: the index of its call, its offset and its size.
    ``purposes`` and ``chunk_of_call`` have an element for each call: its purpose, and the index of the chunk that needs
    it, 0 for calls before the first chunk.

    A reader waits once per call; up to ``calls_in_flight`` calls are concurrent. ``opens_ahead`` is true if the next
    file is opened while this one is read.
    """

    call: Numbers
    offset: Numbers
    size: Numbers
    purposes: tuple[str, ...]
    chunk_of_call: Numbers
    chunks: int
    calls_in_flight: int
    bytes_in_flight: int
    is_whole: bool
    opens_ahead: bool
    seen: tuple[int, float] | None

    @property
    def calls(self) -> int:
        """Number of calls to the storage. Each call takes at least one round trip."""
        return len(self.purposes)

    @property
    def requests(self) -> int:
        """Total number of ranges requested."""
        return len(self.offset)

    @property
    def bytes_read(self) -> int:
        """Total number of bytes received."""
        return int(self.size.sum())

    def calls_for(self, *purposes: str) -> int:
        """Return the number of calls with one of these purposes: opening, baskets, prefetch, staging."""
        return sum(one in purposes for one in self.purposes)

    @property
    def times(self) -> float:
        """Mean number of times that a byte of the baskets is requested, above one if memory is tight. Gaps between
        wanted baskets that are read too are included.
        """
        asked = ~np.isin(self.call, [number for number, one in enumerate(self.purposes) if one == "opening"])
        offset, size = self.offset[asked], self.size[asked]
        order = np.argsort(offset)
        begins, ends = offset[order], (offset + size)[order]
        last = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
        covered = int(np.maximum(ends - np.maximum(begins, last), 0).sum())
        return float(size.sum()) / covered if covered else 1.0

    def largest(self) -> int:
        """Return the size of the largest range."""
        return int(np.max(self.size, initial=0))


def planned(file: LaidFile, request: PlanRequest) -> PlannedReads:
    """Return the requests for reading a file. Raises MemoryLimitError if the baskets do not fit into the memory limit.

    The engine's planner assumes that prefetched data is kept until it is used. However, if a reader without prefetching
    has to request large baskets repeatedly, a reader with prefetching has to do so, too.
    """
    found = _planned(file, request)
    if request.link is None or found.chunks < 2 or not found.calls_for("prefetch"):
        return found
    tight = _planned(file, replace(request, link=None))
    if tight.times < ASKED_AGAIN * found.times:
        return found
    return replace(
        tight,
        calls_in_flight=found.calls_in_flight,
        bytes_in_flight=found.bytes_in_flight,
        opens_ahead=found.opens_ahead,
    )


def _planned(file: LaidFile, request: PlanRequest) -> PlannedReads:
    found = _core.plan_reads(file, request)
    if found is None:
        hint = "increase the memory limit"
        raise MemoryLimitError(f"{file.path}: the baskets do not fit into the memory limit", hint=hint)
    return PlannedReads(
        call=as_numbers(found.call),
        offset=as_numbers(found.offset),
        size=as_numbers(found.size),
        purposes=tuple(found.purposes),
        chunk_of_call=as_numbers(found.chunk_of_call),
        chunks=found.chunks,
        calls_in_flight=found.calls_in_flight,
        bytes_in_flight=found.bytes_in_flight,
        is_whole=found.is_whole,
        opens_ahead=found.opens_ahead,
        seen=found.seen,
    )


def planned_in_order(files: Sequence[LaidFile], request: PlanRequest) -> list[PlannedReads]:
    """Return the requests for files that one reader reads in order, learning from each file for the next. The reader
    knows the bandwidth only after it has received `LEARNED_BYTES` while the link was saturated.
    """
    return planned_pieces([FilePiece(one) for one in files], request)


def planned_pieces(pieces: Sequence[FilePiece], request: PlanRequest) -> list[PlannedReads]:
    """Return the requests for the pieces of several workers. Each worker learns only from its own pieces."""
    workers = {one.worker: _Worker() for one in pieces}
    return [workers[one.worker].planned(one, request) for one in pieces]


class _Worker:
    """Tracks what a worker has learned about its link and from the previous file."""

    def __init__(self) -> None:
        self.learning = _BandwidthLearning()
        self.seen: tuple[int, float] | None = None

    def planned(self, piece: FilePiece, request: PlanRequest) -> PlannedReads:
        seen = self.seen if request.is_named and not piece.begins_stream else None
        now = replace(request, seen=seen, entries=piece.entries, opening=piece.opening)
        if now.link is None or self.learning.is_done:
            found = planned(piece.file, now)
        else:
            found = planned(piece.file, replace(now, link=(now.link[0], 0.0)))
            chunk = self.learning.learned_in(found)
            if chunk is not None:
                found = _joined(found, planned(piece.file, now), chunk)
        self.seen = None if piece.only_reads else found.seen
        return found


class _BandwidthLearning:
    """Tracks when a reader has learned the bandwidth of a link."""

    def __init__(self) -> None:
        self.moved_bytes = 0.0

    @property
    def is_done(self) -> bool:
        return self.moved_bytes >= LEARNED_BYTES

    def learned_in(self, plan: PlannedReads) -> int | None:
        """Count the bytes of a file. Return the index of the first chunk for which the bandwidth is known; None if it
        remains unknown.
        """
        sizes = np.bincount(plan.call, weights=plan.size, minlength=plan.calls)
        ahead = np.array([one in ("prefetch", "staging") or plan.opens_ahead for one in plan.purposes], bool)
        due = np.where(ahead, sizes * plan.calls_in_flight, sizes)
        moved = self.moved_bytes + np.cumsum(np.where(due >= FULL_BYTES, sizes, 0.0))
        self.moved_bytes = float(moved[-1]) if len(moved) else self.moved_bytes
        after = np.nonzero(moved >= LEARNED_BYTES)[0]
        return int(plan.chunk_of_call[after[0]]) + 1 if len(after) else None


def _joined(first: PlannedReads, then: PlannedReads, chunk: int) -> PlannedReads:
    """Return the requests of ``first`` for chunks before ``chunk``, followed by those of ``then`` for the other
    chunks.
    """
    early, late = first.chunk_of_call < chunk, then.chunk_of_call >= chunk
    kept, added = np.nonzero(early)[0], np.nonzero(late)[0]
    number = np.concatenate([_renumbered(first.call, kept, 0), _renumbered(then.call, added, len(kept))])
    of_first, of_then = early[first.call], late[then.call]
    return replace(
        then,
        call=number,
        offset=np.concatenate([first.offset[of_first], then.offset[of_then]]),
        size=np.concatenate([first.size[of_first], then.size[of_then]]),
        purposes=tuple(first.purposes[one] for one in kept) + tuple(then.purposes[one] for one in added),
        chunk_of_call=np.concatenate([first.chunk_of_call[early], then.chunk_of_call[late]]),
    )


def _renumbered(call: Numbers, kept: Numbers, begin: int) -> Numbers:
    """Return the new indices of the calls that are kept, for each of their ranges."""
    found: Numbers = np.searchsorted(kept, call[np.isin(call, kept)]) + begin
    return found


# --- pieces of each worker --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilePiece:
    """A range of entries of a file that a worker reads.

    ``entries`` is None for all entries. ``opening`` says how the tree is opened, see `Opening`. With ``begins_stream``,
    nothing is carried over from the previous piece. With ``only_reads``, the entries are not passed to wagons.
    """

    file: LaidFile
    worker: int = 0
    entries: tuple[int, int] | None = None
    opening: Opening = "stream"
    begins_stream: bool = False
    only_reads: bool = False

    @property
    def events(self) -> int:
        """Number of entries that are passed to wagons."""
        start, stop = self.entries or (0, self.file.entries)
        return 0 if self.only_reads else stop - start


def pieces_of(files: Sequence[LaidFile], workers: int, *, learns_by_cache: bool = False) -> list[FilePiece]:
    """Return the pieces of all workers in the order in which the workers draw them.

    If the wanted branches are named, the first file of a job is opened one more time to look up the branches. Otherwise
    the branches are learned from the first file: the first entries of each branch are read separately, unless a cache
    learns the branches.
    """
    if not any(one.subjobs for one in files):
        return [FilePiece(one, number % workers) for number, one in enumerate(files)]
    drawn = _Drawn(workers)
    learned = files[0].late_reads > 0
    found = [] if learned else [FilePiece(files[0], 0, (0, 0), "apart", only_reads=True)]
    for number, file in enumerate(files):
        own = list(drawn.parts(number, file) if file.parts > 1 else drawn.file(file))
        if number == 0 and learned and own:
            own = [*_branch_learning_pieces(own[0], reads=not learns_by_cache), *own[1:]]
        found += own
    return found


class _Drawn:
    """Assigns files and parts to workers in turn, and tracks which file each worker has open."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.open: dict[int, int] = {}
        self.turn = -1
        self.subjobs = 0.0
        self.last = -1

    def file(self, file: LaidFile) -> Iterator[FilePiece]:
        """Yield the piece for a file that is not split, which often shares a sub-job with other files."""
        begins = int(self.subjobs) != self.last
        self.last = int(self.subjobs)
        # The small addend prevents rounding errors from keeping a sum of fractions below 1.
        self.subjobs += file.subjobs + 1e-9
        self.turn += begins
        worker = self.turn % self.workers
        self.open.pop(worker, None)
        # A sub-job with remote files is read as one stream.
        yield FilePiece(file, worker, begins_stream=begins and not file.is_at_a_server)

    def parts(self, number: int, file: LaidFile) -> Iterator[FilePiece]:
        """Yield the pieces for the parts of a split file. A worker opens the file for its first part, even if that part
        contains no entries.
        """
        for part in range(file.parts):
            self.turn += 1
            worker = self.turn % self.workers
            start, stop = entries_of_part(file, part)
            is_open = self.open.get(worker) == number
            if is_open and start == stop:
                continue
            self.open[worker] = number
            yield FilePiece(file, worker, (start, stop), "before" if is_open else "apart", begins_stream=True)


def entries_of_part(file: LaidFile, part: int) -> tuple[int, int]:
    """Return the range of entries in a part of a file as a train splits it: both ends are moved to basket borders."""
    borders = [0, *(entry for entry in file.borders if 0 < entry < file.entries), file.entries]
    first, last = (file.entries * number // file.parts for number in (part, part + 1))
    return borders[bisect_left(borders, first)], borders[bisect_left(borders, last)]


def _branch_learning_pieces(piece: FilePiece, *, reads: bool) -> Iterator[FilePiece]:
    """Yield the pieces for the first piece of a job that learns from it which branches its wagons read. The first
    entries of each branch are read separately when a wagon requests the branch; the remaining entries of all branches
    are read together from the open tree.
    """
    start, stop = piece.entries or (0, piece.file.entries)
    learned = min(start + LEARN_ENTRIES, stop)
    late = piece.file.extents[: piece.file.late_reads] if reads else []
    opening: Opening = "apart"
    for own in late:
        alone = replace(piece.file, extents=[own], unwanted_first=[])
        yield FilePiece(alone, piece.worker, (start, learned), opening, begins_stream=True, only_reads=True)
        opening = "before"
    yield FilePiece(piece.file, piece.worker, (learned if late else start, stop), opening, begins_stream=True)


def openings(pieces: Sequence[FilePiece]) -> int:
    """Return how many times files are opened for these pieces."""
    return sum(one.opening != "before" for one in pieces)
