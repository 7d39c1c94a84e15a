"""Companion trees: trees with one entry, or a whole tree, for each entry of a main tree."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import awkward as ak
import numpy as np

from branchline.errors import NoSuchKeyError
from branchline.reading.access import Access
from branchline.reading.arrays.lazy import lazy_array
from branchline.reading.arrays.nesting import Shape
from branchline.reading.expressions.name_filters import with_near_names
from branchline.reading.sources import FileReading, Source
from branchline.reading.trees.file import DIRECTORIES, File
from branchline.reading.trees.stream import ChunkStream
from branchline.reading.trees.tree import Tree

# Placeholder for the entry number in the path of a tree.
ENTRY = "{entry}"
# Matches the directory of an event, such as `Event12`.
NUMBERED = re.compile(r"(.*?)(\d+)")


class CompanionFile:
    """A companion file of a main tree, opened on first use.

    ``tree`` is the path of the tree in the file; ``{entry}`` stands for the entry number of the main tree. None means
    the only tree of the file, or the only tree in each numbered directory, such as `Event0/TreeK`.
    """

    def __init__(
        self, path: str, tree: str | None = None, access: Access | None = None, file: Callable[[], File] | None = None
    ) -> None:
        """Prepare to open a file. ``file`` returns the open file, if it is used for several trees."""
        self.path = path
        self._access = access
        self._given = tree
        self._open = file

    @cached_property
    def file(self) -> File:
        """The open file. Raises the errors of opening."""
        return File(self.path, self._access) if self._open is None else self._open()

    @cached_property
    def pattern(self) -> str:
        """The path of the tree; it contains ``{entry}`` if each entry has its own tree."""
        if self._given is not None:
            return self._given
        for key in self.file.keys_in(""):
            numbered = NUMBERED.fullmatch(key.path)
            if key.class_name in DIRECTORIES and numbered:
                trees = [one.path for one in self.file.keys_in(key.path) if one.is_tree]
                names = sorted({path.rpartition("/")[2] for path in trees})
                if len(names) != 1:
                    what = f"{key.path} has {len(names)} trees: {', '.join(names)}"
                    raise NoSuchKeyError(what, path=self.path, hint=f"choose one: FILE:{numbered[1]}{ENTRY}/TREE")
                return f"{numbered[1]}{ENTRY}/{names[0]}"
        return self.file.tree().path

    @property
    def is_by_entry(self) -> bool:
        """Whether each entry has its own tree."""
        return ENTRY in self.pattern

    @cached_property
    def whole(self) -> Tree:
        """The companion tree, if all entries share a single tree."""
        return self.file.tree(self.pattern)

    def tree_of(self, entry: int) -> Tree | None:
        """Return the tree of an entry, or None."""
        path = self.pattern.replace(ENTRY, str(entry))
        found = self.file.key_of(path)
        return self.file.tree(path) if found is not None and found.is_tree else None

    @cached_property
    def shape(self) -> Shape:
        """The shape of the tree, or of the first tree if each entry has its own tree."""
        if not self.is_by_entry:
            return self.whole.shape
        for path in self.file.trees():
            if re.fullmatch(re.escape(self.pattern).replace(re.escape(ENTRY), r"\d+"), path):
                return self.file.tree(path).shape
        raise NoSuchKeyError(f"no tree matches {self.pattern}", path=self.path)

    def range(self, start: int, stop: int) -> CompanionRange:
        """Return the companion data of a range of entries of the main tree."""
        return CompanionRange(self, start, stop)


def reading_of(file: File, tree_path: str | None = None) -> FileReading | None:
    """The record of all reads of an open file; None for a file without trees. ``tree_path`` is a tree that is open, if
    known: finding one reads all directories.
    """
    path = tree_path or next(iter(file.trees()), None)
    if path is None:
        return None
    tree = file.tree(path)
    with ChunkStream([tree.source(0, 0)], []) as stream:
        for _ in stream:
            pass
        return stream.records().files[0]


def read_columns(
    sources: Sequence[Source],
    paths: Sequence[str],
    empty: Callable[[str], ak.contents.Content],
    optional: Sequence[str] = (),
) -> dict[str, ak.contents.Content]:
    """Read branches of several sources in one pass. ``empty`` returns a branch without entries, ``optional`` are
    branches that not all sources have.
    """
    if not paths:
        return {}
    parts: dict[str, list[ak.contents.Content]] = {path: [] for path in paths}
    with ChunkStream(sources, list(paths), optional=list(optional), step_size="1 TB") as stream:
        for chunk in stream:
            for path in chunk.branches if optional else paths:
                parts[path].append(chunk.array(path).layout)
    whole = {path: layouts or [empty(path)] for path, layouts in parts.items()}
    return {path: one[0] if len(one) == 1 else ak.concatenate(one, highlevel=False) for path, one in whole.items()}


class CompanionRange:
    """The companion data of a range of entries of the main tree: one tree for each entry, or a range of a single tree.

    ``missing`` are the entries without companion data, whose values are empty lists or None.
    """

    def __init__(self, companion: CompanionFile, start: int, stop: int) -> None:
        self.companion = companion
        self._start = start
        self._stop = stop
        self._flat: dict[str, ak.contents.Content] = {}

    @cached_property
    def _trees(self) -> dict[int, Tree]:
        """Trees by entry."""
        found = {entry: self.companion.tree_of(entry) for entry in range(self._start, self._stop)}
        return {entry: tree for entry, tree in found.items() if tree is not None}

    @cached_property
    def missing(self) -> list[int]:
        """Entries of the main tree without companion data."""
        if self.companion.is_by_entry:
            return [entry for entry in range(self._start, self._stop) if entry not in self._trees]
        return list(range(max(self._start, self.companion.whole.entries_count), self._stop))

    @cached_property
    def _offsets(self) -> Any:
        """Offsets of each entry's elements in the concatenated trees."""
        trees = self._trees
        counts = [trees[one].entries_count if one in trees else 0 for one in range(self._start, self._stop)]
        return np.concatenate([np.zeros(1, "i8"), np.cumsum(counts, dtype="i8")])

    def path_of(self, name: str) -> str:
        """Resolve a name to the path of a branch. Raises NoSuchKeyError with the nearest names."""
        shape = self.companion.shape
        with with_near_names(name, lambda: shape.readable):
            return shape.find(name)

    def read(self, paths: Sequence[str]) -> None:
        """Read several branches in one pass."""
        new = [path for path in paths if path not in self._flat]
        if not new:
            return
        sources = [tree.source() for tree in self._trees.values()] if self.companion.is_by_entry else self._only()
        self._flat |= read_columns(sources, new, self.companion.shape.empty)

    @property
    def size_bytes(self) -> int:
        """Size in memory of the cached branches."""
        return sum(int(ak.Array(layout).nbytes) for layout in self._flat.values())

    def _only(self) -> list[Any]:
        count = self.companion.whole.entries_count
        return [self.companion.whole.source(min(self._start, count), min(self._stop, count))]

    def _column(self, path: str) -> ak.contents.Content:
        self.read([path])
        return self._flat[path]

    @property
    def _flat_count(self) -> int:
        return int(self._offsets[-1]) if self.companion.is_by_entry else self._stop - self._start - len(self.missing)

    def array(self, path: str) -> ak.Array:
        """A branch, with one element per entry of the main tree: a value of the single tree, or a list with all values
        of the tree of this entry.
        """
        return self._aligned(self._column(path))

    def group(self, name: str, read: Any) -> ak.Array | None:
        """Related branches as records, as in ``Chunk.group``; None if the name is not a group.

        ``read`` is called with the path of each branch before it is read.
        """
        group = self.companion.shape.group(name)
        if group is None:
            return None

        def column(path: str) -> ak.contents.Content:
            read(path)
            return self._column(path)

        whole = lazy_array({name: group}, self._flat_count, self.companion.shape.empty, column)
        return self._aligned(whole[name].layout)

    def _aligned(self, flat: ak.contents.Content) -> ak.Array:
        if self.companion.is_by_entry:
            return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(self._offsets), flat))
        if not self.missing:
            return ak.Array(flat)
        count = self._stop - self._start
        index = np.where(np.arange(count) < count - len(self.missing), np.arange(count), -1)
        return ak.Array(ak.contents.IndexedOptionArray.simplified(ak.index.Index64(index), flat))
