"""Companions: files next to each file of a dataset that are read event by event with it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from branchline.errors import DatasetError
from branchline.reading.locations import PARQUET_ENDINGS, ROOT_ENDING, split_location

# Placeholders in the location of a companion: the number of the entry, the main file's name without its ending.
ENTRY, STEM = "{entry}", "{stem}"


@dataclass(frozen=True)
class Companion:
    """A file next to each file of the dataset, and the tree in it.

    ``location`` is ``path[:tree]``, relative to the main file's directory. With ``{entry}`` in its tree each entry of
    the main tree has a tree of its own, as ``Kinematics.root:Event{entry}/TreeK``; without a tree it is found.
    ``{stem}`` stands for the name of the main file, as ``{stem}_friend.root``.
    """

    name: str
    location: str

    def path_for(self, path: str) -> tuple[str, str | None]:
        """The file next to a main file, and its tree if that is given."""
        folder, _, name = path.rpartition("/")
        own, tree = split_location(self.location)
        own = own.replace(STEM, _stem(name))
        if os.path.isabs(own) or "://" in own:
            return own, tree
        return (f"{folder}/{own}" if folder else own), tree


#: What callers may give as companions; a text is ``location`` or ``name=location``.
CompanionsLike = (
    str
    | os.PathLike[str]
    | Companion
    | Mapping[str, str | os.PathLike[str]]
    | Iterable[str | os.PathLike[str] | Companion]
    | None
)


def companions_of(given: CompanionsLike) -> tuple[Companion, ...]:
    """Companions from a mapping of names to locations, or from texts ``location`` or ``name=location``.

    Without a name it is that of the file: ``Kinematics`` of ``Kinematics.root``. Raises DatasetError.
    """
    if given is None:
        return ()
    if isinstance(given, str | os.PathLike | Companion):
        given = [given]
    if isinstance(given, Mapping):
        found = [Companion(str(name), _location(location)) for name, location in given.items()]
    elif isinstance(given, Iterable):
        found = [one if isinstance(one, Companion) else _named(_location(one)) for one in given]
    else:
        raise DatasetError(f"companions cannot be {given!r}", hint='give {"Kinematics": "Kinematics.root"}')
    names = [one.name for one in found]
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise DatasetError(f"several companions are called {', '.join(sorted(twice))}", hint="write NAME=FILE")
    return tuple(found)


def _stem(name: str) -> str:
    """The name of a file without the ending of ROOT or Parquet files."""
    ending = next((one for one in (ROOT_ENDING, *PARQUET_ENDINGS) if name.lower().endswith(one)), "")
    return name[: len(name) - len(ending)]


def _location(given: object) -> str:
    if not isinstance(given, str | os.PathLike) or not os.fspath(given):
        raise DatasetError(f"the companion {given!r} is no file", hint='write it like "Kinematics.root"')
    return str(os.fspath(given))


def _named(text: str) -> Companion:
    name, separator, location = text.partition("=")
    if separator and name and "/" not in name:
        return Companion(name, _location(location))
    path, _ = split_location(text)
    return Companion(_stem(os.path.basename(path)).replace(STEM, "").strip("_-."), text)
