"""Converters for objects of ROOT's classes: histograms, graphs, lists, maps, numbers, strings. Objects of other classes
stay records.

Histogram modules are imported on first use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, overload

from branchline.errors import NoSuchKeyError
from branchline.reading.objects.graph import MultiGraph, graph_of
from branchline.reading.objects.histogram_errors import hist_is_needed
from branchline.reading.objects.object_record import Record, made, register

# Classes that stay records although they inherit from a registered class, because their content differs.
STAY_RECORDS = ("TH1K", "TH2Poly", "TProfile2Poly", "TGraphMultiErrors", "TGraphQQ")
# Value types of TParameter, as spelled in files.
PARAMETERS = (
    "bool",
    "int",
    "Int_t",
    "long",
    "Long_t",
    "Long64_t",
    "long long",
    "float",
    "Float_t",
    "double",
    "Double_t",
)
# Classes that are converted to ObjectList.
LISTS = ("TList", "THashList", "TSortedList", "TObjArray")


def register_all() -> None:
    """Register the converters of all supported classes."""
    for name in STAY_RECORDS:
        register(name, _itself)
    for dimensions, name in enumerate(("TProfile", "TProfile2D", "TProfile3D"), start=1):
        register(name, partial(_profile, dimensions=dimensions))
    for dimensions, name in enumerate(("TH1", "TH2", "TH3"), start=1):
        register(name, partial(_counts, dimensions=dimensions))
    register("THnSparse", _sparse)
    register("THn", _dense)
    register("TEfficiency", _efficiency)
    register("TGraph", graph_of)
    register("TGraph2D", graph_of)
    register("TMultiGraph", MultiGraph)
    for content in PARAMETERS:
        register(f"TParameter<{content}>", Parameter)
    register("TDatime", Time)
    register("TMap", ObjectMap)
    register("TObjString", _text)
    for name in LISTS:
        register(name, ObjectList)


def _itself(record: Record) -> Record:
    return record


def _counts(record: Record, dimensions: int) -> object:
    with hist_is_needed():
        from branchline.reading.objects.bins import histogram_of
    return histogram_of(record, dimensions)


def _profile(record: Record, dimensions: int) -> object:
    with hist_is_needed():
        from branchline.reading.objects.bins import profile_of
    return profile_of(record, dimensions)


def _sparse(record: Record) -> object:
    with hist_is_needed():
        from branchline.reading.objects.sparse import sparse_of
    return sparse_of(record)


def _dense(record: Record) -> object:
    with hist_is_needed():
        from branchline.reading.objects.sparse import dense_of
    return dense_of(record)


def _efficiency(record: Record) -> object:
    with hist_is_needed():
        from branchline.reading.objects.efficiency import Efficiency
    return Efficiency(record)


def _text(record: Record) -> str:
    text: str = record.raw("fString")
    return text


class ObjectList(Sequence[Any]):
    """A list of objects, by position, ``objects[0]``, or by name, ``objects["hPt"]``, converted on access.

    If several objects have the same name the first one is returned, as by ROOT's FindObject. None marks an empty slot.
    Raises NoSuchKeyError for an unknown name, IndexError for a position out of range.

        >>> file["list"].names()
        ['hPt', 'hEta']
        >>> file["list"]["hPt"].values()
    """

    def __init__(self, record: Record) -> None:
        self.name: str = record.raw("fName")
        self.classname = record.classname
        self._origin = record.origin
        self._records: list[Any] = record.raw("objects")

    @overload
    def __getitem__(self, where: int | str) -> Any: ...
    @overload
    def __getitem__(self, where: slice) -> list[Any]: ...
    def __getitem__(self, where: int | str | slice) -> Any:
        if isinstance(where, str):
            return made(self._found(where))
        chosen = self._records[where]
        return [made(one) for one in chosen] if isinstance(where, slice) else made(chosen)

    def _found(self, name: str) -> object:
        for record in self._records:
            if name_of(record) == name:
                return record
        names = ", ".join(self.names()[:20])
        what = f"the {self.classname} in {self._origin.place} has no object {name!r}"
        raise NoSuchKeyError(what, path=self._origin.file_path, hint=f"it contains {names or 'no named objects'}")

    def names(self) -> list[str]:
        """Names of the objects, or the class name in angle brackets for an object without a name."""
        return [name_of(one) or f"<{one.classname if isinstance(one, Record) else one}>" for one in self._records]

    def keys(self) -> list[str]:
        """Names of the objects, like `keys` of a directory."""
        return self.names()

    def __contains__(self, name: object) -> bool:
        return any(name_of(record) == name for record in self._records)

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Any]:
        return (self[index] for index in range(len(self)))

    def __repr__(self) -> str:
        shown = "".join(f"\n  {name}" for name in self.names()[:20])
        more = f"\n  and {len(self) - 20} more" if len(self) > 20 else ""
        return f"<{self.classname} {self.name!r} of {len(self)} objects{shown}{more}>"


class ObjectMap(Mapping[str, Any]):
    """The objects of a TMap by the names of their keys, ``objects["year"]``, converted on access. Maps are compared by
    identity, because their values may be arrays.

    If several keys have the same name the first one counts, as in ROOT's FindObject; keys without names are only in
    ``pairs``. Raises NoSuchKeyError for an unknown name.

        >>> dict(file["settings"])
        {'year': '2018', 'generator': 'powheg'}
    """

    def __init__(self, record: Record) -> None:
        self._record = record
        self.name: str = record.raw("fName")
        self.classname = record.classname
        self._pairs: list[tuple[Any, Any]] = [*record.raw("objects").items()]
        self._values: dict[str, object] = {}
        for key, value in self._pairs:
            if name := name_of(key):
                self._values.setdefault(name, value)

    def pairs(self) -> list[tuple[Any, Any]]:
        """All pairs of key object and value, in file order."""
        return [(made(key), made(value)) for key, value in self._pairs]

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return made(self._values[name])
        origin = self._record.origin
        what = f"the {self.classname} in {origin.place} has no key {name!r}"
        raise NoSuchKeyError(
            what, path=origin.file_path, hint=f"its keys are {', '.join([*self][:20]) or 'all unnamed'}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    __eq__ = object.__eq__
    __hash__ = object.__hash__

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = "".join(f"\n  {name}" for name in [*self][:20])
        more = f"\n  and {len(self) - 20} more" if len(self) > 20 else ""
        return f"<{self.classname} {self.name!r} of {len(self._pairs)} pairs{shown}{more}>"

    def __reduce__(self) -> tuple[object, ...]:
        return ObjectMap, (self._record,)


def name_of(record: object) -> str:
    """The name of an object; empty if the object has no name."""
    if not isinstance(record, Record):
        return ""
    for member in ("fName", "fString"):
        if member in record:
            return str(record.raw(member))
    return ""


class _OneValue(Record):
    """A record that represents a single value."""

    def __init__(self, record: Record) -> None:
        super().__init__(record.classname, list(record), record.raw, record.origin)

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        make, arguments = super().__reduce__()
        return _unpickled, (type(self), make(*arguments))


def _unpickled(kind: type[_OneValue], record: Record) -> _OneValue:
    return kind(record)


class Parameter(_OneValue):
    """A TParameter: a named number. Supports ``int``, ``float`` and ``bool``; ``value`` is the number.

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
        raise TypeError(f"this {self.classname} holds {self.value!r}, which is not an integer")


class Time(_OneValue):
    """A TDatime: a date and time of day, in the local time of the writer."""

    def to_datetime(self) -> datetime:
        """Convert to a datetime without a time zone. Raises ValueError for a date that does not exist.

        Bit layout of TDatime::Set: years since 1995 in 6 bits, then month, day, hour, minute, second.
        """
        packed = int(self.raw("fDatime"))
        year, month, day = (packed >> 26 & 63) + 1995, packed >> 22 & 15, packed >> 17 & 31
        return datetime(year, month, day, packed >> 12 & 31, packed >> 6 & 63, packed & 63)
