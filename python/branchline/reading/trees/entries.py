"""The keys of a file: names, cycles and classes of its objects, and the directories that they are in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from branchline import _core

DIRECTORIES = frozenset({"TDirectory", "TDirectoryFile"})


@dataclass(frozen=True)
class Entry:
    """An object of a file, by the path of the directories that lead to it."""

    path: str
    cycle: int
    classname: str
    title: str
    is_tree: bool

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return self.classname in DIRECTORIES


class Entries:
    """The objects of a file, in its order. A directory is read at its first use."""

    def __init__(self, core: _core.File) -> None:
        self._core = core

    def inside(self, directory: str) -> list[Entry]:
        """The objects right in a directory; the file itself is ``""``."""
        return [_entry(key) for key in self._core.keys_in(directory)]

    def below(self, directory: str) -> list[Entry]:
        """All objects in a directory and in those within it, a directory before what is in it."""
        return [_entry(key) for key in self._core.keys_below(directory)]

    def find(self, name: str) -> Entry | None:
        """The object with this path, of the cycle after ``;`` or the newest."""
        newest = next(iter(self._core.find(name)), None)
        if newest is not None:
            return _entry(newest)
        path, _, cycle = name.rpartition(";")
        same = [_entry(key) for key in self._core.find(path)] if cycle.removeprefix("-").isdecimal() else []
        return next((entry for entry in same if entry.cycle == int(cycle)), None)


def _entry(key: _core.Key) -> Entry:
    return Entry(key.path, key.cycle, key.class_name, key.title, key.is_tree)
