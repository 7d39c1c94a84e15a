"""The layout of a file, real or hypothetical: all that is needed to plan its requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from branchline import _core
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.layout.extents import as_numbers

#: A basket or page: its offset, its size in bytes, its first entry, and the entry after its last one.
Basket = tuple[int, int, int, int]
#: An offset and a size in bytes.
Place = tuple[int, int]


@dataclass(frozen=True)
class LaidFile:
    """A file and its wanted branches.

    ``extents`` has the baskets of each branch, ordered by entry. ``metadata`` has the records that are read to open the
    tree, grouped by request. ``infos`` is the record of streamer infos. ``unwanted_first`` has the baskets of other
    branches that contain the first entries.

    ``is_near`` is true for a file on a local disk. For a file on a mounted file system (NFS, FUSE), both ``is_near``
    and ``is_at_a_server`` are false. ``stored_per_entry`` is the size of the wanted branches in bytes per entry in the
    file, ``plain_per_entry`` after decompression, ``values_per_entry`` in memory. ``scratch_bytes`` is the memory for
    decompressing the largest basket.

    ``borders`` are the entries at which parts may begin. ``subjobs`` is the number of sub-jobs that read the file:
    below 1 if a sub-job reads several files, above 1 if the file is split, 0 outside of jobs. ``late_reads`` is the
    number of branches that were read one by one while the job learned from this file which branches its wagons read.
    """

    path: str
    size_bytes: int
    is_at_a_server: bool
    is_near: bool
    store_gap_bytes: int
    metadata: list[list[Place]]
    infos: Place | None
    entries: int
    extents: list[list[Basket]]
    unwanted_first: list[Place]
    stored_per_entry: float
    plain_per_entry: float
    values_per_entry: float
    scratch_bytes: int
    codec: str = ""
    is_ntuple: bool = False
    borders: tuple[int, ...] = ()
    subjobs: float = 0.0
    late_reads: int = 0

    @property
    def parts(self) -> int:
        """Number of parts in which a job reads the file."""
        return max(1, int(self.subjobs))

    @property
    def wanted_bytes(self) -> int:
        """Total size of the wanted baskets."""
        return sum(size for branch in self.extents for _, size, _, _ in branch)

    @property
    def plain_bytes(self) -> float:
        """Total size of the wanted branches after decompression."""
        return self.plain_per_entry * self.entries

    @property
    def metadata_bytes(self) -> int:
        """Total size of the records that are read to open the tree."""
        return sum(size for request in self.metadata for _, size in request)


def laid_file(file: DataFile, branches: Sequence[str] | None) -> LaidFile:
    """Return the layout of a file with these wanted branches (None for all). Reads only metadata, each record once.

    Raises NoSuchKeyError and the errors of opening a file.
    """
    core = _core.File(file.opens, Access(mode="plain"))
    tree = core.tree(file.tree)
    names = tree.readable() if branches is None else branches
    indices = [tree.find(name) for name in names]
    extents = _by_branch(tree, indices)
    outline = tree.outline()
    others = [] if tree.nests else [index for index in range(len(outline)) if index not in set(indices)]
    per_entry = tree.bytes_per_entry(indices)
    values, scratch = tree.memory_needs(indices)
    baskets = (basket for branch in _by_branch(tree, others) for basket in branch)
    return LaidFile(
        path=file.path,
        size_bytes=core.size_bytes,
        is_at_a_server="://" in core.store,
        is_near=core.is_near,
        store_gap_bytes=core.store_gap_bytes,
        # The first request reads the head of the file and is left out. For an RNTuple, the other requests include page
        # lists.
        metadata=core.metadata_requests()[1:],
        infos=core.infos_range(),
        entries=tree.entries_count,
        extents=extents,
        unwanted_first=[(offset, size) for offset, size, start, _ in baskets if start < _core.LEARN_ENTRIES],
        stored_per_entry=per_entry.stored,
        plain_per_entry=per_entry.plain,
        values_per_entry=values,
        scratch_bytes=scratch,
        codec=next((codec for codec in tree.codecs_in_baskets(indices[:1]) if codec), ""),
        is_ntuple=tree.nests,
        borders=tuple(tree.basket_borders()),
    )


def names_of(file: DataFile) -> tuple[str, ...]:
    """Return the names of all readable branches of a file. Raises the errors of opening a file."""
    return tuple(_core.File(file.opens, Access(mode="plain")).tree(file.tree).readable())


def _by_branch(tree: _core.Tree, indices: Sequence[int]) -> list[list[Basket]]:
    found = tree.extents(list(indices))
    columns = (found.offset, found.size, found.entry_start, found.entry_stop)
    rows = list(zip(*(as_numbers(column).tolist() for column in columns), strict=True))
    branches: dict[int, list[Basket]] = {index: [] for index in indices}
    for branch, row in zip(as_numbers(found.branch).tolist(), rows, strict=True):
        branches[branch].append(row)
    return list(branches.values())
