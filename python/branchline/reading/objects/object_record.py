"""Record: an object of any class as a mapping of its members, and its conversion to more specific types.

Classes register a converter (``register``, ``made``); converted objects that keep their record inherit from
``Recorded``.

The engine delivers values as columns (`branchline._core.Column`), which become numbers, strings, NumPy arrays, lists,
tuples and records. Conversion is lazy: a list of ten thousand histograms costs nothing until one of them is accessed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, ValuesView
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchline._core import Column, StoredObject
from branchline.errors import NoSuchKeyError, NotHereError, UnsupportedBranchError

# A value of an object in a file. Arrays and other values that are not scalars, strings or objects are columns with one
# element.
StoredValue = int | float | str | StoredObject | Column
# The names of a record's members, or a mapping that also has the values of scalar and string members.
Names = Collection[str] | Mapping[str, Any]
# Creates a record from its class name, the names of its members, and a function that returns the value of a member.
MakeRecord = Callable[[str, Names, Callable[[str], Any]], Any]
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

    def __init__(self, classname: str, names: Names, value_of: Callable[[str], Any], origin: Origin) -> None:
        # Unlike a set, a dictionary keeps the order of the names.
        self._names = dict.fromkeys(names)
        self._members = names if isinstance(names, Mapping) else None
        self._value_of = value_of
        self._lineage: list[str] | None = None
        self.classname = classname
        self.origin = origin
        self.refusal: str | None = None
        self.unread: str | None = None
        if UNREAD in self._names:
            del self._names[UNREAD]
            self.unread = value_of(UNREAD)

    @property
    def lineage(self) -> list[str]:
        """The class name, followed by the names of its base classes."""
        if self._lineage is None:
            self._lineage = self.origin.lineage(self.classname)
        return self._lineage

    def raw(self, name: str) -> Any:
        """A member, without converting records. Raises NoSuchKeyError, UnsupportedBranchError."""
        if name in self._names:
            return self._value_of(name)
        if self.unread is not None:
            what = f"an object of class {self.classname} in {self.origin.place} cannot be read: {self.unread}"
            raise UnsupportedBranchError(what, path=self.origin.file_path)
        what = f"this {self.classname} has no member {name!r}"
        raise NoSuchKeyError(what, path=self.origin.file_path, hint=f"its members are {', '.join(self) or 'none'}")

    def singles(self) -> dict[str, int | float | str]:
        """The scalar and string members."""
        members = self._members if self._members is not None else {name: self._value_of(name) for name in self._names}
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

    def make(classname: str, names: Names, value_of: Callable[[str], object]) -> Record:
        return Record(classname, names, value_of, inside)

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


@contextmanager
def hist_is_needed() -> Iterator[None]:
    """Context manager for imports of hist and boost-histogram. Raises NotHereError if they are not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name not in ("hist", "boost_histogram", "uhi"):
            raise
        hint = "pip install 'branchline[histograms]', or read the stored members with file.record(name)"
        raise NotHereError(f"histograms need the package {error.name}, which is not installed", hint=hint) from error


def value_of(stored: StoredValue, make_record: MakeRecord) -> Any:
    """Convert a stored value. Records are created with ``make_record``."""
    if isinstance(stored, int | float | str):
        return stored
    if isinstance(stored, StoredObject):
        members = stored.members
        return make_record(stored.class_name, members, lambda name: value_of(members[name], make_record))
    return values_of(stored, make_record).at(0)


def values_of(column: Column, make_record: MakeRecord) -> Values:
    """The values of a column. Records are created with ``make_record``."""
    match column:
        case Column.Flat(_, values):
            return _Numbers(values)
        case Column.Regular(size, content):
            return _Arrays(size, values_of(content, make_record))
        case Column.List(offsets, Column.Tuple([keys, values], _)):
            return _Maps(offsets, values_of(keys, make_record), values_of(values, make_record))
        case Column.List(offsets, content):
            return _Lists(offsets, values_of(content, make_record))
        case Column.Text(offsets, letters):
            return _Texts(offsets, letters)
        case Column.Option(valid, content):
            return _Options(valid, values_of(content, make_record))
        case Column.Union(tags, contents):
            return _Unions(tags, [values_of(one, make_record) for one in contents])
        case Column.Tuple(contents, _):
            return _Tuples([values_of(one, make_record) for one in contents])
        case Column.Record():
            return _Records(column, make_record)
    raise TypeError(f"{type(column).__name__} is not a column")


class Values(ABC):
    """The values of a column by position."""

    @abstractmethod
    def at(self, index: int) -> object:
        """Return a single value."""

    def between(self, start: int, stop: int) -> object:
        """Return several values: a NumPy array for numbers, else a list."""
        return [self.at(index) for index in range(start, stop)]


class _Numbers(Values):
    def __init__(self, numbers: NDArray[np.generic]) -> None:
        self.numbers = numbers

    def at(self, index: int) -> object:
        return self.numbers[index].item()

    def between(self, start: int, stop: int) -> object:
        return self.numbers[start:stop]


class _Arrays(Values):
    """Fixed-size arrays."""

    def __init__(self, size: int, content: Values) -> None:
        self._size = size
        self._content = content

    def at(self, index: int) -> object:
        return self._content.between(index * self._size, (index + 1) * self._size)

    def between(self, start: int, stop: int) -> object:
        values = self._content.between(start * self._size, stop * self._size)
        if isinstance(values, np.ndarray):
            return values.reshape((stop - start, self._size, *values.shape[1:]))
        return super().between(start, stop)


class _Lists(Values):
    def __init__(self, offsets: NDArray[np.int64], content: Values) -> None:
        self._offsets = offsets
        self._content = content

    def at(self, index: int) -> object:
        return self._content.between(int(self._offsets[index]), int(self._offsets[index + 1]))


class StoredMap(Mapping[object, object]):
    """The pairs of a ``std::map`` or ``std::multimap``, in file order.

    ``map[key]`` returns the first value with this key, or raises KeyError.
    """

    def __init__(self, pairs: list[tuple[object, object]]) -> None:
        self._pairs = pairs

    def __getitem__(self, key: object) -> Any:
        for known, value in self._pairs:
            if known == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[object]:
        return (key for key, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def items(self) -> ItemsView[object, object]:
        return _StoredItems(self)

    def values(self) -> ValuesView[object]:
        return _StoredValues(self)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {value!r}' for key, value in self._pairs)}}}"


class _StoredItems(ItemsView[object, object]):
    """The pairs of a StoredMap, including duplicate keys of a ``std::multimap``."""

    _mapping: StoredMap

    def __iter__(self) -> Iterator[tuple[object, object]]:
        return iter(self._mapping._pairs)


class _StoredValues(ValuesView[object]):
    """The values of a StoredMap, including values with duplicate keys."""

    _mapping: StoredMap

    def __iter__(self) -> Iterator[object]:
        return (value for _, value in self._mapping._pairs)


class _Maps(Values):
    def __init__(self, offsets: NDArray[np.int64], keys: Values, values: Values) -> None:
        self._offsets = offsets
        self._keys = keys
        self._values = values

    def at(self, index: int) -> StoredMap:
        between = range(int(self._offsets[index]), int(self._offsets[index + 1]))
        return StoredMap([(self._keys.at(place), self._values.at(place)) for place in between])


class _Texts(Values):
    def __init__(self, offsets: NDArray[np.int64], letters: NDArray[np.uint8]) -> None:
        self._offsets = offsets
        self._letters = letters

    def at(self, index: int) -> str:
        return self._letters[self._offsets[index] : self._offsets[index + 1]].tobytes().decode(errors="replace")


class _Options(Values):
    """Nullable values."""

    def __init__(self, valid: NDArray[np.uint8], content: Values) -> None:
        self._valid = valid
        self._places = np.cumsum(self._valid, dtype="i8") - 1
        self._content = content

    def at(self, index: int) -> object:
        return self._content.at(int(self._places[index])) if self._valid[index] else None


class _Unions(Values):
    """Values of several types; the tags select the type of each value."""

    def __init__(self, tags: NDArray[np.uint8], contents: list[Values]) -> None:
        self._tags = tags
        self._places = np.empty(len(self._tags), dtype="i8")
        for tag in range(len(contents)):
            of_tag = self._tags == tag
            self._places[of_tag] = np.arange(np.count_nonzero(of_tag))
        self._contents = contents

    def at(self, index: int) -> object:
        return self._contents[self._tags[index]].at(int(self._places[index]))


class _Tuples(Values):
    def __init__(self, items: list[Values]) -> None:
        self._items = items

    def at(self, index: int) -> object:
        return tuple(item.at(index) for item in self._items)


class _Records(Values):
    """Records, whose members are converted on access, since most members are never accessed."""

    def __init__(self, column: Column.Record, make_record: MakeRecord) -> None:
        self._class_name = column.class_name or ""
        self._columns = dict(zip(column.names, column.contents, strict=True))
        self._members: dict[str, Values] = {}
        self._make_record = make_record

    def at(self, index: int) -> object:
        return self._make_record(self._class_name, list(self._columns), partial(self._member, index))

    def _member(self, index: int, name: str) -> object:
        values = self._members.get(name)
        if values is None:
            values = self._members[name] = values_of(self._columns[name], self._make_record)
        return values.at(index)


def refused(record: Record, why: str) -> UnsupportedBranchError:
    """The error for an object that hist cannot represent."""
    what = f"{record.origin.place} is a {record.classname} that hist cannot represent: {why}"
    return UnsupportedBranchError(what, path=record.origin.file_path)
