"""Record: an object of a file as its members by their names, whatever its class is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from branchline.errors import NoSuchKeyError, NotHereError, UnsupportedBranchError
from branchline.reading.objects.columns import Names, StoredValue, value_of

# In place of members that cannot be read there is a member of this name with the reason.
UNREAD = "@unread"
SINGLE = (int, float, str)
LONGEST_SHOWN = 60


@dataclass(frozen=True)
class KeyPlace:
    """The file of an object, and the path and cycle of its key there."""

    file_path: str
    key: str


@dataclass(frozen=True)
class Origin:
    """Where an object comes from: the file, its place in that, and the lineage of the file's classes: a class, and
    after it those that it inherits from. ``key_place`` is there if the object has a key of its own.
    """

    file_path: str
    place: str
    lineage: Callable[[str], list[str]]
    key_place: KeyPlace | None = None


class Record(Mapping[str, Any]):
    """An object as a mapping of its members, those of its base classes among them, by the names that its class gives
    them: ``record["fName"]``, ``record.fName``.

    Values are numbers, texts, arrays of NumPy, lists, and for members that are objects what ``made`` makes of them.
    ``raw`` gives these as records too. ``unread`` says why an object has no members: the file does not describe its
    class, or the object is not stored as described. ``refusal`` is why an object comes as a record although objects
    of its class are otherwise histograms or the like.

        >>> file.record("hist")["fEntries"]
        100.0
    """

    def __init__(self, classname: str, names: Names, value_of: Callable[[str], Any], origin: Origin) -> None:
        # A dictionary keeps the order of the names.
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
        """Its class, followed by the classes that it inherits from."""
        if self._lineage is None:
            self._lineage = self.origin.lineage(self.classname)
        return self._lineage

    def raw(self, name: str) -> Any:
        """A member, as a record if it is an object of any class. Raises NoSuchKeyError, UnsupportedBranchError."""
        if name in self._names:
            return self._value_of(name)
        raise self._no_such(name)

    def _no_such(self, name: str) -> Exception:
        if self.unread is not None:
            what = f"an object of class {self.classname} in {self.origin.place} cannot be read: {self.unread}"
            return UnsupportedBranchError(what, path=self.origin.file_path)
        what = f"this {self.classname} has no member {name!r}"
        return NoSuchKeyError(what, path=self.origin.file_path, hint=f"it has {', '.join(self) or 'none'}")

    def singles(self) -> dict[str, int | float | str]:
        """Members that are single numbers and texts."""
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

    # Members may be arrays, which cannot be compared to a single True or False.
    __eq__ = object.__eq__
    __hash__ = object.__hash__

    @property
    def all_members(self) -> dict[str, Any]:
        """All members, under uproot's name."""
        return dict(self)

    @property
    def members(self) -> Mapping[str, Any]:
        """All members, those of base classes too, which uproot leaves out under this name."""
        return dict(self)

    def member(self, name: str) -> Any:
        """A member, under uproot's name."""
        return self[name]

    def has_member(self, name: str) -> bool:
        """Whether it has a member, under uproot's name."""
        return name in self._names

    def __repr__(self) -> str:
        if self.unread is not None:
            return f"<Record {self.classname}, not read: {self.unread}>"
        shown = "".join(f"\n  {name}: {_short(self.raw(name))}" for name in self)
        return f"<Record {self.classname}{f' ({self.refusal})' if self.refusal else ''}{shown}>"

    def __reduce__(self) -> tuple[Any, ...]:
        values = {name: self.raw(name) for name in self} | ({} if self.unread is None else {UNREAD: self.unread})
        return _with_values, (self.classname, values, self.origin.file_path, self.origin.place, self.lineage)


def _short(value: Any) -> str:
    if isinstance(value, Record):
        return f"<{value.classname}>"
    if isinstance(value, list | tuple):
        return f"{len(value)} of <{value[0].classname}>" if value and isinstance(value[0], Record) else f"{len(value)}"
    if isinstance(value, np.ndarray):
        return f"{value.size} of {value.dtype}" if value.size > 3 else str(value)
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else text[: LONGEST_SHOWN - 3] + "..."


def _with_values(classname: str, values: dict[str, Any], file_path: str, place: str, lineage: list[str]) -> Record:
    """A record with its values, as it is unpickled."""
    origin = Origin(file_path, place, lambda name: lineage if name == classname else [name])
    return Record(classname, values, values.__getitem__, origin)


Maker = Callable[[Record], Any]
# What becomes of objects by the names of their classes; of a class that is not here, that of the next base class.
_makers: dict[str, Maker] = {}

# What members of other types than their class has, as in a damaged file, may raise.
DAMAGED = (AttributeError, LookupError, OverflowError, TypeError, ValueError, NoSuchKeyError)


def register(class_name: str, maker: Maker) -> None:
    """Registers the function that makes objects of a class, and of the classes that inherit from it."""
    _makers[class_name] = maker


def made(value: Any) -> Any:
    """What a record becomes, or several of them; anything else stays as it is. A record stays one, with its
    ``refusal``, if what its class becomes cannot hold it.

    Raises NotHereError where a package is needed that is not installed.
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
        value.refusal = f"its members are not those of a {name}: {error}"
    return value


def record_of(stored: StoredValue, origin: Origin) -> Any:
    """An object of a file: a record, or what containers, texts and numbers are."""
    inside = Origin(origin.file_path, origin.place, origin.lineage)

    def make(classname: str, names: Names, value_of: Callable[[str], Any]) -> Record:
        return Record(classname, names, value_of, inside)

    value = value_of(stored, make)
    if isinstance(value, Record):
        value.origin = origin
    return value
