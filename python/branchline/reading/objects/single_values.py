"""Objects that hold one value: a TParameter, a TDatime."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from branchline.reading.objects.object_record import Record


class _OneValue(Record):
    """A record that has a value besides its members."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.classname, list(record), record.raw, record.origin)

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments = super().__reduce__()
        return _made_again, (type(self), make(*arguments))


def _made_again(kind: type[_OneValue], record: Record) -> _OneValue:
    return kind(record)


class Parameter(_OneValue):
    """A TParameter: a number with a name. ``value`` is the number; ``int``, ``float`` and ``bool`` take it.

    >>> int(file["events/nbevents"])
    500
    """

    @property
    def value(self) -> Any:
        """The number."""
        return self.raw("fVal")

    def __bool__(self) -> bool:
        return bool(self.value)

    def __int__(self) -> int:
        return int(self.value)

    def __float__(self) -> float:
        return float(self.value)

    def __index__(self) -> int:
        if isinstance(self.value, int):
            return self.value
        raise TypeError(f"this {self.classname} holds {self.value!r}, which is no whole number")


class Time(_OneValue):
    """A TDatime: a date and a time of day, in the clock of whoever wrote it."""

    def to_datetime(self) -> datetime:
        """The same as a datetime of Python, without a time zone. Raises ValueError for a date that does not exist.

        The bits are those of TDatime::Set: years from 1995 in 6 bits, month, day, hour, minute, second.
        """
        packed = int(self.raw("fDatime"))
        year, month, day = (packed >> 26 & 63) + 1995, packed >> 22 & 15, packed >> 17 & 31
        return datetime(year, month, day, packed >> 12 & 31, packed >> 6 & 63, packed & 63)
