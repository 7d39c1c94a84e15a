"""The requests that reading files makes, planned by the engine's own rules without reading them.

A file is read by one worker, or cut into parts for several: `pieces_of` says what each worker reads, one piece after
the other, and the planner carries over what it learns of the link and of the files from one piece to the next.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from branchline import _core
from branchline.base.limits import LEARN_ENTRIES, memory_limit_bytes, parse_bytes
from branchline.errors import MemoryLimitError
from branchline.lab.forecast.laid_file import LaidFile
from branchline.reading.access import Access
from branchline.reading.layout.extents import Numbers, as_numbers

#: How a tree is opened: by the stream that reads it, apart from it, or before.
Opening = Literal["stream", "apart", "before"]
#: Bytes after which the engine knows the bandwidth of a link (`LINK_BYTES_MIN`).
LEARNED_BYTES = 16 << 20
#: Only bytes that come while more than this is due count for that (`LINK_FULL_BYTES`).
FULL_BYTES = 4 << 20
#: Baskets are too large for the memory if they are requested this many times as often as with memory for all.
ASKED_AGAIN = 1.1


@dataclass(frozen=True)
class PlanRequest:
    """How files are read. ``link`` is the round trip in seconds and the bytes per second of the link to their storage,
    if they are known; ``seen`` what was learned from the file before; ``is_named`` whether branches are named.

    ``entries`` are those that are read, None for all. A tree is opened by the stream that reads it, or ``apart`` from
    it, or was so ``before``.
    """

    access: Access = field(default_factory=Access)
    link: tuple[float, float] | None = None
    step_bytes: int = parse_bytes("100 MB")
    step_entries: int | None = None
    #: Whether all chunks of a file have the same length, as in a train.
    has_even_steps: bool = False
    memory_limit_bytes: int = memory_limit_bytes("1 GiB")
    threads: int = 1
    is_named: bool = False
    seen: tuple[int, float] | None = None
    entries: tuple[int, int] | None = None
    opening: Opening = "stream"


@dataclass(frozen=True)
class PlannedReads:
    """The requests of a file: for each range the number of its call, its offset and its bytes; what each call is for.

    ``chunk_of_call`` is the number of the chunk that needs it; 0 for what is read before the first.

    A call is one wait of a reader, ``calls_in_flight`` of them at a time. ``opens_ahead`` says whether the next file is
    opened while this one is read.
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
        """Calls to the store: each waits for a round trip."""
        return len(self.purposes)

    @property
    def requests(self) -> int:
        """Ranges that are requested."""
        return len(self.offset)

    @property
    def bytes_read(self) -> int:
        """Bytes that come."""
        return int(self.size.sum())

    def calls_for(self, *purposes: str) -> int:
        """How many calls are for these purposes: opening, baskets, prefetch, staging."""
        return sum(one in purposes for one in self.purposes)

    @property
    def times(self) -> float:
        """How often baskets are requested, on the mean: more than once where memory is tight. What lies between the
        wanted baskets is read too, but each byte of it once.
        """
        asked = ~np.isin(self.call, [number for number, one in enumerate(self.purposes) if one == "opening"])
        offset, size = self.offset[asked], self.size[asked]
        order = np.argsort(offset)
        begins, ends = offset[order], (offset + size)[order]
        last = np.concatenate([[0], np.maximum.accumulate(ends)[:-1]])
        covered = int(np.maximum(ends - np.maximum(begins, last), 0).sum())
        return float(size.sum()) / covered if covered else 1.0

    def largest(self) -> int:
        """Bytes of the largest range."""
        return int(np.max(self.size, initial=0))


def planned(file: LaidFile, request: PlanRequest) -> PlannedReads:
    """The requests of a file. Raises MemoryLimitError if the memory limit is too small for its baskets.

    The engine's planner takes what was asked for ahead as kept for all chunks. Where baskets are so large that a reader
    which asks for nothing ahead has to ask again, so has one that does.
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
        raise MemoryLimitError(f"{file.path}: its baskets do not fit into the memory limit", hint="allow more memory")
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
    """The requests of files that one reader reads one after the other: it learns from each for the next. The bandwidth
    is only known to it after `LEARNED_BYTES` that came while the link was full.
    """
    return planned_pieces([FilePiece(one) for one in files], request)


def planned_pieces(pieces: Sequence[FilePiece], request: PlanRequest) -> list[PlannedReads]:
    """The same for what each of several workers reads."""
    workers = {one.worker: _Worker() for one in pieces}
    return [workers[one.worker].planned(one, request) for one in pieces]


class _Worker:
    """What the process of a worker has learned so far."""

    def __init__(self) -> None:
        self.learning = _BandwidthLearning()
        self.seen: tuple[int, float] | None = None

    def planned(self, piece: FilePiece, request: PlanRequest) -> PlannedReads:
        seen = self.seen if request.is_named and not piece.begins_stream else None
        now = replace(request, seen=seen, entries=piece.entries, opening=piece.opening)
        found = self._with_learning(piece.file, now)
        self.seen = None if piece.only_reads else found.seen
        return found

    def _with_learning(self, file: LaidFile, now: PlanRequest) -> PlannedReads:
        if now.link is None or self.learning.is_done:
            return planned(file, now)
        first = planned(file, replace(now, link=(now.link[0], 0.0)))
        chunk = self.learning.learned_in(first)
        return first if chunk is None else _joined(first, planned(file, now), chunk)


class _BandwidthLearning:
    """What a reader knows of the bandwidth of a link."""

    def __init__(self) -> None:
        self.moved_bytes = 0.0

    @property
    def is_done(self) -> bool:
        return self.moved_bytes >= LEARNED_BYTES

    def learned_in(self, plan: PlannedReads) -> int | None:
        """Counts the bytes of a file; the chunk from which on the bandwidth is known, None if it is not."""
        sizes = np.bincount(plan.call, weights=plan.size, minlength=plan.calls)
        ahead = np.array([one in ("prefetch", "staging") or plan.opens_ahead for one in plan.purposes], bool)
        due = np.where(ahead, sizes * plan.calls_in_flight, sizes)
        moved = self.moved_bytes + np.cumsum(np.where(due >= FULL_BYTES, sizes, 0.0))
        self.moved_bytes = float(moved[-1]) if len(moved) else self.moved_bytes
        after = np.nonzero(moved >= LEARNED_BYTES)[0]
        return int(plan.chunk_of_call[after[0]]) + 1 if len(after) else None


def _joined(first: PlannedReads, then: PlannedReads, chunk: int) -> PlannedReads:
    """The requests of a file as ``first`` has them, and from a chunk on as ``then`` has them."""
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
    """The new numbers of the calls that are kept."""
    found: Numbers = np.searchsorted(kept, call[np.isin(call, kept)]) + begin
    return found


# --- what each worker reads -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FilePiece:
    """Entries of a file that a worker reads; None for all. Its tree is opened by the stream that reads it, or ``apart``
    from it, or was so ``before``. ``begins_stream`` says that nothing is learned from the piece before. One that
    ``only_reads`` hands no events to wagons.
    """

    file: LaidFile
    worker: int = 0
    entries: tuple[int, int] | None = None
    opening: Opening = "stream"
    begins_stream: bool = False
    only_reads: bool = False

    @property
    def events(self) -> int:
        """Entries that wagons get."""
        start, stop = self.entries or (0, self.file.entries)
        return 0 if self.only_reads else stop - start


def pieces_of(files: Sequence[LaidFile], workers: int, *, learns_by_cache: bool = False) -> list[FilePiece]:
    """The pieces of all workers, in the order in which they draw them, one worker after the other. The first file of a
    job is opened once more: to find branches in it that were named. Where branches are learned on it instead, the first
    entries of each are read alone, unless a cache learns them.
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
    """What workers have drawn in turn, and of which file each has the tree open."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.open: dict[int, int] = {}
        self.turn = -1
        self.subjobs = 0.0
        self.last = -1

    def file(self, file: LaidFile) -> Iterator[FilePiece]:
        """A file that is not cut, often with others in one sub-job."""
        begins = int(self.subjobs) != self.last
        self.last = int(self.subjobs)
        # A sum of parts of one is to reach it.
        self.subjobs += file.subjobs + 1e-9
        self.turn += begins
        worker = self.turn % self.workers
        self.open.pop(worker, None)
        # Sub-jobs over files that are far away are read as one stream.
        yield FilePiece(file, worker, begins_stream=begins and not file.is_at_a_server)

    def parts(self, number: int, file: LaidFile) -> Iterator[FilePiece]:
        """A file that is cut. A worker opens it for its first part, also if no basket begins in that."""
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
    """The entries of a part of a file, as a train cuts it: its ends are moved to borders of baskets."""
    borders = [0, *(entry for entry in file.borders if 0 < entry < file.entries), file.entries]
    first, last = (file.entries * number // file.parts for number in (part, part + 1))
    return borders[bisect_left(borders, first)], borders[bisect_left(borders, last)]


def _branch_learning_pieces(piece: FilePiece, *, reads: bool) -> Iterator[FilePiece]:
    """The first piece of a job that learns on it which branches its wagons read: of each the first entries are read
    when a wagon asks for it, then the rest, over the tree that is open.
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
    """How often a file is opened."""
    return sum(one.opening != "before" for one in pieces)
