"""What the branches of a tree look like: which there are, which belong together, and of what types they are."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import awkward as ak

from branchline.tree.arrays import layout_of
from branchline.tree.nesting import Group, groups_of
from branchline.tree.outline import Outline


class Shape:
    """Facts about a tree that are looked up once for all its chunks, and only when they are wanted."""

    def __init__(self, core: Any) -> None:
        self._core = core
        self._empty: dict[str, ak.contents.Content] = {}

    @cached_property
    def outline(self) -> Outline:
        """Which branches there are, and which are below which."""
        return Outline(self._core)

    @cached_property
    def readable(self) -> list[str]:
        """Paths of the branches that can be read."""
        paths: list[str] = self._core.readable()
        return paths

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
        path: str = self._core.branch(self._core.find(name))["path"]
        return path

    @property
    def title(self) -> str:
        """The title of the tree."""
        title: str = self._core.title
        return title

    def facts(self) -> dict[str, tuple[str, str, str]]:
        """Titles, C++ types and classes of containers (empty for what is none) of all branches by their paths."""
        rows = {path: self._core.branch(index) for path, index in self.outline.index_by_path.items()}
        return {path: (row["title"], row["typename"], row["container_class"]) for path, row in rows.items()}

    def empty(self, path: str) -> ak.contents.Content:
        """The layout of a branch without entries, which has its type."""
        if path not in self._empty:
            self._empty[path] = layout_of(self._core.empty_columns([path])[0])
        return self._empty[path]

    def learn_types(self, paths: list[str]) -> None:
        """Looks up the types of many branches at once."""
        unknown = [path for path in paths if path not in self._empty]
        self._empty |= dict(zip(unknown, map(layout_of, self._core.empty_columns(unknown)), strict=True))
