"""Values of Python out of the columns of an object: numbers, texts, arrays of NumPy, lists, tuples and records.

A column is what the engine gives, a nested tuple of buffers (`branchline.tree.arrays` describes it). Values are made
one by one and only when they are used: a list of ten thousand histograms costs nothing until one of them is wanted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

# Makes the record of a class from its members' names and columns, and the position of its values in these.
MakeRecord = Callable[[str, list[str], "list[Values]", int], Any]


class Values(ABC):
    """The values of a column by their positions."""

    @abstractmethod
    def at(self, index: int) -> Any:
        """One value."""

    def between(self, start: int, stop: int) -> Any:
        """Several values: an array of NumPy if they are numbers, else a list."""
        return [self.at(index) for index in range(start, stop)]


def values_of(column: Any, make_record: MakeRecord) -> Values:
    """The values of a column. Records are made by ``make_record``."""
    kind = column[0]
    if kind == "flat":
        return _Numbers(column)
    if kind == "regular":
        return _Arrays(column[1], values_of(column[2], make_record))
    if kind == "list":
        return _Lists(column[1], values_of(column[2], make_record))
    if kind == "text":
        return _Texts(column)
    if kind == "option":
        return _Options(column[1], values_of(column[2], make_record))
    if kind == "union":
        return _Unions(column[1], [values_of(one, make_record) for one in column[2]])
    if kind == "tuple":
        return _Tuples([values_of(one, make_record) for one in column[1]])
    _, names, contents, _, class_name = column
    return _Records(class_name or "", list(names), [values_of(one, make_record) for one in contents], make_record)


class _Numbers(Values):
    def __init__(self, column: Any) -> None:
        dtype = "u1" if column[1] == "unknown" else column[1]
        self.numbers = np.frombuffer(column[2], dtype=dtype)

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
    def __init__(self, offsets: Any, content: Values) -> None:
        self._offsets = np.frombuffer(offsets, dtype="i8")
        self._content = content

    def at(self, index: int) -> Any:
        return self._content.between(int(self._offsets[index]), int(self._offsets[index + 1]))


class _Texts(Values):
    def __init__(self, column: Any) -> None:
        self._offsets = np.frombuffer(column[1], dtype="i8")
        self._letters = memoryview(column[2])

    def at(self, index: int) -> str:
        return bytes(self._letters[self._offsets[index] : self._offsets[index + 1]]).decode(errors="replace")


class _Options(Values):
    """Values of which some are not there."""

    def __init__(self, valid: Any, content: Values) -> None:
        self._valid = np.frombuffer(valid, dtype="u1")
        self._places = np.cumsum(self._valid, dtype="i8") - 1
        self._content = content

    def at(self, index: int) -> Any:
        return self._content.at(int(self._places[index])) if self._valid[index] else None


class _Unions(Values):
    """Values of several kinds by turns."""

    def __init__(self, tags: Any, contents: list[Values]) -> None:
        self._tags = np.frombuffer(tags, dtype="u1")
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
    def __init__(self, class_name: str, names: list[str], contents: list[Values], make_record: MakeRecord) -> None:
        self._facts = (class_name, names, contents)
        self._make_record = make_record

    def at(self, index: int) -> Any:
        return self._make_record(*self._facts, index)
