"""File: an open ROOT file, as a mapping of its trees."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from branchline import _core
from branchline.errors import NoSuchKeyError, UnsupportedBranchError
from branchline.tree.names import with_near_names
from branchline.tree.tree import Tree


def split_location(location: str) -> tuple[str, str | None]:
    """``file.root:tree`` as path and tree; a path without a tree is left as it is, also one with a colon in it."""
    path, colon, tree = location.rpartition(":")
    if not colon or not path or tree.startswith("//") or os.path.exists(location):
        return location, None
    return path, tree


def open(location: str | os.PathLike[str]) -> Any:  # noqa: A001 - uproot's name, so that scripts move over
    """Opens ``file.root`` (a File) or ``file.root:tree`` (a Tree).

    Raises MissingFileError, BadFileError, StorageError, NoSuchKeyError.
    """
    path, tree = split_location(os.fspath(location))
    file = File(path)
    return file if tree is None else file[tree]


class File:
    """An open ROOT file: ``file["tree"]`` is a Tree."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._core = _core.File(os.fspath(path))
        self.path: str = self._core.path
        self.size_bytes: int = self._core.size_bytes

    def __repr__(self) -> str:
        return f"<File {self.path}: {', '.join(self.trees()) or 'no trees'}>"

    def __enter__(self) -> File:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the file; trees that are open still read."""

    def keys(self, *, cycle: bool = True) -> list[str]:
        """Names of all objects, those in directories too, with their cycles as ``name;1``."""
        return [f"{path};{number}" if cycle else path for path, number, _, _ in self._core.keys()]

    def classnames(self) -> dict[str, str]:
        """Classes of all objects."""
        return {f"{path};{cycle}": class_name for path, cycle, class_name, _ in self._core.keys()}

    def trees(self) -> list[str]:
        """Paths of the trees."""
        paths: list[str] = self._core.tree_paths()
        return paths

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        names = {*self.keys(), *self.keys(cycle=False)}
        return name in names

    def __getitem__(self, name: str) -> Any:
        """A tree, or with ``tree/branch`` a branch of one.

        Raises NoSuchKeyError with the nearest names, UnsupportedBranchError for another kind of object.
        """
        for tree in self.trees():
            if name.startswith(f"{tree}/") and name.split(";")[0] not in self.trees():
                return self[tree][name.removeprefix(f"{tree}/")]
        if name not in self.trees() and name.split(";")[0] not in self.trees() and name in self:
            kind = {path.split(";")[0]: kind for path, kind in self.classnames().items()}[name.split(";")[0]]
            raise UnsupportedBranchError(
                f"{name} is a {kind}, not a TTree", path=self.path, hint="only TTrees are read yet"
            )
        return self._named(name)

    def _named(self, name: str) -> Tree:
        with with_near_names(name, self.trees):
            return Tree(self._core.tree(name), self.path)

    def tree(self, name: str | None = None) -> Tree:
        """A tree by its name, or the only one of the file. Raises NoSuchKeyError."""
        return Tree(self._core.tree(None), self.path) if name is None else self._named(name)

    def get(self, name: str, default: Any = None) -> Any:
        """A tree, or a default."""
        try:
            return self[name]
        except NoSuchKeyError:
            return default
