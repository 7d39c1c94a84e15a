"""Other arrays for some columns of a chunk, which are found by each name that leads to these columns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import awkward as ak

from branchline.errors import NoSuchKeyError, WagonError
from branchline.reading.arrays.nesting import Group
from branchline.reading.trees.stream import Chunk

#: The column that varied events have their weights in.
WEIGHT = "weight"


class VariedColumns:
    """Arrays of all events of a chunk, by the paths of branches and the names of groups."""

    def __init__(self, chunk: Chunk, arrays: Mapping[str, Any] | None = None) -> None:
        self._chunk = chunk
        self._arrays = dict(arrays or {})

    def array(self, name: str, original: Callable[[str], ak.Array]) -> Any:
        """The array for a branch or a group. Raises NoSuchKeyError. ``original`` gives what the file has."""
        if name in self._arrays:
            return self._arrays[name]
        key, parts = self._parts(name)
        if key in self._arrays:
            return self._arrays[key]
        varied = {where: self._arrays[path] for where, path in parts.items() if path in self._arrays}
        whole = original(name)
        for where, array in varied.items():
            whole = ak.with_field(whole, array, list(where))
        return whole

    def with_columns(self, columns: Mapping[str, Any]) -> VariedColumns:
        """With other arrays for some columns, too. Raises NoSuchKeyError for what is not there, and WagonError."""
        varied = VariedColumns(self._chunk, self._arrays)
        for name, array in columns.items():
            length = len(array) if hasattr(array, "__len__") else 0
            if length != len(self._chunk):
                raise WagonError(
                    f"the array for the column {name!r} has {length} entries, and there are {len(self._chunk)} events",
                    hint="give one value, or one list, for each event",
                )
            varied._vary(name, array)
        return varied

    def _vary(self, name: str, array: Any) -> None:
        key, parts = (name, {}) if name == WEIGHT else self._parts(name)
        self._arrays[key] = array
        for where, path in parts.items():
            if where[0] in ak.fields(array):
                self._arrays[path] = array[where]
        group = self._chunk.shape.group(key)
        if group is not None and group.counter is not None:
            self._arrays[group.counter] = ak.num(array)
        for whole in [one for one in self._arrays if one not in (key, WEIGHT)]:
            for where, path in self._parts(whole)[1].items():
                if path == key:
                    self._arrays[whole] = ak.with_field(self._arrays[whole], array, list(where))

    def _parts(self, name: str) -> tuple[str, dict[tuple[str, ...], str]]:
        """The group or the path of the branch that a name means, and by their names the paths of what is in it.

        Raises NoSuchKeyError.
        """
        shape = self._chunk.shape
        group = shape.group(name)
        if group is not None:
            return name, dict(_members(group))
        first, *others = name.split(".")
        group = shape.group(first)
        if group is None or name in shape.outline.index_by_path:
            path = self._chunk.path_of(name)
            return path, dict(self._below(path))
        path = dict(_members(group)).get(tuple(others), "")
        if not path:
            raise NoSuchKeyError(
                f"there is no group {first!r} with a member {'.'.join(others)!r}",
                hint=f"its members are {', '.join(group.members)}",
            )
        return path, {}

    def _below(self, path: str, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
        outline = self._chunk.shape.outline
        for child in outline.children(outline.index_by_path[path]):
            where = (*above, outline.names[child])
            yield where, outline.paths[child]
            yield from self._below(outline.paths[child], where)


def _members(group: Group, above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    for name, member in group.members.items():
        if isinstance(member, Group):
            yield from _members(member, (*above, name))
        else:
            yield (*above, name), member
