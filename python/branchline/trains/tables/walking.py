"""Finds the tables in what a wagon returned: in dicts and tuples, under their keys."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, MutableMapping
from typing import Any

from branchline.errors import TableError

Key = tuple[str, ...]


def replaced(output: Any, kind: type, by: Callable[[Key, Any], Any], key: Key = ()) -> Any:
    """The output with each object of a class in it replaced; the output itself where there is none.

    Raises TableError for one in a list: lists are put one behind the other, which has no place for a table.
    """
    if isinstance(output, kind):
        return by(key, output)
    if isinstance(output, Mapping):
        changed = {}
        for name, value in output.items():
            new = replaced(value, kind, by, (*key, str(name)))
            if new is not value:
                changed[name] = new
        if not changed:
            return output
        made = copy.copy(output) if isinstance(output, MutableMapping) else dict(output)
        for name, value in changed.items():
            made[name] = value
        return made
    if isinstance(output, tuple):
        values = [replaced(value, kind, by, (*key, str(index))) for index, value in enumerate(output)]
        if all(new is old for new, old in zip(values, output, strict=True)):
            return output
        return type(output)(*values) if hasattr(output, "_fields") else tuple(values)
    if isinstance(output, list) and any(isinstance(one, kind) for one in output):
        raise TableError("a table is in a list", hint="return it under a key of a dict")
    return output


def found(output: Any, kind: type) -> list[tuple[Key, Any]]:
    """The objects of a class in an output, with their keys."""
    every: list[tuple[Key, Any]] = []

    def note(key: Key, value: Any) -> Any:
        every.append((key, value))
        return value

    replaced(output, kind, note)
    return every
