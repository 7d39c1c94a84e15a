"""A file as it lies at its storage, or as it would lie: all that the planner of requests needs of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from branchline import _core
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.layout.extents import as_numbers

#: Offset, bytes, first entry and the entry after the last of a basket or page.
Basket = tuple[int, int, int, int]
#: Offset and bytes.
Place = tuple[int, int]


@dataclass(frozen=True)
class LaidFile:
    """A file and its wanted branches. ``extents`` has the baskets of each in the order of entries, ``metadata`` the
    records that opening the tree needs, by the requests that reading each alone takes, ``infos`` the one of streamer
    infos, ``unwanted_first`` the baskets with the first entries of all other branches.

    ``is_near`` says whether it is on a disk of this machine: a mounted file system (NFS, FUSE) is neither that nor a
    server. ``stored_per_entry`` are bytes of the wanted branches in the file, ``plain_per_entry`` after decompression,
    ``values_per_entry`` in memory. ``scratch_bytes`` is what decompressing the largest basket takes.

    ``borders`` are the entries at which parts of it may begin. ``subjobs`` are those of a job that read it: a part of
    one where a sub-job has several files, more where the file is cut, 0 outside of jobs. ``late_reads`` are the baskets
    that wagons asked for one by one, where a job learned on it what they read.
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
        """In how many parts a job reads it."""
        return max(1, int(self.subjobs))

    @property
    def wanted_bytes(self) -> int:
        """Bytes of the wanted baskets."""
        return sum(size for branch in self.extents for _, size, _, _ in branch)

    @property
    def plain_bytes(self) -> float:
        """Bytes of the wanted branches after decompression."""
        return self.plain_per_entry * self.entries

    @property
    def metadata_bytes(self) -> int:
        """Bytes of the records that opening the tree needs."""
        return sum(size for request in self.metadata for _, size in request)


def laid_file(file: DataFile, branches: Sequence[str] | None) -> LaidFile:
    """How a file lies, with these branches wanted, or all. Reads metadata only, each record once.

    Raises NoSuchKeyError and what opening a file raises.
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
    return LaidFile(
        path=file.path,
        size_bytes=core.size_bytes,
        is_at_a_server="://" in core.store,
        is_near=core.is_near,
        store_gap_bytes=core.store_gap_bytes,
        # The first request is for the head. Of an RNTuple the extents came with its page lists.
        metadata=core.metadata_requests()[1:],
        infos=core.infos_range(),
        entries=tree.entries_count,
        extents=extents,
        unwanted_first=_first(tree, others),
        stored_per_entry=per_entry.stored,
        plain_per_entry=per_entry.plain,
        values_per_entry=values,
        scratch_bytes=scratch,
        codec=next((codec for codec in tree.codecs_in_baskets(indices[:1]) if codec), ""),
        is_ntuple=tree.nests,
        borders=tuple(tree.basket_borders()),
    )


def names_of(file: DataFile) -> tuple[str, ...]:
    """The branches of a file that can be read. Raises what opening a file raises."""
    return tuple(_core.File(file.opens, Access(mode="plain")).tree(file.tree).readable())


def _by_branch(tree: _core.Tree, indices: Sequence[int]) -> list[list[Basket]]:
    found = tree.extents(list(indices))
    columns = (found.offset, found.size, found.entry_start, found.entry_stop)
    rows = list(zip(*(as_numbers(column).tolist() for column in columns), strict=True))
    branches: dict[int, list[Basket]] = {index: [] for index in indices}
    for branch, row in zip(as_numbers(found.branch).tolist(), rows, strict=True):
        branches[branch].append(row)
    return list(branches.values())


def _first(tree: _core.Tree, indices: Sequence[int]) -> list[Place]:
    baskets = (basket for branch in _by_branch(tree, indices) for basket in branch)
    return [(offset, size) for offset, size, start, _ in baskets if start < _core.LEARN_ENTRIES]
