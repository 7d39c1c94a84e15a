"""Record: an object of any class as a mapping of its members, and its conversion to more specific types.

Classes register a converter (``register``, ``made``); converted objects that keep their record inherit from
``Recorded``.

Conversion is lazy: a list of ten thousand histograms costs nothing until one of them is accessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from branchline.errors import NoSuchKeyError, NotHereError, UnsupportedBranchError
from branchline.reading.objects.stored_values import Names, StoredValue, value_of

# Name of a pseudo-member that holds the reason why the other members cannot be read.
UNREAD = "@unread"
SINGLE = (int, float, str)
LONGEST_SHOWN = 60
# Errors that members of unexpected types may cause, as in a damaged file.
DAMAGED = (AttributeError, LookupError, OverflowError, TypeError, ValueError, NoSuchKeyError)


@dataclass(frozen=True)
class KeyPlace:
    """The location of an object's key: file, path and cycle."""

    file_path: str
    key: str


@dataclass(frozen=True)
class Origin:
    """Where an object comes from: the file, its path, and a function that returns the lineage of a class (the class
    followed by its base classes). ``key_place`` is set if the object has its own key.
    """

    file_path: str
    place: str
    lineage: Callable[[str], list[str]]
    key_place: KeyPlace | None = None


class Record(Mapping[str, Any]):
    """An object as a mapping of its members, including those of base classes, by their C++ names: ``record["fName"]``,
    ``record.fName``.

    Values are numbers, strings, NumPy arrays, lists, and converted objects (see ``made``); ``raw`` returns objects as
    records. ``unread`` is the reason if the object has no members: the file does not describe its class, or the stored
    data does not match the description. ``refusal`` is the reason why an object could not be converted to the type that
    its class usually becomes, such as a histogram.

        >>> file.record("hist")["fEntries"]
        100.0
    """

    def __init__(self, classname: str, names: Names, member_of: Callable[[str], Any], origin: Origin) -> None:
        # Unlike a set, a dictionary keeps the order of the names.
        self._names = dict.fromkeys(names)
        self._members = names if isinstance(names, Mapping) else None
        self._member_of = member_of
        self._lineage: list[str] | None = None
        self.classname = classname
        self.origin = origin
        self.refusal: str | None = None
        self.unread: str | None = None
        if UNREAD in self._names:
            del self._names[UNREAD]
            self.unread = member_of(UNREAD)

    @property
    def lineage(self) -> list[str]:
        """The class name, followed by the names of its base classes."""
        if self._lineage is None:
            self._lineage = self.origin.lineage(self.classname)
        return self._lineage

    def raw(self, name: str) -> Any:
        """A member, without converting records. Raises NoSuchKeyError, UnsupportedBranchError."""
        if name in self._names:
            return self._member_of(name)
        if self.unread is not None:
            what = f"an object of class {self.classname} in {self.origin.place} cannot be read: {self.unread}"
            raise UnsupportedBranchError(what, path=self.origin.file_path)
        what = f"this {self.classname} has no member {name!r}"
        raise NoSuchKeyError(what, path=self.origin.file_path, hint=f"its members are {', '.join(self) or 'none'}")

    def singles(self) -> dict[str, int | float | str]:
        """The scalar and string members."""
        members = self._members if self._members is not None else {name: self._member_of(name) for name in self._names}
        return {name: value for name, value in members.items() if isinstance(value, SINGLE) and name != UNREAD}

    def __getitem__(self, name: str) -> Any:
        return made(self.raw(name))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._names:
            refusal = self.__dict__.get("refusal")
            why = f"; {refusal}" if refusal else ""
            raise AttributeError(f"this {self.__dict__.get('classname', 'record')} has no member {name!r}{why}")
        return self[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._names]

    # Members may be arrays, whose comparison has no single truth value.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def all_members(self) -> dict[str, Any]:
        """All members, for compatibility with uproot."""
        return dict(self)

    @property
    def members(self) -> Mapping[str, Any]:
        """All members, including members of base classes, which uproot omits here."""
        return dict(self)

    def member(self, name: str) -> Any:
        """Return a member by name, for compatibility with uproot."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether this member exists, for compatibility with uproot."""
        return name in self._names

    def __repr__(self) -> str:
        if self.unread is not None:
            return f"<Record {self.classname}, not readable: {self.unread}>"
        shown = "".join(f"\n  {name}: {_short(self.raw(name))}" for name in self)
        return f"<Record {self.classname}{f' ({self.refusal})' if self.refusal else ''}{shown}>"

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        values = {name: self.raw(name) for name in self} | ({} if self.unread is None else {UNREAD: self.unread})
        return _with_values, (self.classname, values, self.origin.file_path, self.origin.place, self.lineage)


def _short(value: object) -> str:
    if isinstance(value, Record):
        return f"<{value.classname}>"
    if isinstance(value, list | tuple):
        return f"{len(value)} of <{value[0].classname}>" if value and isinstance(value[0], Record) else f"{len(value)}"
    if isinstance(value, np.ndarray):
        return f"{value.size} of {value.dtype}" if value.size > 3 else str(value)
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def _with_values(classname: str, values: dict[str, Any], file_path: str, place: str, lineage: list[str]) -> Record:
    """Unpickle a record from its values."""
    origin = Origin(file_path, place, lambda name: lineage if name == classname else [name])
    return Record(classname, values, values.__getitem__, origin)


Maker = Callable[[Record], Any]
# Converters by class name. A class without a converter uses the converter of its nearest base class.
_makers: dict[str, Maker] = {}


def register(class_name: str, maker: Maker) -> None:
    """Register the converter for a class and the classes that inherit from it."""
    _makers[class_name] = maker


def made(value: object) -> Any:
    """Convert a record, or a list or tuple of records; other values are returned unchanged. A record that cannot be
    converted is returned with its ``refusal``.

    Raises NotHereError if a required package is not installed.
    """
    if isinstance(value, list | tuple):
        return type(value)(made(one) for one in value)
    if not isinstance(value, Record) or value.unread is not None:
        return value
    name = next((name for name in value.lineage if name in _makers), None)
    if name is None:
        return value
    try:
        return _makers[name](value)
    except NotHereError:
        raise
    except UnsupportedBranchError as error:
        value.refusal = error.what
    except DAMAGED as error:
        value.refusal = f"its members do not match class {name}: {error}"
    return value


def record_of(stored: StoredValue, origin: Origin) -> Any:
    """Return an object of a file as a record, container, string or number."""
    inside = Origin(origin.file_path, origin.place, origin.lineage)

    def make(classname: str, names: Names, member_of: Callable[[str], object]) -> Record:
        return Record(classname, names, member_of, inside)

    value = value_of(stored, make)
    if isinstance(value, Record):
        value.origin = origin
    return value


class Recorded:
    """A converted object with its ``record``, which is None if the object was not read from a file."""

    record: Record | None

    @property
    def members(self) -> Mapping[str, Any]:
        """All members, including members of base classes; empty if the object was not read from a file."""
        return {} if self.record is None else self.record.members

    @property
    def all_members(self) -> Mapping[str, Any]:
        """Alias of ``members``, for compatibility with uproot."""
        return self.members

    def member(self, name: str) -> Any:
        """A member such as ``fX``, for compatibility with uproot. Raises NoSuchKeyError."""
        if self.record is None:
            raise NoSuchKeyError(f"no member {name!r}", hint="only objects that were read from a file have members")
        return self.record.member(name)

    def has_member(self, name: str) -> bool:
        """Whether this member exists, for compatibility with uproot."""
        return self.record is not None and self.record.has_member(name)
