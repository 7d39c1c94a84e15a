"""Cuts a dataset into sub-jobs, by its files and their sizes alone, so that every machine cuts it the same.

Most cuts stay where they are when files are added, so that results of a smaller dataset can be reused: the size of a
sub-job grows with the dataset by factors of two, and after a few sub-jobs one begins at a file that is chosen by its
name. A short run reads the first files and events of each dataset, the same ones every time.
"""

from __future__ import annotations

import zlib
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, pairwise

from branchline.base.limits import (
    CHUNK_MEMORY_SHARE,
    LEARN_ENTRIES,
    PARTS_OF_MIN,
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
    parse_bytes,
)
from branchline.errors import FILE_ERRORS
from branchline.jobs.sites import RoundTrip, holding_most
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile, absolute
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.request import even_step
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.job_measures import JobMeasure


@dataclass(frozen=True)
class Share:
    """What one sub-job reads: files that follow each other in the dataset, or part ``part`` of ``parts`` of one."""

    files: tuple[DataFile, ...]
    part: int = 0
    parts: int = 1
    # Entries per chunk where the caller gave them, as coffea's ``chunksize``: parts end where chunks end.
    chunk_entries: int | None = None
    # What follows is known when the share is handed out.
    branches: tuple[str, ...] = ()
    learn: bool = False
    step: int = 0
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
    # It may become larger when branches are learned in it: the worker reduces the number of parts as the job does.
    is_provisional: bool = False
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

    def chunk_length(self, entries_count: int) -> int | None:
        """The entries of a chunk of its first file; None if the caller did not give them."""
        start, stop = _range_in(self.files[0], entries_count)
        return None if self.chunk_entries is None else even_step(self.chunk_entries, stop - start)


@dataclass(frozen=True)
class ChunkSizes:
    """The entries of a chunk, and the minimum size of a part of a file in bytes of the file."""

    step: int
    part_min_bytes: int = 0

    @classmethod
    def of_unknown(cls, step_size: int | str | None) -> ChunkSizes:
        """The sizes for a dataset none of whose files could be opened."""
        return cls(step_size if isinstance(step_size, int) else STEP_MAX_ENTRIES)


@dataclass(frozen=True)
class ReadSizes:
    """Entries and bytes of a file, and the bytes of the branches that are read of it, including companions."""

    entries_count: int
    file_bytes: int
    compressed_bytes: int
    plain_bytes: int

    @classmethod
    def of(cls, tree: Tree, branches: Sequence[str], companion_bytes_per_entry: float = 0.0) -> ReadSizes:
        """The sizes of these branches of a tree."""
        read = [tree[name] for name in branches]
        return cls(
            tree.entries_count,
            tree.file.size_bytes,
            sum(one.compressed_bytes for one in read),
            sum(one.plain_bytes for one in read) + int(companion_bytes_per_entry * tree.entries_count),
        )


def cut(files: Sequence[DataFile], step_size: int | str | None = None) -> list[Share]:
    """The shares of a dataset whose files are read entirely, in its order; of files of unknown size a share has as many
    as leave many shares. Where less is read of them, ``merge_parts`` makes parts of files larger.

    The files of a share lie at the same storage elements, as far as the dataset says it: where its workers are changes
    nothing. Where neighbouring files lie at others so often that shares would become small, those at the same elements
    are taken together, and the shares are in the order of their first files.
    """
    chunk_entries = step_size if isinstance(step_size, int) else None
    return [replace(one, chunk_entries=chunk_entries) for one in _cut(files)]


def merge_parts(shares: Sequence[Share], sizes: ChunkSizes, first: int = 0) -> list[Share]:
    """The shares, with fewer and larger parts of files that are cut. Files of which a part comes before the share with
    the index ``first`` stay as they are: these shares are done.
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
    """The number of parts of the file of a share, where it has to be read in parts of this size at least."""
    size_bytes = share.files[0].size_bytes
    if share.parts == 1 or size_bytes is None:
        return 1
    return min(share.parts, _parts_count(size_bytes, sizes.part_min_bytes))


def _parts_count(size_bytes: int, part_bytes: int) -> int:
    return 1 if size_bytes < 2 * part_bytes else -(-size_bytes // max(1, part_bytes))


def _cut(files: Sequence[DataFile]) -> list[Share]:
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
        count = 1 if one.size_bytes is None else _parts_count(size, part_bytes)
        if count > 1:
            shares += _parts(one, count)
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

    The ends of parts are moved to ``basket_borders``, so that few baskets are read for two parts, or to the ends of
    chunks where the caller gave their length; a file of fewer borders than parts leaves some parts empty.
    """
    ends = _ends_of_parts(share, entries_count, basket_borders, range(share.part, share.part + 2))
    return ends[0], ends[1]


def empty_parts(share: Share, entries_count: int, basket_borders: Sequence[int]) -> list[int]:
    """The parts without entries of the file of a share."""
    ends = _ends_of_parts(share, entries_count, basket_borders, range(share.parts + 1))
    return [part for part, (start, stop) in enumerate(pairwise(ends)) if start == stop]


def _ends_of_parts(share: Share, entries_count: int, basket_borders: Sequence[int], parts: range) -> list[int]:
    """Where these parts of a file begin; the one behind the last part at its end."""
    start, stop = _range_in(share.files[0], entries_count)
    begins = [(stop - start) * part // share.parts for part in parts]
    length = share.chunk_length(entries_count)
    if length is not None:
        return [min(start + -(-begin // length) * length, stop) for begin in begins]
    borders = [start, *(entry for entry in basket_borders if start < entry < stop), stop]
    return [borders[bisect_left(borders, start + begin)] for begin in begins]


def _range_in(one: DataFile, entries_count: int) -> tuple[int, int]:
    """The first entry of a file that is read, and the one behind the last, in a tree of ``entries_count`` entries."""
    stop = entries_count if one.entry_stop is None else min(one.entry_stop, entries_count)
    return min(one.entry_start, stop), stop


def learning_entries(share: Share, entries_count: int) -> int:
    """The number of entries on which branches are learned: a whole chunk where the caller gave its length."""
    length = share.chunk_length(entries_count)
    return LEARN_ENTRIES if length is None else length


def open_tree(one: DataFile, access: Access | None = None) -> Tree:
    """The tree of a file, the only one if the dataset names none. Raises what the reading raises."""
    return File(one.opens, access).tree(one.tree)


def chunk_sizes(read: ReadSizes, step_size: int | str | None, memory_limit_bytes: int) -> ChunkSizes:
    """The chunk sizes of a job of whose first file this much is read. They hold for the whole job: a branch that is
    read later must not move the borders of chunks, for then results would depend on which worker met it first. A chunk
    gets its share of the memory limit.

    Without a ``step_size`` a part of a file has at least PARTS_OF_MIN times SUBJOB_MIN_BYTES of the branches that are
    read, or SUBJOB_MIN_ENTRIES_MAX entries if these are fewer; otherwise a chunk.
    """
    entries_count = max(1, read.entries_count)
    if isinstance(step_size, int):
        return ChunkSizes(step_size, step_size * read.file_bytes // entries_count)
    wanted_bytes = min(parse_bytes(step_size or STEP_BYTES), memory_limit_bytes // CHUNK_MEMORY_SHARE)
    step = max(1, min(STEP_MAX_ENTRIES, wanted_bytes * entries_count // max(1, read.plain_bytes)))
    entries = step
    if step_size is None:
        wanted_bytes = PARTS_OF_MIN * SUBJOB_MIN_BYTES
        entries = min(step, SUBJOB_MIN_ENTRIES_MAX, wanted_bytes * entries_count // max(1, read.compressed_bytes))
    return ChunkSizes(step, entries * read.file_bytes // entries_count)


def first_of_each(
    dataset: Dataset, max_files: int | None, max_events: int | None, *, skip_bad_files: bool, access: Access
) -> Dataset:
    """The first files and events of each dataset in a list of several, in its order; None: all.

    Files are opened to count their events, no more than are needed. One that cannot be read stays, to be skipped and
    named, where bad files are skipped. Raises what opening another one raises.
    """
    if max_files is None and max_events is None:
        return dataset
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
    """A file of several entry ranges is one file."""
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
        # A file that is read whole stays as it was: what is kept of it serves other runs.
        yield one if events <= left else one.changed(entry_stop=one.entry_start + left)
        left -= min(left, events)
