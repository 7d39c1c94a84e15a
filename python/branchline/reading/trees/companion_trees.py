"""Companions: trees that are read together with a main tree, one entry, or a whole tree, for each of its entries."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import awkward as ak
import numpy as np

from branchline.errors import NoSuchKeyError
from branchline.reading.access import Access
from branchline.reading.arrays.lazy import lazy_array
from branchline.reading.arrays.nesting import Shape
from branchline.reading.expressions.name_filters import with_near_names
from branchline.reading.sources import FileReading
from branchline.reading.trees.file import File
from branchline.reading.trees.stream import ChunkStream
from branchline.reading.trees.tree import Tree

# Where the number of the entry stands in the path of a tree.
ENTRY = "{entry}"
# A directory of an event: `Event12`.
NUMBERED = re.compile(r"(.*?)(\d+)")


class CompanionFile:
    """A companion file of a main tree; it is opened at its first use.

    ``tree`` is the path of its tree, with ``{entry}`` for the number of the main tree's entry. None is the only tree,
    or that in each of directories that are numbered, as `Event0/TreeK`.
    """

    def __init__(self, path: str, tree: str | None = None, access: Access | None = None) -> None:
        self.path = path
        self._access = access
        self._given = tree

    @cached_property
    def file(self) -> File:
        """The file. Raises what opening raises."""
        return File(self.path, self._access)

    @cached_property
    def pattern(self) -> str:
        """The path of its tree, or of the trees of all entries."""
        if self._given is not None:
            return self._given
        for entry in self.file.entries.inside(""):
            numbered = NUMBERED.fullmatch(entry.path)
            if entry.is_directory and numbered:
                trees = [one.path for one in self.file.entries.inside(entry.path) if one.is_tree]
                names = sorted({path.rpartition("/")[2] for path in trees})
                if len(names) != 1:
                    what = f"{entry.path} has {len(names)} trees: {', '.join(names)}"
                    raise NoSuchKeyError(what, path=self.path, hint=f"name one: FILE:{numbered[1]}{ENTRY}/TREE")
                return f"{numbered[1]}{ENTRY}/{names[0]}"
        return self.file.tree().path

    @property
    def is_by_entry(self) -> bool:
        """Whether each entry has a tree of its own."""
        return ENTRY in self.pattern

    @cached_property
    def whole(self) -> Tree:
        """Its tree, if it has one for all entries."""
        return self.file.tree(self.pattern)

    def tree_of(self, entry: int) -> Tree | None:
        """The tree of an entry; None if there is none."""
        path = self.pattern.replace(ENTRY, str(entry))
        found = self.file.entries.find(path)
        return self.file.tree(path) if found is not None and found.is_tree else None

    @cached_property
    def shape(self) -> Shape:
        """What the branches look like; those of the first tree, if there are many."""
        if not self.is_by_entry:
            return self.whole.shape
        for path in self.file.trees():
            if re.fullmatch(re.escape(self.pattern).replace(re.escape(ENTRY), r"\d+"), path):
                return self.file.tree(path).shape
        raise NoSuchKeyError(f"there is no tree {self.pattern}", path=self.path)

    def range(self, start: int, stop: int) -> CompanionRange:
        """What belongs to a range of entries of the main tree."""
        return CompanionRange(self, start, stop)

    def record(self) -> FileReading | None:
        """What reading it has cost so far; None if it was never opened."""
        if "file" not in self.__dict__:
            return None
        tree = next((self.file.tree(path) for path in self.file.trees()[:1]), None)
        if tree is None:
            return None
        with ChunkStream([tree.source(0, 0)], []) as stream:
            for _ in stream:
                pass
            return stream.records().files[0]


class CompanionRange:
    """The trees that belong to a range of entries of a main tree, or that range of the only tree.

    ``missing`` are the entries that have no tree, or are behind the end of it; they have no elements, or None.
    """

    def __init__(self, companion: CompanionFile, start: int, stop: int) -> None:
        self.companion = companion
        self._start = start
        self._stop = stop
        self._flat: dict[str, ak.contents.Content] = {}

    @cached_property
    def _trees(self) -> dict[int, Tree]:
        """Trees by their entries."""
        found = {entry: self.companion.tree_of(entry) for entry in range(self._start, self._stop)}
        return {entry: tree for entry, tree in found.items() if tree is not None}

    @cached_property
    def missing(self) -> list[int]:
        """Entries of the main tree for which there is nothing."""
        if self.companion.is_by_entry:
            return [entry for entry in range(self._start, self._stop) if entry not in self._trees]
        return list(range(max(self._start, self.companion.whole.entries_count), self._stop))

    @cached_property
    def _offsets(self) -> Any:
        """Where the elements of each entry begin among those of all."""
        trees = self._trees
        counts = [trees[one].entries_count if one in trees else 0 for one in range(self._start, self._stop)]
        return np.concatenate([np.zeros(1, "i8"), np.cumsum(counts, dtype="i8")])

    def path_of(self, name: str) -> str:
        """The path of the branch that a name means. Raises NoSuchKeyError with the nearest names."""
        shape = self.companion.shape
        with with_near_names(name, lambda: shape.readable):
            return shape.find(name)

    def read(self, paths: Sequence[str]) -> None:
        """Reads branches at once."""
        new = [path for path in paths if path not in self._flat]
        if not new:
            return
        parts: dict[str, list[ak.contents.Content]] = {path: [] for path in new}
        sources = [tree.source() for tree in self._trees.values()] if self.companion.is_by_entry else self._only()
        with ChunkStream(sources, new, step_size="1 TB") as stream:
            for chunk in stream:
                for path in new:
                    parts[path].append(chunk.array(path).layout)
        for path, layouts in parts.items():
            whole = layouts or [self.companion.shape.empty(path)]
            joined = whole[0] if len(whole) == 1 else ak.concatenate(whole, highlevel=False)
            self._flat[path] = joined

    @property
    def size_bytes(self) -> int:
        """Bytes of what was read."""
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
        """A branch, with one element for each entry of the main tree: what the entry of the tree has, or a list of what
        all entries of its tree have.
        """
        return self._aligned(self._column(path))

    def group(self, name: str, read: Any) -> ak.Array | None:
        """Branches that belong together under a name, as ``Chunk.group`` gives them; None if it is no such name.

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
