"""What objects that were made of a record have in common: all members of ROOT's object, by uproot's calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from branchline.errors import NoSuchKeyError
from branchline.reading.objects.object_record import Record


class Recorded:
    """An object with its ``record``, which is None for one that a program made."""

    record: Record | None

    @property
    def members(self) -> Mapping[str, Any]:
        """All members, those of base classes too; none of an object that was not read."""
        return {} if self.record is None else self.record.members

    @property
    def all_members(self) -> Mapping[str, Any]:
        """The same, under uproot's name."""
        return self.members

    def member(self, name: str) -> Any:
        """A member, such as ``fX``, under uproot's name. Raises NoSuchKeyError."""
        if self.record is None:
            raise NoSuchKeyError(f"there is no member {name!r}", hint="an object that was not read has none")
        return self.record.member(name)

    def has_member(self, name: str) -> bool:
        """Whether it has a member, under uproot's name."""
        return self.record is not None and self.record.has_member(name)
