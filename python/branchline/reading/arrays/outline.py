"""Which branches a tree has, and which of them belong to which."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from branchline import _core


# Kinds of branches that are left out where no branches are named.
LEFT_OUT = ("unreadable", "short")


class Outline:
    """The branches of a tree by their indices, a parent before its children.

    ``paths`` are unique, ``names`` are the branches' own; ``kinds`` are ``data``, ``group`` (it only groups others),
    ``short`` (data of fewer entries than the tree has) and ``unreadable``; ``counts`` are the branches that say how
    many elements the entries of one have. ``separator`` stands between the names of a path. Where the tree ``nests``, a
    branch holds all that those below it hold.
    """

    def __init__(self, core: _core.Tree) -> None:
        self.paths: list[str] = core.paths()
        self.separator: str = core.separator
        self.nests: bool = core.nests
        rows = core.outline()
        self.names = [row.name for row in rows]
        self.parents = [row.parent for row in rows]
        self.kinds = [row.kind for row in rows]
        self.counts = [row.counter for row in rows]
        self.index_by_path = {path: index for index, path in enumerate(self.paths)}
        self._children: dict[int | None, list[int]] = {}
        for index, parent in enumerate(self.parents):
            self._children.setdefault(parent, []).append(index)

    def children(self, index: int | None) -> list[int]:
        """The branches right below one, or with None those at the top."""
        return self._children.get(index, [])

    def below(self, index: int | None) -> Iterator[int]:
        """All branches below one, or with None all of the tree."""
        if index is None:
            yield from range(len(self.paths))
            return
        for child in self.children(index):
            yield child
            yield from self.below(child)

    def is_below(self, index: int, ancestor: int | None) -> bool:
        """Whether a branch is below another; all are below None."""
        parent: int | None = index
        while parent is not None and parent != ancestor:
            parent = self.parents[parent]
        return parent == ancestor and index != ancestor

    def depth(self, index: int) -> int:
        """How many branches are above one."""
        parent = self.parents[index]
        return 0 if parent is None else 1 + self.depth(parent)

    def chain(self, index: int | None) -> str:
        """Names of the branches that lead to one and its own, as in a path, which two branches may share."""
        names = []
        while index is not None:
            names.append(self.names[index])
            index = self.parents[index]
        return self.separator.join(reversed(names))

    def path_from(self, index: int, ancestor: int | None) -> str:
        """The path of a branch relative to another, with which that one finds it."""
        if ancestor is None:
            return self.paths[index]
        return self.paths[index][len(self.chain(ancestor)) + 1 :]

    def data_below(self, index: int) -> list[int]:
        """The branches below a group that can be read."""
        return [one for one in self.below(index) if self.kinds[one] == "data"]
