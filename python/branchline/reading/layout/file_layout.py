"""The content and layout of a file: its objects, and the branches of a tree with the locations of their baskets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

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
    """A branch with its own data: its sizes, and the distribution of entries and bytes per basket."""

    path: str
    typename: str
    codec: str
    entries: int
    baskets: int
    compressed_bytes: int
    plain_bytes: int
    entries_per_basket: Spread
    bytes_per_basket: Spread
    #: Compressed bytes in RNTuple pages that also belong to another field, or that this field uses several times.
    shared_bytes: int = 0

    @property
    def factor(self) -> float:
        """Size after decompression divided by the size in the file; 1 for an empty branch."""
        return self.plain_bytes / self.compressed_bytes if self.compressed_bytes else 1.0


@dataclass(frozen=True)
class FileLayout:
    """The layout of a tree. The physical layout (``extents`` and values derived from them) covers the ``wanted``
    branches.

    ``all_extents`` covers all branches, ``numbers`` maps the indices of branches to their paths.
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
        """All branches except projected fields of an RNTuple, which share the pages of other fields."""
        return [one for one in self.branches if not self.is_ntuple or one.bytes_per_basket.most or not one.baskets]

    @property
    def compressed_bytes(self) -> int:
        """Total size of all branches in the file; pages shared by several branches count once."""
        return sum(branch.compressed_bytes - branch.shared_bytes for branch in self._own)

    @property
    def plain_bytes(self) -> int:
        """Total size of all branches after decompression."""
        return sum(branch.plain_bytes for branch in self._own)

    @property
    def codecs(self) -> dict[str, int]:
        """Bytes in the file by codec."""
        found: dict[str, int] = {}
        for branch in self._own:
            found[branch.codec] = found.get(branch.codec, 0) + branch.compressed_bytes - branch.shared_bytes
        return dict(sorted(found.items(), key=lambda item: -item[1]))

    def as_json(self) -> dict[str, object]:
        """Everything except the extents, as JSON-serializable values."""
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
    """Return the layout of ``FILE[:TREE]``, with the physical layout of ``branches`` (default: all).

    Reads only metadata. Names may be patterns, as for ``Tree.arrays``. Raises NoSuchKeyError and errors of opening.
    """
    path, name = split_location(location)
    file = File(path)
    return layout_of(file.tree(name), file, branches, page_bytes)


def layout_of(tree: Tree, file: File, branches: Sequence[str] | None, page_bytes: int) -> FileLayout:
    """The layout of an open tree."""
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
    """The extents of all branches of a tree; ``paths`` maps the indices of branches to their paths."""

    extents: Extents
    paths: dict[int, str]


def extents_of(tree: Tree) -> TreeExtents:
    """The extents of all branches of a tree."""
    owners = _with_values(tree)
    return TreeExtents(_extents(tree, owners), {branch.number: branch.path for branch in owners})


def _with_values(tree: Tree) -> list[Branch]:
    """The branches with their own data. The data of an RNTuple's subfields count as data of their parents."""
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
    # Fields of an RNTuple may share pages: keep each page once.
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
        raise NoSuchKeyError(f"no branch of tree {tree.path} matches {name!r}", path=tree.file_path)
    return paths


def codecs_of(tree: Tree, branches: Sequence[Branch]) -> list[str]:
    """The codec of each branch; the codec of its first basket if the branch does not record one."""
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
    """An object of a file. ``name`` is relative to the listed directory, with the cycle if several objects have the
    same name.

    ``entries`` and ``branches`` are None unless the object is a tree; ``error`` is the reason why a tree cannot be
    read.
    """

    name: str
    classname: str
    title: str
    is_tree: bool
    entries: int | None = None
    branches: int | None = None
    error: str | None = None


def contents_of(directory: Directory, filter_name: object = None) -> list[ObjectSummary]:
    """The objects of a file or a directory and its subdirectories, in file order.

    ``filter_name`` is a name, a pattern with wildcards or a ``/regular expression/``. Trees are opened, one by one.

    >>> contents_of(branchline.open("file.root"), "Mu*")
    """
    return list(_summaries(directory, filter_name))


def _summaries(directory: Directory, filter_name: object) -> Iterator[ObjectSummary]:
    keys = directory.keys(filter_name=filter_name)
    names = [key.rpartition(";")[0] for key in keys]
    counts = Counter(names)
    trees = set(directory.trees())
    for key, name in zip(keys, names, strict=True):
        shown = name if counts[name] == 1 else key
        summary = ObjectSummary(shown, directory.classname_of(key), directory.title_of(key), name in trees)
        yield _with_sizes(summary, directory, key) if summary.is_tree else summary


def _with_sizes(summary: ObjectSummary, directory: Directory, key: str) -> ObjectSummary:
    """Add the number of entries and branches of a tree, or the error of opening it."""
    try:
        tree: Tree = directory[key]
        return replace(summary, entries=tree.entries_count, branches=len(tree.outline.paths))
    except BranchlineError as error:
        return replace(summary, error=error.reason)
