"""The reads of followed programs, as columns: a long job has too many of them for objects in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from branchline.tracing.trace import Codes, Numbers

_NUMBERS = ("thread", "process", "descriptor", "offset", "size_bytes", "got_bytes", "begin_ns", "end_ns")
_TEXTS = ("name", "path", "error")


@dataclass(frozen=True)
class Read:
    """A call that read from a file, or mapped it into memory. ``offset`` is None where it is not known."""

    thread: int
    process: int
    name: str
    path: str
    descriptor: int
    offset: int | None
    size_bytes: int
    got_bytes: int
    begin_ns: int
    end_ns: int
    error: str | None


class Reads:
    """Any number of reads, 76 bytes each."""

    def __init__(self) -> None:
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._codes = {name: array("i") for name in _TEXTS}
        self._texts: dict[str, dict[str, int]] = {name: {} for name in _TEXTS}

    def __len__(self) -> int:
        return len(self._codes["name"])

    def __iter__(self) -> Iterator[Read]:
        texts = {name: [*known, None] for name, known in self._texts.items()}
        for number in range(len(self)):
            numbers = {name: column[number] for name, column in self._numbers.items()}
            offset = numbers.pop("offset")
            words = {name: texts[name][column[number]] for name, column in self._codes.items()}
            yield Read(offset=None if offset < 0 else offset, **numbers, **words)  # type: ignore[arg-type]

    def add(self, read: Read) -> None:
        """Adds a read at the end."""
        for name, column in self._numbers.items():
            value = getattr(read, name)
            column.append(-1 if value is None else value)
        for name, column in self._codes.items():
            text = getattr(read, name)
            known = self._texts[name]
            column.append(-1 if text is None else known.setdefault(text, len(known)))

    def sort(self) -> None:
        """Puts them in the order in which they began."""
        order = np.argsort(self.column("begin_ns"), kind="stable")
        for columns, code in ((self._numbers, "i8"), (self._codes, "i4")):
            for name, column in columns.items():
                columns[name] = array(column.typecode, np.frombuffer(column, code)[order].tobytes())

    def column(self, name: str) -> Numbers:
        """One of the numbers of all reads; -1 where an offset is not known."""
        return np.frombuffer(self._numbers[name], "i8")

    def codes(self, name: str) -> Codes:
        """One of the texts of all reads."""
        return Codes(np.frombuffer(self._codes[name], "i4"), list(self._texts[name]))

    def paths(self) -> set[str]:
        """The files that were read."""
        found = self.codes("path")
        return {found.texts[number] for number in np.unique(found.indices)}
