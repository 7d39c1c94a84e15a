"""The contents and the layout of a file: its objects, and for a tree its branches and where their baskets lie."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from branchline.base.limits import DISK_PAGE_BYTES
from branchline.errors import BranchlineError, NoSuchKeyError
from branchline.reading.layout.extents import Clusters, DiskPages, Extents, Gaps, Spread, Travel, as_numbers
from branchline.reading.locations import is_parquet, split_location
from branchline.reading.request import ReadRequest
from branchline.reading.trees.branch import Branch
from branchline.reading.trees.file import Directory, File
from branchline.reading.trees.tree import Tree


@dataclass(frozen=True)
class BranchLayout:
    """A branch with values of its own: its sizes, and the distribution of entries and bytes over its baskets."""

    path: str
    typename: str
    codec: str
    entries: int
    baskets: int
    compressed_bytes: int
    plain_bytes: int
    entries_per_basket: Spread
    bytes_per_basket: Spread
    #: Of the compressed bytes those in pages of an RNTuple that another field, or a part of this one, has before.
    shared_bytes: int = 0

    @property
    def factor(self) -> float:
        """Bytes after decompression for each byte in the file; 1 if there are none."""
        return self.plain_bytes / self.compressed_bytes if self.compressed_bytes else 1.0


@dataclass(frozen=True)
class FileLayout:
    """A tree of a file. The physical layout (``extents`` and what follows from them) is of the ``wanted`` branches.

    ``all_extents`` are those of all branches, ``numbers`` the paths of branches by their numbers.
    """

    path: str
    size_bytes: int
    tree: str
    is_ntuple: bool
    format: str
    entries: int
    branches: tuple[BranchLayout, ...]
    wanted: tuple[str, ...]
    extents: Extents
    all_extents: Extents
    numbers: dict[int, str]
    travel: Travel
    gaps: Gaps
    clusters: Clusters
    disk_pages: DiskPages

    @property
    def _own(self) -> list[BranchLayout]:
        """All branches but the fields of an RNTuple that show pages of others (projected fields)."""
        return [one for one in self.branches if not self.is_ntuple or one.bytes_per_basket.most or not one.baskets]

    @property
    def compressed_bytes(self) -> int:
        """Bytes of all branches in the file; those of several branches count once."""
        return sum(branch.compressed_bytes - branch.shared_bytes for branch in self._own)

    @property
    def plain_bytes(self) -> int:
        """Bytes of all branches after decompression."""
        return sum(branch.plain_bytes for branch in self._own)

    @property
    def codecs(self) -> dict[str, int]:
        """Bytes in the file by the codec that its branches were written with."""
        found: dict[str, int] = {}
        for branch in self._own:
            found[branch.codec] = found.get(branch.codec, 0) + branch.compressed_bytes - branch.shared_bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def as_json(self) -> dict[str, object]:
        """Everything but the extents, as numbers and texts."""
        physical = {name: asdict(getattr(self, name)) for name in ("travel", "gaps", "clusters", "disk_pages")}
        return {
            "path": self.path,
            "size_bytes": self.size_bytes,
            "tree": self.tree,
            "format": self.format,
            "entries": self.entries,
            "compressed_bytes": self.compressed_bytes,
            "plain_bytes": self.plain_bytes,
            "codecs": self.codecs,
            "branches": [{**asdict(branch), "factor": round(branch.factor, 4)} for branch in self.branches],
            "physical": {"branches": list(self.wanted), **physical},
        }


def inspect_file(
    location: str, branches: Sequence[str] | None = None, *, page_bytes: int = DISK_PAGE_BYTES
) -> FileLayout:
    """The layout of ``FILE[:TREE]``; the physical one of some branches, or of all. Only metadata are read.

    Names may be patterns, as for ``Tree.arrays``. Raises NoSuchKeyError and what opening a file raises.
    """
    path, name = split_location(location)
    file = File(path)
    return layout_of(file.tree(name), file, branches, page_bytes)


def layout_of(tree: Tree, file: File, branches: Sequence[str] | None, page_bytes: int) -> FileLayout:
    """The layout of a tree that is open."""
    owners = _with_values(tree)
    every = _extents(tree, owners)
    wanted = owners if branches is None else _named(tree, owners, branches)
    extents = every.of([branch.number for branch in wanted])
    shared = every.shown_before()
    return FileLayout(
        path=tree.file_path,
        size_bytes=file.size_bytes,
        tree=tree.path,
        is_ntuple=tree.outline.nests,
        format=_format_of(tree),
        entries=tree.entries_count,
        branches=tuple(
            _branch(branch, codec, every, shared, is_ntuple=tree.outline.nests)
            for branch, codec in zip(owners, codecs_of(tree, owners), strict=True)
        ),
        wanted=tuple(branch.path for branch in wanted),
        extents=extents,
        all_extents=every,
        numbers={branch.number: branch.path for branch in owners},
        travel=extents.travel(),
        gaps=extents.gaps(),
        clusters=extents.clusters(),
        disk_pages=extents.disk_pages(every, page_bytes),
    )


def _format_of(tree: Tree) -> str:
    if is_parquet(tree.file_path):
        return "Parquet"
    return "RNTuple" if tree.outline.nests else "TTree"


@dataclass(frozen=True)
class TreeExtents:
    """The extents of all branches of a tree that lie in its file; ``paths`` are these branches by their numbers."""

    extents: Extents
    paths: dict[int, str]


def extents_of(tree: Tree) -> TreeExtents:
    """The extents of all branches of a tree."""
    owners = _with_values(tree)
    return TreeExtents(_extents(tree, owners), {branch.number: branch.path for branch in owners})


def _with_values(tree: Tree) -> list[Branch]:
    """The branches whose bytes are their own; those of an RNTuple's subfields are counted with the field."""
    branches = [tree.branch(index) for index in range(len(tree.outline.paths))]
    return [branch for branch in branches if not branch.is_part and (branch.baskets_count or not branch.is_group)]


def _extents(tree: Tree, branches: Sequence[Branch]) -> Extents:
    found = tree.core.extents([branch.number for branch in branches])
    extents = Extents(
        branch=as_numbers(found.branch),
        offset=as_numbers(found.offset),
        size=as_numbers(found.size),
        entry_start=as_numbers(found.entry_start),
        entry_stop=as_numbers(found.entry_stop),
    )
    # Fields of an RNTuple may share pages: each is there once.
    _, first = np.unique(extents.offset, return_index=True)
    return extents.rows(np.sort(first))


def _named(tree: Tree, owners: Sequence[Branch], names: Sequence[str]) -> list[Branch]:
    wanted = set()
    for path in (path for name in names for path in _paths(tree, name)):
        branch = tree[path]
        while branch.is_part and isinstance(branch.parent, Branch):
            branch = branch.parent
        wanted.add(branch.number)
    return [branch for branch in owners if branch.number in wanted]


def _paths(tree: Tree, name: str) -> list[str]:
    """The paths of the branches that match a name or a pattern."""
    if "*" not in name and "?" not in name:
        return tree.selection(ReadRequest.of(expressions=[name])).paths()
    paths = tree.selection(ReadRequest.of(filter_name=name)).paths()
    if not paths:
        raise NoSuchKeyError(f"no branch of tree {tree.path} is like {name!r}", path=tree.file_path)
    return paths


def codecs_of(tree: Tree, branches: Sequence[Branch]) -> list[str]:
    """The codec of each branch; that of its first basket if the branch has none recorded."""
    unrecorded = [branch for branch in branches if branch.codec is None]
    found = tree.core.codecs_in_baskets([branch.number for branch in unrecorded]) if unrecorded else []
    by_number = {branch.number: codec for branch, codec in zip(unrecorded, found, strict=True)}
    return [branch.codec or by_number[branch.number] or "none" for branch in branches]


def _branch(branch: Branch, codec: str, every: Extents, shared: Extents, *, is_ntuple: bool) -> BranchLayout:
    own = every.of([branch.number])
    new_bytes = own.stored_bytes - shared.of([branch.number]).stored_bytes
    return BranchLayout(
        path=branch.path,
        typename=branch.typename,
        codec=codec,
        entries=branch.entries_count,
        baskets=branch.baskets_count,
        compressed_bytes=branch.compressed_bytes,
        plain_bytes=branch.plain_bytes,
        entries_per_basket=Spread.of(own.entry_stop - own.entry_start),
        bytes_per_basket=Spread.of(own.size),
        shared_bytes=max(0, branch.compressed_bytes - new_bytes) if own.stored_bytes and is_ntuple else 0,
    )


@dataclass(frozen=True)
class ObjectSummary:
    """An object of a file. ``name`` is relative to the directory that is listed, with the cycle if there are several.

    ``entries`` and ``branches`` are those of a tree, None for anything else; ``error`` says why a tree cannot be read.
    """

    name: str
    classname: str
    title: str
    is_tree: bool
    entries: int | None = None
    branches: int | None = None
    error: str | None = None


def contents_of(directory: Directory, filter_name: Any = None) -> list[ObjectSummary]:
    """The objects in a file or a directory, and in directories within it, in the order of the file.

    ``filter_name`` is a name, a pattern with wildcards or a ``/regular expression/``. Trees are opened, one by one.

    >>> contents_of(branchline.open("file.root"), "Mu*")
    """
    return list(_summaries(directory, filter_name))


def _summaries(directory: Directory, filter_name: Any) -> Iterator[ObjectSummary]:
    keys = directory.keys(filter_name=filter_name)
    names = [key.rpartition(";")[0] for key in keys]
    trees = set(directory.trees())
    for key, name in zip(keys, names, strict=True):
        shown = name if names.count(name) == 1 else key
        summary = ObjectSummary(shown, directory.classname_of(key), directory.title_of(key), name in trees)
        yield _with_sizes(summary, directory, key) if summary.is_tree else summary


def _with_sizes(summary: ObjectSummary, directory: Directory, key: str) -> ObjectSummary:
    """The summary of a tree with its entries and branches, or with the error that opening it raises."""
    try:
        tree: Tree = directory[key]
        return replace(summary, entries=tree.entries_count, branches=len(tree.outline.paths))
    except BranchlineError as error:
        return replace(summary, error=error.reason)
