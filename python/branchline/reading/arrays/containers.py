"""Entries of NumPy arrays of objects: what is in a vector, a set, a map or an object, under the names of uproot.

They are Python's own list, set and dict, so that whatever takes these takes them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

Make = Callable[[Any], Any]

_SETS = frozenset({"set", "multiset", "unordered_set", "unordered_multiset"})
_MAPS = frozenset({"map", "unordered_map"})
_WORDS = re.compile(r"[<>,]|[^<>,]+")


class Elements(list[Any]):
    """The elements of a vector or of another list."""

    def tolist(self) -> list[Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return [_plain(one) for one in self]


class SetOfElements(set[Any]):
    """The elements of a set."""

    def tolist(self) -> set[Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return {_plain(one) for one in self}


class Mapped(dict[Any, Any]):
    """A map: values by their keys."""

    def tolist(self) -> dict[Any, Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return {_plain(key): _plain(value) for key, value in self.items()}


class Members(dict[Any, Any]):
    """An object: the values of its members by their names, also as ``object.name``."""

    @property
    def members(self) -> Mapping[str, Any]:
        """Its members, under uproot's name."""
        return dict(self)

    all_members = members

    def member(self, name: str) -> Any:
        """A member, under uproot's name. Raises KeyError."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether it has a member, under uproot's name."""
        return name in self

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"this object has no member {name!r}; it has {', '.join(self)}")

    def tolist(self) -> dict[Any, Any]:
        """The same in lists, sets and dicts without names of uproot."""
        return {name: _plain(value) for name, value in self.items()}


class MemberRow(np.record):  # type: ignore[misc] # NumPy lets others inherit from it, its stub does not
    """An element of a structured array: its members by index, and under uproot's names."""

    def member(self, name: str) -> Any:
        """A member, under uproot's name. Raises ValueError."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether it has a member, under uproot's name."""
        return name in (self.dtype.names or ())


def _plain(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value


def maker_of(typename: str) -> Make:
    """What makes an entry of a branch of this C++ type out of lists, tuples and dicts of Python."""
    words = [word.strip() for word in _WORDS.findall(typename.replace("std::", ""))]
    return _maker(_parsed([word for word in words if word]))


# A type: its name and its arguments.
_Type = tuple[str, list[Any]]


def _parsed(words: list[str]) -> _Type:
    """The first type of these words, which are taken from them."""
    name = words.pop(0) if words else ""
    arguments: list[_Type] = []
    while words and words[0] in "<,":
        if words[0] == "," and not arguments:
            break
        words.pop(0)
        arguments.append(_parsed(words))
    if arguments and words and words[0] == ">":
        words.pop(0)
    return name, arguments


def _maker(kind: _Type) -> Make:
    name, arguments = kind
    if name in _SETS and arguments:
        return _sets(_maker(arguments[0]))
    if name in _MAPS and len(arguments) > 1:
        return _maps(_maker(arguments[0]), _maker(arguments[1]))
    if arguments:
        return _lists(_maker(arguments[0]))
    return named


def named(value: Any) -> Any:
    """A value of any type, with the names of uproot."""
    if isinstance(value, dict):
        return Members({name: named(member) for name, member in value.items()})
    if isinstance(value, list):
        return Elements(map(named, value))
    return tuple(map(named, value)) if isinstance(value, tuple) else value


def _lists(make: Make) -> Make:
    return lambda value: Elements(map(make, value)) if isinstance(value, list) else named(value)


def _sets(make: Make) -> Make:
    def made(value: Any) -> Any:
        elements = Elements(map(make, value)) if isinstance(value, list) else named(value)
        try:
            unique = SetOfElements(elements)
        except TypeError:  # elements that Python's sets cannot hold
            return elements
        # A multiset may hold an element twice.
        return unique if len(unique) == len(elements) else elements

    return made


def _maps(key: Make, value: Make) -> Make:
    def made(pairs: Any) -> Any:
        if not isinstance(pairs, list) or any(len(pair) != 2 for pair in pairs):
            return named(pairs)
        two = [tuple(pair.values()) if isinstance(pair, dict) else tuple(pair) for pair in pairs]
        try:
            return Mapped({key(one): value(other) for one, other in two})
        except TypeError:  # keys that Python's dicts cannot hold
            return Elements((key(one), value(other)) for one, other in two)

    return made
