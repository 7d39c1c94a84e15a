"""What the workers of a job read, one after the other: files, and parts of a file that is cut for several workers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from branchline.base.limits import LEARN_ENTRIES
from branchline.lab.forecast.laid_file import LaidFile

Opening = Literal["stream", "apart", "before"]


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
            own = [*_learning(own[0], reads=not learns_by_cache), *own[1:]]
        found += own
    return found


def openings(pieces: Sequence[FilePiece]) -> int:
    """How often a file is opened."""
    return sum(one.opening != "before" for one in pieces)


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


def _learning(piece: FilePiece, *, reads: bool) -> Iterator[FilePiece]:
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
