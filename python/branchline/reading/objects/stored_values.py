"""Values of an object as the engine delivers them, converted to Python's types.

Columns (`branchline._core.Column`) become numbers, strings, NumPy arrays, lists, tuples, maps and records. A function
of the caller creates the records. The members of a record are converted when they are accessed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, ValuesView
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchline._core import Column, StoredObject

# A value of an object in a file. Arrays and other values that are not scalars, strings or objects are columns with one
# element.
StoredValue = int | float | str | StoredObject | Column
# The names of a record's members, or a mapping that also has the values of scalar and string members.
Names = Collection[str] | Mapping[str, Any]
# Creates a record from its class name, the names of its members, and a function that returns the value of a member.
MakeRecord = Callable[[str, Names, Callable[[str], Any]], Any]


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
