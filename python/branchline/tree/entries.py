"""The keys of a file: names, cycles and classes of its objects, and the directories that they are in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

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
    """All objects of a file, in the order of the file."""

    def __init__(self, keys: Iterable[tuple[str, int, str, str]], trees: Iterable[str]) -> None:
        trees = set(trees)
        entries = [
            Entry(path, cycle, classname, title, path in trees and classname not in DIRECTORIES)
            for path, cycle, classname, title in keys
        ]
        directories = {entry.path for entry in entries if entry.is_directory}
        self._inside: dict[str, list[Entry]] = {}
        self._by_path: dict[str, list[Entry]] = {}
        for entry in entries:
            self._inside.setdefault(_directory_of(entry.path, directories), []).append(entry)
            self._by_path.setdefault(entry.path, []).append(entry)

    def inside(self, directory: str) -> list[Entry]:
        """The objects right in a directory; the file itself is ``""``."""
        return self._inside.get(directory, [])

    def below(self, directory: str) -> Iterator[Entry]:
        """All objects in a directory and in those within it, a directory before what is in it."""
        entered = set()
        for entry in self.inside(directory):
            yield entry
            if entry.is_directory and entry.path not in entered:
                entered.add(entry.path)
                yield from self.below(entry.path)

    def find(self, name: str) -> Entry | None:
        """The object with this path, of the cycle behind ``;`` or of the highest."""
        if name in self._by_path:
            return max(self._by_path[name], key=lambda entry: abs(entry.cycle))
        path, _, cycle = name.rpartition(";")
        same = self._by_path.get(path, ()) if cycle.lstrip("-").isdigit() else ()
        return next((entry for entry in same if entry.cycle == int(cycle)), None)


def _directory_of(path: str, directories: set[str]) -> str:
    """The longest path of a directory that leads to an object, whose own name may hold slashes."""
    before = path.rpartition("/")[0]
    while before and before not in directories:
        before = before.rpartition("/")[0]
    return before
