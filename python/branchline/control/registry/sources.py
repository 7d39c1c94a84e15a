"""The files of wagons that were uploaded, kept by their hash: what was registered once can always be read again."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from branchline.control.errors import NoSuchEntryError
from branchline.control.registry.wagon_source import wagon_classes
from branchline.errors import WagonError
from branchline.report.whole_files import write_whole

_SHA256 = re.compile(r"[0-9a-f]{64}")


class SourceStore:
    """A folder of files, each under the SHA-256 of its content. None is ever changed or removed."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def keep(self, content: bytes, path: str = "wagons.py") -> str:
        """Keeps a file of wagons and gives its hash. Raises WagonError if it is none, StorageError if it cannot be
        written.
        """
        try:
            text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise WagonError(f"{path} is no text in UTF-8: {error}", path=path) from None
        wagon_classes(text, path)
        sha256 = hashlib.sha256(content).hexdigest()
        target = self.path(sha256)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
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

    def path(self, sha256: str) -> Path:
        """Where a file is. Raises NoSuchEntryError for what is no hash: it comes from outside, and becomes a path."""
        if not _SHA256.fullmatch(sha256):
            raise _not_kept(sha256)
        return self._folder / sha256[:2] / f"{sha256}.py"


def _not_kept(sha256: str) -> NoSuchEntryError:
    return NoSuchEntryError(f"no file with the hash {sha256!r:.80} was uploaded")
