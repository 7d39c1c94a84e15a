"""The files of wagons that were uploaded, kept by their hash: what was registered once can always be read again."""

from __future__ import annotations

import hashlib
import re
import threading
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from branchline.base.limits import SOURCES_REMEMBERED_MAX
from branchline.base.whole_files import write_whole
from branchline.control.registry.changes import FieldChange, line_difference
from branchline.control.registry.wagon_source import WagonClass, wagon_classes
from branchline.control.room_errors import NoSuchEntryError
from branchline.errors import WagonError

_SHA256 = re.compile(r"[0-9a-f]{64}")


class SourceStore:
    """A folder of files, each under the SHA-256 of its content. None is ever changed or removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Whoever looks at the grid needs that of all wagons, and parsing a large file takes a second.
        self._parsed: dict[tuple[str, str], list[WagonClass]] = {}
        self._turn = threading.Lock()
        self._compared = lru_cache(SOURCES_REMEMBERED_MAX // 5)(self._compare)

    def keep(self, content: bytes, path: str = "wagons.py") -> str:
        """Keeps a file of wagons and gives its hash. Raises WagonError if it is none, StorageError if it cannot be
        written.
        """
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise WagonError(f"{path} is no text in UTF-8: {error}", path=path) from None
        sha256 = hashlib.sha256(content).hexdigest()
        target = self.path(sha256)
        if not target.exists():
            self._remember(sha256, path, wagon_classes(text, path))
            write_whole(target, content)
        return sha256

    def text(self, sha256: str) -> str:
        """The text of a file. Raises NoSuchEntryError if it was never kept, WagonError if it was changed since."""
        try:
            content = self.path(sha256).read_bytes()
        except FileNotFoundError:
            raise _not_kept(sha256) from None
        if hashlib.sha256(content).hexdigest() != sha256:
            raise WagonError(f"the file with the hash {sha256} was changed on the disk")
        return content.decode("utf-8")

    def classes(self, sha256: str, path: str) -> list[WagonClass]:
        """The wagons in a file, whose name its author gave as ``path``. Raises what ``text`` raises."""
        found = self._parsed.get((sha256, path))
        return list(found or self._remember(sha256, path, wagon_classes(self.text(sha256), path)))

    def difference(self, name: str, first: str, second: str) -> FieldChange | None:
        """The lines in which two files differ. Raises what ``text`` raises."""
        found = self._compared(first, second)
        return None if found is None else replace(found, name=name)

    def _remember(self, sha256: str, path: str, found: list[WagonClass]) -> list[WagonClass]:
        with self._turn:
            if len(self._parsed) >= SOURCES_REMEMBERED_MAX:
                self._parsed.pop(next(iter(self._parsed)))
            self._parsed[sha256, path] = found
        return found

    def _compare(self, first: str, second: str) -> FieldChange | None:
        return line_difference("", self.text(first), self.text(second))

    def path(self, sha256: str) -> Path:
        """Where a file is. Raises NoSuchEntryError for what is no hash: it comes from outside, and becomes a path."""
        if not _SHA256.fullmatch(sha256):
            raise _not_kept(sha256)
        return self._folder / sha256[:2] / f"{sha256}.py"


def _not_kept(sha256: str) -> NoSuchEntryError:
    return NoSuchEntryError(f"no file with the hash {sha256!r:.80} was uploaded")
