"""What every file beyond the bridge is: its size, what tells its versions apart, and ranges of its bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

Kind = Literal[
    "missing", "permission", "not a file", "unknown", "timeout", "unreachable", "changed", "refused", "failed"
]
TRANSIENT = ("timeout", "unreachable", "failed")


class CarriedFile(Protocol):
    """A file that is open at a library. Several threads may read from it."""

    @property
    def name(self) -> str:
        """The storage element, as in reports."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        ...

    @property
    def identity(self) -> str | None:
        """What tells this version of the file from another; None if nothing does."""
        ...

    def read(self, ranges: Sequence[tuple[int, int]], patience_s: float) -> tuple[list[bytes], int]:
        """The bytes of each range (offset, length), and the requests that they took.

        Raises CarrierError. Who asks stops waiting after ``patience_s``; what knows a deadline may end at that, too.
        """
        ...


class CarrierError(Exception):
    """A failure with its kind, which says whether the same may succeed when it is tried again."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.retry = kind in TRANSIENT
