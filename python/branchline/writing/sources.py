"""Where objects that were read came from, so that they are copied with all that ROOT keeps of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from branchline.objects import KeyPlace
from branchline.tree import File


@dataclass(frozen=True)
class ReadObject:
    """An object that was read, and the place of its key. ``is_needed`` if nothing but a copy of it can be written."""

    place: KeyPlace
    value: Any
    classname: str
    is_needed: bool

    def is_still_in(self, file: File) -> bool:
        """Whether the file has it as it was read, and it was not changed since."""
        if self.is_needed:
            return bool(file.record(self.place.key).classname == self.classname)
        again = file[self.place.key]
        return (
            getattr(again, "classname", None) == self.classname
            and bool(again == self.value)
            and again.label == self.value.label
        )


def source_of(value: Any) -> ReadObject | None:
    """Where a histogram that was not changed, or another object of a file, came from; None for what is new."""
    if hasattr(value, "place_in_file"):
        place = value.place_in_file()
        return None if place is None else ReadObject(place, value, value.classname, is_needed=False)
    record = next((found for name in ("record", "_record") if (found := getattr(value, name, None)) is not None), value)
    origin = getattr(record, "origin", None) or getattr(value, "_origin", None)
    place = getattr(origin, "key_place", None)
    classname = getattr(record, "classname", "")
    return ReadObject(place, value, classname, is_needed=True) if isinstance(place, KeyPlace) else None
