"""Cuts a dataset into sub-jobs, by its files and their sizes alone, so that every machine cuts it the same.

Most cuts stay where they are when files are added, so that results of a smaller dataset can be reused: the size of a
sub-job grows with the dataset by factors of two, and after a few sub-jobs one begins at a file that is chosen by its
name.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, pairwise

from branchline.base.limits import (
    CHUNK_MEMORY_SHARE,
    PARTS_OF_MIN,
    SHARES_BY_ELEMENT_MAX,
    STEP_MAX_ENTRIES,
    SUBJOB_MAX_BYTES,
    SUBJOB_MAX_FILES,
    SUBJOB_MAX_FILES_OF_UNKNOWN_SIZE,
    SUBJOB_MIN_BYTES,
    SUBJOBS_BETWEEN_FIXED_CUTS,
    SUBJOBS_OF_UNKNOWN_SIZE_WANTED,
    SUBJOBS_WANTED,
    parse_bytes,
)
from branchline.errors import BranchlineError
from branchline.jobs.sites.nearness import RoundTrip, holding_most
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile, absolute
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.job_measures import JobMeasure


@dataclass(frozen=True)
class Share:
    """What one sub-job reads: files that follow each other in the dataset, or part ``part`` of ``parts`` of one."""

    files: tuple[DataFile, ...]
    part: int = 0
    parts: int = 1
    # What follows is known when the share is handed out.
    branches: tuple[str, ...] = ()
    learn: bool = False
    step: int | str = 0
    stopped: frozenset[str] = field(default_factory=frozenset)
    # With how many that follow, itself among them, a worker may read it as one.
    together: int = 1
    # Only finds out whether wagons come through, or what they touch: its result counts for nothing.
    is_trial: bool = False
    # Ends when the branches are learned; ``known_branches`` are those of wagons that do not run in it.
    only_learns: bool = False
    known_branches: tuple[str, ...] = ()
    # The step behind the first entries where it was learned before.
    learned_step: int | None = None
    # What is known of round trips from the site of the worker.
    round_trips: tuple[RoundTrip, ...] = ()
    # A worker ran out of memory in it: reading holds as little as chunks need, and they have this part of the entries.
    is_lean: bool = False
    chunk_divisor: int = 1
    # How many of the nearest replicas come last: workers before this one were silent over them.
    replicas_skipped: int = 0
    # What a control room asks of its reading; results do not depend on it.
    measures: tuple[JobMeasure, ...] = ()

    def can_share_stream(self, other: Share) -> bool:
        """Whether one stream can read both."""
        how = [
            (
                one.branches,
                one.step,
                one.learn,
                one.parts,
                one.is_trial,
                one.stopped,
                one.replicas_skipped,
                one.measures,
            )
            for one in (self, other)
        ]
        is_usual = self.parts == 1 and not self.learn and not (self.is_lean or other.is_lean)
        return how[0] == how[1] and is_usual

    @property
    def hosts(self) -> tuple[str, ...]:
        """The machines that hold most of its files, as the dataset's list names them."""
        return holding_most(one.hosts for one in self.files)

    @property
    def label(self) -> str:
        """The share in words, with its files."""
        if self.parts > 1:
            return f"part {self.part + 1} of {self.parts} of {self.files[0].path}"
        if len(self.files) == 1:
            return self.files[0].path
        return f"{len(self.files)} files from {self.files[0].path} to {self.files[-1].path}"


def cut(files: Sequence[DataFile]) -> list[Share]:
    """The shares of a dataset, in its order; of files of unknown size a share has as many as leave many shares.

    The files of a share lie at the same storage elements, as far as the dataset says it: where its workers are changes
    nothing. Where neighbouring files lie at others so often that shares would become small, those at the same elements
    are taken together, and the shares are in the order of their first files.
    """
    limit = _subjob_bytes(files)
    unknown_bytes = limit // _files_of_unknown_size(files)
    elements = [frozenset(one.elements) for one in files]
    if len(set(elements)) < 2:
        return _cut_at_size(files, limit, unknown_bytes)
    pairs = list(zip(elements, files, strict=True))
    runs = [[file for _, file in run] for _, run in groupby(pairs, key=lambda one: one[0])]
    neighbours = [share for run in runs for share in _cut_at_size(run, limit, unknown_bytes)]
    groups: dict[frozenset[str], list[DataFile]] = {}
    for element, file in pairs:
        groups.setdefault(element, []).append(file)
    together = [share for group in groups.values() for share in _cut_at_size(group, limit, unknown_bytes)]
    if len(neighbours) <= SHARES_BY_ELEMENT_MAX * len(together):
        return neighbours
    places = {id(file): number for number, file in enumerate(files)}
    return sorted(together, key=lambda share: (places[id(share.files[0])], share.part))


def _cut_at_size(files: Sequence[DataFile], limit: int, unknown_bytes: int) -> list[Share]:
    shares: list[Share] = []
    together: list[DataFile] = []
    size_bytes, part_bytes = 0, max(limit, PARTS_OF_MIN * SUBJOB_MIN_BYTES)
    for one in files:
        size = unknown_bytes if one.size_bytes is None else one.size_bytes
        full = size_bytes + size > limit or len(together) == SUBJOB_MAX_FILES
        if together and (full or _begins_share(one, size, limit)):
            shares.append(Share(tuple(together)))
            together, size_bytes = [], 0
        if size >= 2 * part_bytes and one.size_bytes is not None:
            shares += _parts(one, -(-size // part_bytes))
        else:
            together.append(one)
            size_bytes += size
    if together:
        shares.append(Share(tuple(together)))
    return shares


def _subjob_bytes(files: Sequence[DataFile]) -> int:
    total = sum(one.size_bytes or 0 for one in files)
    limit = SUBJOB_MIN_BYTES
    while 2 * limit <= min(total // SUBJOBS_WANTED, SUBJOB_MAX_BYTES):
        limit *= 2
    return limit


def _files_of_unknown_size(files: Sequence[DataFile]) -> int:
    """How many of them a share may have."""
    count = sum(one.size_bytes is None for one in files)
    limit = 1
    while 2 * limit <= min(count // SUBJOBS_OF_UNKNOWN_SIZE_WANTED, SUBJOB_MAX_FILES_OF_UNKNOWN_SIZE):
        limit *= 2
    return limit


def _begins_share(one: DataFile, size_bytes: int, limit_bytes: int) -> bool:
    """Whether a share begins at this file though the one before is not full, as about one of a few does: behind a file
    that was added, shares are as before from there on. The file's name and that of its folder choose.
    """
    name = "/".join(absolute(one.path).rsplit("/", 2)[-2:])
    chosen = zlib.crc32(name.encode(errors="surrogateescape"))
    return chosen * SUBJOBS_BETWEEN_FIXED_CUTS * limit_bytes < size_bytes * 2**32


def _parts(one: DataFile, count: int) -> Iterator[Share]:
    return (Share((one,), part, count) for part in range(count))


def entry_range(share: Share, entries_count: int, basket_borders: Sequence[int]) -> tuple[int, int]:
    """The entries of the file of a share that is one part of it.

    The ends of parts are moved to ``basket_borders``, so that few baskets are read for two parts; a file of fewer
    borders than parts leaves some parts empty.
    """
    ends = _ends_of_parts(share, entries_count, basket_borders, range(share.part, share.part + 2))
    return ends[0], ends[1]


def empty_parts(share: Share, entries_count: int, basket_borders: Sequence[int]) -> list[int]:
    """The parts without entries of the file of a share."""
    ends = _ends_of_parts(share, entries_count, basket_borders, range(share.parts + 1))
    return [part for part, (start, stop) in enumerate(pairwise(ends)) if start == stop]


def _ends_of_parts(share: Share, entries_count: int, basket_borders: Sequence[int], parts: range) -> list[int]:
    """Where these parts of a file begin; the one behind the last part at its end."""
    one = share.files[0]
    stop = entries_count if one.entry_stop is None else min(one.entry_stop, entries_count)
    start = min(one.entry_start, stop)
    borders = [start, *(entry for entry in basket_borders if start < entry < stop), stop]
    return [borders[bisect_left(borders, start + (stop - start) * part // share.parts)] for part in parts]


def open_tree(one: DataFile, access: Access | None = None) -> Tree:
    """The tree of a file, the only one if the dataset names none. Raises what the reading raises."""
    return File(one.opens, access).tree(one.tree)


def step_entries(
    tree: Tree,
    branches: Sequence[str],
    step_size: int | str,
    memory_limit_bytes: int,
    companion_bytes_per_entry: float = 0.0,
) -> int:
    """How many entries a chunk gets. In bytes the step is measured with the branches that are known at the start, on
    the first file, and holds for the job: a branch that is read later must not move the borders of the chunks, for
    then results would depend on which worker met it first. So does the memory limit, of which a chunk gets its share.
    What companions have for an entry counts too.
    """
    if isinstance(step_size, int):
        if step_size < 1:
            raise BranchlineError(f"a step of {step_size} entries is none", hint='write it like 10000 or "100 MB"')
        return step_size
    wanted_bytes = min(parse_bytes(step_size), memory_limit_bytes // CHUNK_MEMORY_SHARE)
    plain_bytes = sum(tree[name].plain_bytes for name in branches) + int(companion_bytes_per_entry * tree.entries_count)
    if plain_bytes == 0 or tree.entries_count == 0:
        return STEP_MAX_ENTRIES
    return max(1, min(STEP_MAX_ENTRIES, wanted_bytes * tree.entries_count // plain_bytes))
