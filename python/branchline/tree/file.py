"""File: an open ROOT file, as a mapping of its trees."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from branchline import _core
from branchline.access import Access, access_of
from branchline.errors import OptionError, RecoveredFileWarning, UnsupportedBranchError, warn
from branchline.limits import TREES_KEPT
from branchline.locations import split_location, text_of
from branchline.tree.directory import Directory
from branchline.tree.entries import Entries, Entry
from branchline.tree.names import with_near_names
from branchline.tree.options import check_opening_options
from branchline.tree.shape import Shape
from branchline.tree.tree import Tree


def open(location: Any, *, access: Access | str | None = None, **options: Any) -> Any:  # noqa: A001 - uproot's name, so that scripts move over
    """Opens ``file.root`` (a File), or ``file.root:tree`` or ``{"file.root": "tree"}`` (a Tree).

    ``access`` says how the file is read: a mode such as "planned", or a `branchline.Access`. The options of uproot that
    say how it reads and what it keeps are accepted and not used. Raises MissingFileError, BadFileError, StorageError,
    NoSuchKeyError, OptionError. A file that was never closed is recovered, with a RecoveredFileWarning.
    """
    check_opening_options(options)
    if isinstance(location, Mapping) and len(location) == 1:
        path, tree = next(iter(location.items()))
        path = text_of(path)
    elif isinstance(location, str | bytes | os.PathLike):
        path, tree = split_location(text_of(location))
    else:
        raise OptionError(
            f"{type(location).__name__} cannot be opened",
            hint='give a path, "file.root:tree", or {"file.root": "tree"}',
        )
    file = File(path, access)
    if file.recovered_count:
        warn(recovered(file.path, file.recovered_count), RecoveredFileWarning)
    return file if tree is None else file[tree]


def recovered(path: str, keys_count: int) -> str:
    """The warning that a file was never closed."""
    return f"{path} was never closed: {keys_count} of its keys were found again, with what was saved until then"


class File(Directory):
    """An open ROOT file: ``file["tree"]`` is a Tree, ``file["folder"]`` a Directory."""

    def __init__(self, path: str | bytes | os.PathLike[str], access: Access | str | None = None) -> None:
        self.access = access_of(access)
        core = _core.File(text_of(path), self.access)
        self._core = core
        # It refers to the engine's file alone: with this object in it, both would live until Python looks for circles.
        self._shape_of = lru_cache(maxsize=TREES_KEPT)(lambda name: Shape(core.tree(name)))
        self._path = ""
        self.entries = Entries(self._core)
        self._is_closed = False
        self.path: str = self._core.path
        self.size_bytes: int = self._core.size_bytes
        # Keys that had to be found again, as the file was never closed.
        self.recovered_count: int = self._core.recovered_count

    def __repr__(self) -> str:
        return f"<File {self.path}: {', '.join(self.trees()) or 'no trees'}>"

    def __enter__(self) -> File:
        return self

    def close(self) -> None:
        """Lets go of the file; trees that are open still read."""
        self._is_closed = True
        self._shape_of.cache_clear()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._is_closed

    @property
    def file(self) -> File:
        """The file itself."""
        return self

    @property
    def root_directory(self) -> File:
        """The file itself, which is its top directory."""
        return self

    @property
    def root_version(self) -> str:
        """The version of ROOT that wrote it, as ``6.32/02``."""
        return "{}.{:02d}/{:02d}".format(*self.root_version_tuple)

    @property
    def root_version_tuple(self) -> tuple[int, int, int]:
        """The version of ROOT that wrote it."""
        version = self._core.root_version % 1_000_000
        return version // 10_000, version // 100 % 100, version % 100

    def directory_of(self, path: str) -> Directory:
        """The directory that an object is in."""
        directory = path.rpartition("/")[0]
        entry = self.entries.find(directory)
        while directory and (entry is None or not entry.is_directory):
            directory = directory.rpartition("/")[0]
            entry = self.entries.find(directory)
        return Directory(self, directory) if directory else self

    def object_of(self, entry: Entry) -> Any:
        """The object of a key. Raises UnsupportedBranchError for one that is not read, and what opening raises."""
        if entry.is_directory:
            return Directory(self, entry.path)
        if not entry.is_tree:
            from branchline.objects import made

            return made(self.record_of(entry))
        with _other_objects_still_read():
            return Tree(self._shape_of(f"{entry.path};{entry.cycle}"), self, entry.cycle)

    def record_of(self, entry: Entry) -> Any:
        """The object of a key as its members. Raises UnsupportedBranchError for a tree or a directory, and for what is
        not read.
        """
        # Those who only read trees start sooner without histograms.
        from branchline.objects import Origin, record_of

        with _other_objects_still_read():
            column = self._core.object(f"{entry.path};{entry.cycle}")
        return record_of(column, Origin(self.path, entry.path, self._core.lineage))

    def members_of_tree(self, tree: Tree) -> Any:
        """A TTree as the members that are stored of it."""
        from branchline.objects import Origin, record_of

        column = self._core.tree_members(tree.object_path.lstrip("/"))
        return record_of(column, Origin(self.path, tree.path, self._core.lineage))

    def tree(self, name: str | None = None) -> Tree:
        """A tree by its name, or the only one of the file. Raises NoSuchKeyError."""
        entry = self._found(name) if name else None
        with with_near_names(name or "", self.trees):
            if entry is not None and entry.is_tree:
                return Tree(self._shape_of(f"{entry.path};{entry.cycle}"), self, entry.cycle)
            return Tree(self._shape_of(name), self)


@contextmanager
def _other_objects_still_read() -> Iterator[None]:
    """Says of an object that is not read what else of the file is."""
    try:
        yield
    except UnsupportedBranchError as error:
        error.hint = "branchline cannot read this object yet; the other objects and trees of the file still read"
        raise
