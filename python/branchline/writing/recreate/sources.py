"""Where objects that were read came from, so that they are copied with all that ROOT keeps of them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from branchline.reading.objects.object_record import KeyPlace
from branchline.reading.trees.file import Directory, File
from branchline.writing.recreate.differences import Differences


@dataclass(frozen=True)
class ReadObject:
    """An object that was read, and the place of its key. ``is_needed`` if nothing but a copy of it can be written."""

    place: KeyPlace
    value: Any
    classname: str
    is_needed: bool

    @property
    def is_computed(self) -> bool:
        """Whether it is a histogram with other bins than it was read with, such as a sum or a part."""
        return not self.is_needed and not self.value.is_as_read()

    def differences(self, file: File) -> Differences:
        """How it differs from what its file has. Raises ValueError where no copy could have that."""
        if self.is_needed:
            if file.record(self.place.key).classname != self.classname:
                raise ValueError("its file has another object there now")
            return Differences()
        from branchline.writing.recreate.changed import differences_of

        again = file[self.place.key]
        if getattr(again, "classname", None) != self.classname or not self.value.was_read_like(again):
            raise ValueError("its file has another histogram there now")
        return differences_of(self.value, again)


def opened_directory(source: Any) -> Directory:
    """Return the directory of a path, or of a file or directory of uproot."""
    file = File(os.fspath(getattr(source, "file_path", source)))
    inside = "/".join(getattr(source, "path", ()))
    directory: Directory = file[inside] if inside else file
    return directory


def source_of(value: Any) -> ReadObject | None:
    """Where a histogram or another object of a file came from; None for what is new."""
    if hasattr(value, "place_in_file"):
        place = value.place_in_file()
        return None if place is None else ReadObject(place, value, value.classname, is_needed=False)
    record = next((found for name in ("record", "_record") if (found := getattr(value, name, None)) is not None), value)
    origin = getattr(record, "origin", None) or getattr(value, "_origin", None)
    place = getattr(origin, "key_place", None)
    classname = getattr(record, "classname", "")
    return ReadObject(place, value, classname, is_needed=True) if isinstance(place, KeyPlace) else None
