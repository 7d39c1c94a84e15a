"""Values of Python out of the columns of an object: numbers, texts, arrays of NumPy, lists, tuples and records.

Columns come from the engine (`branchline._core.Column`). Values are made one by one and only when they are used: a list
of ten thousand histograms costs nothing until one of them is wanted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, ItemsView, Iterator, Mapping, ValuesView
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from branchline._core import Column, StoredObject

# A value of an object of a file: a column has one value, which is neither a single number or text nor an object.
StoredValue = int | float | str | StoredObject | Column
# The names of the members of a record; or a mapping that also has the values of those that are single numbers or texts.
Names = Collection[str] | Mapping[str, Any]
# Makes the record of a class from the names of its members and a function that returns the value of one of them.
MakeRecord = Callable[[str, Names, Callable[[str], Any]], Any]


class Values(ABC):
    """The values of a column by their positions."""

    @abstractmethod
    def at(self, index: int) -> Any:
        """One value."""

    def between(self, start: int, stop: int) -> Any:
        """Several values: an array of NumPy if they are numbers, else a list."""
        return [self.at(index) for index in range(start, stop)]


def value_of(stored: StoredValue, make_record: MakeRecord) -> Any:
    """A value of an object of a file. Records are made by ``make_record``."""
    if isinstance(stored, int | float | str):
        return stored
    if isinstance(stored, StoredObject):
        members = stored.members
        return make_record(stored.class_name, members, lambda name: value_of(members[name], make_record))
    return values_of(stored, make_record).at(0)


def values_of(column: Column, make_record: MakeRecord) -> Values:
    """The values of a column. Records are made by ``make_record``."""
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
    raise TypeError(f"{type(column).__name__} is no column")


class _Numbers(Values):
    def __init__(self, numbers: NDArray[Any]) -> None:
        self.numbers = numbers

    def at(self, index: int) -> Any:
        return self.numbers[index].item()

    def between(self, start: int, stop: int) -> Any:
        return self.numbers[start:stop]


class _Arrays(Values):
    """Arrays of one size."""

    def __init__(self, size: int, content: Values) -> None:
        self._size = size
        self._content = content

    def at(self, index: int) -> Any:
        return self._content.between(index * self._size, (index + 1) * self._size)

    def between(self, start: int, stop: int) -> Any:
        values = self._content.between(start * self._size, stop * self._size)
        if isinstance(values, np.ndarray):
            return values.reshape((stop - start, self._size, *values.shape[1:]))
        return super().between(start, stop)


class _Lists(Values):
    def __init__(self, offsets: NDArray[np.int64], content: Values) -> None:
        self._offsets = offsets
        self._content = content

    def at(self, index: int) -> Any:
        return self._content.between(int(self._offsets[index]), int(self._offsets[index + 1]))


class StoredMap(Mapping[Any, Any]):
    """The keys and values of a ``std::map`` or ``std::multimap``, in the order of the file.

    ``map[key]`` is the value of the first such key, and raises KeyError if there is none.
    """

    def __init__(self, pairs: list[tuple[Any, Any]]) -> None:
        self._pairs = pairs

    def __getitem__(self, key: Any) -> Any:
        for known, value in self._pairs:
            if known == key:
                return value
        raise KeyError(key)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._pairs)

    def __len__(self) -> int:
        return len(self._pairs)

    def items(self) -> ItemsView[Any, Any]:
        return _StoredItems(self)

    def values(self) -> ValuesView[Any]:
        return _StoredValues(self)

    def __repr__(self) -> str:
        return f"{{{', '.join(f'{key!r}: {value!r}' for key, value in self._pairs)}}}"


# A std::multimap has several values of a key.


class _StoredItems(ItemsView[Any, Any]):
    _mapping: StoredMap

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return iter(self._mapping._pairs)


class _StoredValues(ValuesView[Any]):
    _mapping: StoredMap

    def __iter__(self) -> Iterator[Any]:
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
    """Values of which some are missing."""

    def __init__(self, valid: NDArray[np.uint8], content: Values) -> None:
        self._valid = valid
        self._places = np.cumsum(self._valid, dtype="i8") - 1
        self._content = content

    def at(self, index: int) -> Any:
        return self._content.at(int(self._places[index])) if self._valid[index] else None


class _Unions(Values):
    """Values of several kinds: each value has the number of its kind."""

    def __init__(self, tags: NDArray[np.uint8], contents: list[Values]) -> None:
        self._tags = tags
        self._places = np.empty(len(self._tags), dtype="i8")
        for tag in range(len(contents)):
            of_tag = self._tags == tag
            self._places[of_tag] = np.arange(np.count_nonzero(of_tag))
        self._contents = contents

    def at(self, index: int) -> Any:
        return self._contents[self._tags[index]].at(int(self._places[index]))


class _Tuples(Values):
    def __init__(self, items: list[Values]) -> None:
        self._items = items

    def at(self, index: int) -> Any:
        return tuple(item.at(index) for item in self._items)


class _Records(Values):
    """Records, whose members become values when they are first used: most are never asked for."""

    def __init__(self, column: Column.Record, make_record: MakeRecord) -> None:
        self._class_name = column.class_name or ""
        self._columns = dict(zip(column.names, column.contents, strict=True))
        self._members: dict[str, Values] = {}
        self._make_record = make_record

    def at(self, index: int) -> Any:
        return self._make_record(self._class_name, list(self._columns), partial(self._member, index))

    def _member(self, index: int, name: str) -> Any:
        values = self._members.get(name)
        if values is None:
            values = self._members[name] = values_of(self._columns[name], self._make_record)
        return values.at(index)
