"""Places that serve the files of the tests, as the checks of conformance see them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from branchline import Access
from branchline._core import Store


class Place:
    """A store over a folder with the files of the tests. What keeps its files elsewhere says how it writes there."""

    #: Whether it gives each version of a file an identity.
    tells_versions = True
    #: How files are read here, if not as usual.
    access: Access | None = None

    def __init__(
        self, name: str, url: Callable[[str], str], originals: Path, content: bytes, closes_nothing: str = ""
    ) -> None:
        self.name = name
        self.url = url
        #: The files of the tests on the local disk.
        self.originals = originals
        #: What `random.bin` holds.
        self.content = content
        #: Why a file cannot be closed to readers here, if so.
        self.closes_nothing = closes_nothing

    def open(self, name: str = "random.bin") -> Store:
        return Store(self.url(name), self.access)

    def own_name(self, what: str) -> str:
        """A name for a file of one test alone."""
        return f"{what}-{self.name}-{os.getpid()}.bin"

    def write(self, name: str, content: bytes) -> None:
        (self.originals / name).write_bytes(content)

    def close(self, name: str) -> None:
        """Makes a file that nobody may read."""
        (self.originals / name).chmod(0)

    def remove(self, name: str) -> None:
        (self.originals / name).unlink(missing_ok=True)
