"""Splits a dataset into sub-jobs. The result depends only on the files and their sizes, so that every machine splits a
dataset in the same way.

Most cuts stay the same when files are added, so that results of the smaller dataset can be reused. To this end, the
size of a sub-job grows with the dataset in factors of two, and every few sub-jobs, there is a cut at a file chosen by
its name. A short run always reads the same first files and events of each dataset.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby, pairwise
from typing import Protocol

from branchline.base.limits import (
    CHUNK_MEMORY_DIVISOR,
    LEARN_ENTRIES,
    PARTS_OF_MIN,
    READ_PARTS_OF_MIN,
    SHARES_BY_ELEMENT_MAX,
    STEP_BYTES,
    STEP_MAX_ENTRIES,
    SUBJOB_MAX_BYTES,
    SUBJOB_MAX_FILES,
    SUBJOB_MAX_FILES_OF_UNKNOWN_SIZE,
    SUBJOB_MIN_BYTES,
    SUBJOB_MIN_ENTRIES_MAX,
    SUBJOBS_BETWEEN_FIXED_CUTS,
    SUBJOBS_OF_UNKNOWN_SIZE_WANTED,
    SUBJOBS_WANTED,
)
from branchline.base.quantities import parse_bytes
from branchline.errors import FILE_ERRORS
from branchline.jobs.sites import RoundTrip
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile, absolute
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.request import even_step
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.job_measures import JobMeasure


@dataclass(frozen=True)
class Share:
    """The input of a sub-job: consecutive files of the dataset, or part ``part`` of ``parts`` of one file."""

    files: tuple[DataFile, ...]
    part: int = 0
    parts: int = 1
    # Number of entries per chunk if the caller set it, like coffea's ``chunksize``; parts of files then end at chunk
    # borders.
    chunk_entries: int | None = None
    # The following fields are set when the share is sent to a worker.
    branches: tuple[str, ...] = ()
    learn: bool = False
    step: int = 0
    stopped: frozenset[str] = field(default_factory=frozenset)
    # Maximum number of consecutive shares, including this one, that a worker may read in one stream.
    together: int = 1
    # True for a trial, which only tests whether wagons crash, or which branches they use. The result is discarded.
    is_trial: bool = False
    # If ``only_learns``, the sub-job ends once the branches are learned. ``known_branches`` are the branches of wagons
    # that do not run.
    only_learns: bool = False
    known_branches: tuple[str, ...] = ()
    # Number of entries per chunk after the first chunk; None if no earlier sub-job has learned this number.
    learned_step: int | None = None
    # True if the file may still be split into fewer, larger parts, once branches are learned in this share. Worker and
    # job then compute the same number of parts.
    is_provisional: bool = False
    # Known round-trip times from the worker's site to storage elements.
    round_trips: tuple[RoundTrip, ...] = ()
    # Storage elements that were silent while the job was planned, or in other workers.
    silent: tuple[str, ...] = ()
    # True for a retry after a worker ran out of memory: reading uses as little memory as possible, and chunks have
    # 1/chunk_divisor of the entries.
    is_lean: bool = False
    chunk_divisor: int = 1
    # Number of nearest replicas that are tried last, because earlier workers timed out while reading from them.
    replicas_skipped: int = 0
    # Measures of a control room that affect how files are read. Results do not depend on them.
    measures: tuple[JobMeasure, ...] = ()

    def can_share_stream(self, other: Share) -> bool:
        """Return whether one stream can read both shares."""
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
    def size_bytes(self) -> int:
        """The size of the share's files in bytes, as far as it is known."""
        return sum(one.share_bytes or 0 for one in self.files) // self.parts

    @property
    def label(self) -> str:
        """A description of the share that names its files."""
        first, last = self.files[0].place, self.files[-1].place
        if self.parts > 1:
            return f"part {self.part + 1} of {self.parts} of {first}"
        if len(self.files) == 1:
            return first
        return f"{len(self.files)} {'trees' if self.files[0].trees else 'files'} from {first} to {last}"

    def chunk_length(self, entries_count: int) -> int | None:
        """Return the chunk length in the share's first file; None if the caller did not set a chunk length."""
        if self.chunk_entries is None:
            return None
        start, stop = _range_in(self.files[0], entries_count)
        return even_step(self.chunk_entries, stop - start)


@dataclass(frozen=True)
class ChunkSizes:
    """The number of entries per chunk, and the minimum size of a part of a file, in bytes of the file."""

    step: int
    part_min_bytes: int = 0

    @classmethod
    def of_unknown(cls, step_size: int | str | None) -> ChunkSizes:
        """Return default sizes, for a dataset whose files cannot be opened."""
        return cls(step_size if isinstance(step_size, int) else STEP_MAX_ENTRIES)


class BranchSizes(Protocol):
    """The size of a branch, compressed and uncompressed."""

    @property
    def compressed_bytes(self) -> int: ...
    @property
    def plain_bytes(self) -> int: ...


@dataclass(frozen=True)
class ReadSizes:
    """The number of entries of a tree, the size of its file, and the sizes of the branches that are read.
    ``plain_bytes`` is the uncompressed size, including companions.
    """

    entries_count: int
    file_bytes: int
    compressed_bytes: int
    plain_bytes: int

    @classmethod
    def of(cls, tree: Tree, branches: Sequence[BranchSizes], companion_bytes_per_entry: float = 0.0) -> ReadSizes:
        """Return the sizes for some branches of a tree."""
        return cls(
            tree.entries_count,
            tree.file.size_bytes,
            sum(one.compressed_bytes for one in branches),
            sum(one.plain_bytes for one in branches) + int(companion_bytes_per_entry * tree.entries_count),
        )


def cut(files: Sequence[DataFile], step_size: int | str | None = None) -> list[Share]:
    """Split a dataset into shares, in order.

    The sizes of shares assume that files are read entirely. If only some branches are read, ``merge_parts`` enlarges
    parts of files afterwards. Files of unknown size are grouped so that there are enough shares for many workers.

    The tree of a folder and a tree with joins are never split; several folders of a file may be in one share.

    All files of a share are at the same storage elements according to the dataset; the locations of workers do not
    matter. If neighbouring files alternate between storage elements so often that shares would become small, files at
    the same elements are grouped instead, and the shares are sorted by their first files.
    """
    total = sum(one.share_bytes or 0 for one in files)
    # Folders of a file are like parts of a file: each sub-job opens the file again.
    limit = SUBJOB_MIN_BYTES * (READ_PARTS_OF_MIN if any(one.trees for one in files) else 1)
    while 2 * limit <= min(total // SUBJOBS_WANTED, SUBJOB_MAX_BYTES):
        limit *= 2
    cut_at_size = partial(
        _cut_at_size,
        limit=limit,
        unknown_bytes=limit // _files_of_unknown_size(files),
        chunk_entries=step_size if isinstance(step_size, int) else None,
    )
    elements = [frozenset(one.elements) for one in files]
    if len(set(elements)) < 2:
        return cut_at_size(files)
    pairs = list(zip(elements, files, strict=True))
    runs = [[file for _, file in run] for _, run in groupby(pairs, key=lambda one: one[0])]
    neighbours = [share for run in runs for share in cut_at_size(run)]
    groups: dict[frozenset[str], list[DataFile]] = {}
    for element, file in pairs:
        groups.setdefault(element, []).append(file)
    together = [share for group in groups.values() for share in cut_at_size(group)]
    if len(neighbours) <= SHARES_BY_ELEMENT_MAX * len(together):
        return neighbours
    places = {id(file): number for number, file in enumerate(files)}
    return sorted(together, key=lambda share: (places[id(share.files[0])], share.part))


def merge_parts(shares: Sequence[Share], sizes: ChunkSizes, first: int = 0) -> list[Share]:
    """Return the shares after splitting files into fewer, larger parts. Files with a part before index ``first`` are
    unchanged, because these parts are already done.
    """
    merged: list[Share] = []
    for index, share in enumerate(shares):
        if index - share.part < first:
            merged.append(share)
        elif share.part == 0:
            count = parts_count(share, sizes)
            merged += [replace(share, part=part, parts=count) for part in range(count)]
    return merged


def parts_count(share: Share, sizes: ChunkSizes) -> int:
    """Return the number of parts into which a share's file is split, given the minimum size of a part."""
    size_bytes = share.files[0].size_bytes
    if share.parts == 1 or size_bytes is None:
        return 1
    return min(share.parts, _parts_count(size_bytes, sizes.part_min_bytes))


def _parts_count(size_bytes: int, part_bytes: int) -> int:
    return 1 if size_bytes < 2 * part_bytes else -(-size_bytes // max(1, part_bytes))


def _cut_at_size(files: Sequence[DataFile], limit: int, unknown_bytes: int, chunk_entries: int | None) -> list[Share]:
    shares: list[Share] = []
    together: list[DataFile] = []
    size_bytes, part_bytes = 0, max(limit, PARTS_OF_MIN * SUBJOB_MIN_BYTES)
    for one in files:
        size = unknown_bytes if one.share_bytes is None else one.share_bytes
        full = size_bytes + size > limit or len(together) == SUBJOB_MAX_FILES
        if together and (full or _begins_share(one, size, limit)):
            shares.append(Share(tuple(together), chunk_entries=chunk_entries))
            together, size_bytes = [], 0
        count = 1 if one.share_bytes is None or one.is_unit else _parts_count(size, part_bytes)
        if count > 1:
            shares += (Share((one,), part, count, chunk_entries) for part in range(count))
        else:
            together.append(one)
            size_bytes += size
    if together:
        shares.append(Share(tuple(together), chunk_entries=chunk_entries))
    return shares


def _files_of_unknown_size(files: Sequence[DataFile]) -> int:
    """Return the maximum number of files of unknown size per share."""
    count = sum(one.size_bytes is None for one in files)
    limit = 1
    while 2 * limit <= min(count // SUBJOBS_OF_UNKNOWN_SIZE_WANTED, SUBJOB_MAX_FILES_OF_UNKNOWN_SIZE):
        limit *= 2
    return limit


def _begins_share(one: DataFile, size_bytes: int, limit_bytes: int) -> bool:
    """Return whether a new share starts at this file even if the previous share is not full. This depends on a hash of
    the names of the file and its folder, and happens once every few shares.

    If a file is added to the dataset, the cuts after it are therefore soon the same as before.
    """
    name = "/".join(absolute(one.path).rsplit("/", 2)[-2:]) + (f":{one.tree}" if one.trees else "")
    chosen = zlib.crc32(name.encode(errors="surrogateescape"))
    return chosen * SUBJOBS_BETWEEN_FIXED_CUTS * limit_bytes < size_bytes * 2**32


def entry_range(share: Share, entries_count: int, basket_borders: Sequence[int]) -> tuple[int, int]:
    """Return the first and last (exclusive) entry of the part of a file that a share reads.

    Ends of parts are moved to ``basket_borders``, so that few baskets are read twice. If the caller set the chunk
    length, they are moved to chunk borders instead. If a file has fewer borders than parts, some parts are empty.
    """
    ends = _ends_of_parts(share, entries_count, basket_borders, range(share.part, share.part + 2))
    return ends[0], ends[1]


def empty_parts(share: Share, entries_count: int, basket_borders: Sequence[int]) -> list[int]:
    """Return the indices of the parts of a share's file that have no entries."""
    ends = _ends_of_parts(share, entries_count, basket_borders, range(share.parts + 1))
    return [part for part, (start, stop) in enumerate(pairwise(ends)) if start == stop]


def _ends_of_parts(share: Share, entries_count: int, basket_borders: Sequence[int], parts: range) -> list[int]:
    """Return the first entries of parts of a file; the end of the file for the index after the last part."""
    start, stop = _range_in(share.files[0], entries_count)
    begins = [(stop - start) * part // share.parts for part in parts]
    length = share.chunk_length(entries_count)
    if length is not None:
        return [min(start + -(-begin // length) * length, stop) for begin in begins]
    borders = [start, *(entry for entry in basket_borders if start < entry < stop), stop]
    return [borders[bisect_left(borders, start + begin)] for begin in begins]


def _range_in(one: DataFile, entries_count: int) -> tuple[int, int]:
    """Return the entry range that is read from a file whose tree has ``entries_count`` entries."""
    stop = entries_count if one.entry_stop is None else min(one.entry_stop, entries_count)
    return min(one.entry_start, stop), stop


def learning_entries(share: Share, entries_count: int) -> int:
    """Return the number of entries used for learning branches: a whole chunk if the caller set the chunk length."""
    length = share.chunk_length(entries_count)
    return LEARN_ENTRIES if length is None else length


def open_tree(one: DataFile, access: Access | None = None) -> Tree:
    """Open the tree of a file: the tree that the dataset names, otherwise the only tree in the file. Raises read
    errors.
    """
    return File(one.opens, access).tree(one.tree)


def chunk_sizes(read: ReadSizes, step_size: int | str | None, memory_limit_bytes: int) -> ChunkSizes:
    """Return the chunk sizes of a job, computed from the sizes in its first file. A chunk may use a fixed fraction of
    the memory limit.

    The sizes apply to the whole job. If chunk borders changed when another branch is read, results would depend on
    which worker reads that branch first.

    Without a ``step_size``, a part of a file has at least READ_PARTS_OF_MIN times SUBJOB_MIN_BYTES of the branches that
    are read, or SUBJOB_MIN_ENTRIES_MAX entries if these are fewer. With a ``step_size``, a part has at least the size
    of a chunk.
    """
    entries_count = max(1, read.entries_count)
    if isinstance(step_size, int):
        return ChunkSizes(step_size, step_size * read.file_bytes // entries_count)
    wanted_bytes = min(parse_bytes(step_size or STEP_BYTES), memory_limit_bytes // CHUNK_MEMORY_DIVISOR)
    step = max(1, min(STEP_MAX_ENTRIES, wanted_bytes * entries_count // max(1, read.plain_bytes)))
    entries = step
    if step_size is None:
        wanted_bytes = READ_PARTS_OF_MIN * SUBJOB_MIN_BYTES
        entries = min(step, SUBJOB_MIN_ENTRIES_MAX, wanted_bytes * entries_count // max(1, read.compressed_bytes))
    return ChunkSizes(step, entries * read.file_bytes // entries_count)


def first_of_each(
    dataset: Dataset, max_files: int | None, max_events: int | None, *, skip_bad_files: bool, access: Access
) -> Dataset:
    """Limit each dataset in a list to its first files and events; None means no limit.

    Files are opened to count their events, but no more files than needed. If bad files are skipped, a file that cannot
    be read stays in the list, so that it is reported. Otherwise, errors from opening files are raised.
    """
    by_dataset: dict[str, list[DataFile]] = {}
    for one in dataset:
        by_dataset.setdefault(one.dataset, []).append(one)
    kept: set[DataFile] = set()
    changed: dict[DataFile, DataFile] = {}
    for files in by_dataset.values():
        first = files if max_files is None else list(_first_files(files, max_files))
        if max_events is not None:
            shortened = list(_first_events(first, max_events, skip_bad_files=skip_bad_files, access=access))
            changed.update(zip(first, shortened, strict=False))
            first = first[: len(shortened)]
        kept.update(first)
    return Dataset(changed.get(one, one) for one in dataset if one in kept)


def _first_files(files: Iterable[DataFile], max_files: int) -> Iterator[DataFile]:
    """Yield the first files. A file with several entry ranges counts once."""
    paths: set[str] = set()
    for one in files:
        paths.add(one.path)
        if len(paths) > max_files:
            return
        yield one


def _first_events(
    files: Iterable[DataFile], max_events: int, *, skip_bad_files: bool, access: Access
) -> Iterator[DataFile]:
    left = max_events
    for one in files:
        if left == 0:
            return
        try:
            with_all = open_tree(one, access).entries_count
        except FILE_ERRORS:
            if not skip_bad_files:
                raise
            yield one
            continue
        stop = with_all if one.entry_stop is None else min(with_all, one.entry_stop)
        events = max(0, stop - one.entry_start)
        # Do not limit the entries of a file that is read entirely, so that other runs can reuse its cached results.
        yield one if events <= left else one.changed(entry_stop=one.entry_start + left)
        left -= min(left, events)
