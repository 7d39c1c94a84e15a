"""ObjectList: what a TList, a TObjArray or another of ROOT's lists of objects holds. ObjectMap: what a TMap holds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

from branchline.errors import NoSuchKeyError
from branchline.reading.objects.object_record import Record, made


class ObjectList(Sequence[Any]):
    """Objects in their order, ``objects[0]``, and by their names, ``objects["hPt"]``, each made at its first use.

    Of several with one name the first is given, as ROOT's FindObject does. None stands for an empty place. Raises
    NoSuchKeyError for a name, IndexError for a number that it does not have.

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

    def _found(self, name: str) -> Any:
        for record in self._records:
            if name_of(record) == name:
                return record
        names = ", ".join(self.names()[:20])
        what = f"the {self.classname} in {self._origin.place} has no object {name!r}"
        raise NoSuchKeyError(what, path=self._origin.file_path, hint=f"it has {names or 'no objects with names'}")

    def names(self) -> list[str]:
        """The names of its objects; of one that has none the class in angle brackets."""
        return [name_of(one) or f"<{one.classname if isinstance(one, Record) else one}>" for one in self._records]

    def keys(self) -> list[str]:
        """The names of its objects, as of a directory."""
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
    """The objects of a TMap by the names of their keys, ``objects["year"]``, each made when it is asked for. Two maps
    are equal only if they are the same one: their objects may be arrays.

    Of several keys with one name the first counts, as for ROOT's FindObject; keys without names are only in ``pairs``.
    Raises NoSuchKeyError for a name that no key has.

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
        """All keys, as the objects that they are, with their objects, in the order of the file."""
        return [(made(key), made(value)) for key, value in self._pairs]

    def __getitem__(self, name: str) -> Any:
        if name in self._values:
            return made(self._values[name])
        origin = self._record.origin
        what = f"the {self.classname} in {origin.place} has no key {name!r}"
        raise NoSuchKeyError(what, path=origin.file_path, hint=f"it has {', '.join([*self][:20]) or 'no named keys'}")

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

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectMap, (self._record,)


def name_of(record: Any) -> str:
    """The name of an object; nothing if it has none."""
    if not isinstance(record, Record):
        return ""
    for member in ("fName", "fString"):
        if member in record:
            return str(record.raw(member))
    return ""
