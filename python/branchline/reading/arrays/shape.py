"""What the branches of a tree look like: which there are, which belong together, and of what types they are."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import awkward as ak

from branchline._core import BranchFacts
from branchline.reading.arrays.arrays import layout_of
from branchline.reading.arrays.nesting import Group, groups_of
from branchline.reading.arrays.outline import Outline

if TYPE_CHECKING:
    from branchline import _core


class Shape:
    """Metadata of a tree, looked up once for all its chunks, and only when they are wanted.

    ``core`` is the engine's handle on the tree.
    """

    def __init__(self, core: _core.Tree) -> None:
        self.core = core
        self._facts: dict[int, BranchFacts] = {}
        self._empty: dict[str, ak.contents.Content] = {}

    @cached_property
    def outline(self) -> Outline:
        """Which branches there are, and which are below which."""
        return Outline(self.core)

    @cached_property
    def readable(self) -> list[str]:
        """Paths of the branches that can be read."""
        return self.core.readable()

    @cached_property
    def readable_set(self) -> frozenset[str]:
        """The same, to look into."""
        return frozenset(self.readable)

    @cached_property
    def groups(self) -> dict[str, str | Group]:
        """All that can be read, as groups and single branches by their names."""
        return groups_of(self.outline, self.readable)

    def group(self, name: str) -> Group | None:
        """The branches that belong together under a name; None if it stands for one branch, or for nothing."""
        alone = self.outline.index_by_path.get(name)
        if alone is not None and not self.outline.children(alone):
            return None
        group = self.groups.get(name)
        return group if isinstance(group, Group) else None

    def find(self, name: str) -> str:
        """The path of the branch that a name means. Raises NoSuchKeyError."""
        return self.facts_of(self.core.find(name)).path

    @property
    def title(self) -> str:
        """The title of the tree."""
        return self.core.title

    def facts_of(self, index: int) -> BranchFacts:
        """The metadata of a branch, by its number."""
        if index not in self._facts:
            self._facts[index] = self.core.branch(index)
        return self._facts[index]

    def facts(self) -> dict[str, BranchFacts]:
        """The metadata of all branches, by their paths."""
        return {path: self.facts_of(index) for path, index in self.outline.index_by_path.items()}

    def empty(self, path: str) -> ak.contents.Content:
        """The layout of a branch without entries, which has its type."""
        if path not in self._empty:
            self._empty[path] = layout_of(self.core.empty_columns([path])[0])
        return self._empty[path]

    def learn_types(self, paths: list[str]) -> None:
        """Looks up the types of many branches at once."""
        unknown = [path for path in paths if path not in self._empty]
        self._empty |= dict(zip(unknown, map(layout_of, self.core.empty_columns(unknown)), strict=True))
