"""What every file that a library reads for us offers: its size, its version, and ranges of its bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

Kind = Literal[
    "missing", "permission", "not a file", "unknown", "timeout", "unreachable", "changed", "refused", "failed"
]
Answer = TypeVar("Answer")
#: An object of a library that has no types: a file system of fsspec, a client or a file of hdfs-native or XRootD.
LibraryObject = Any  # type: ignore[explicit-any]
RETRYABLE = ("timeout", "unreachable", "failed")


class WantedRange(Protocol):
    """A range that the compiled module wants: ``length`` bytes from ``offset`` on."""

    @property
    def offset(self) -> int:
        """Where it begins in the file."""
        ...

    @property
    def length(self) -> int:
        """How many bytes."""
        ...

    def append(self, content: bytes) -> None:
        """Copies the next bytes to their place. With more than ``length`` in all the read fails in the end, and may be
        tried again. Raises ValueError once the read has ended.
        """
        ...


class BridgedFile(Protocol):
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
        """A text that differs between versions of the file; None if there is none."""
        ...

    def read(self, wanted: Sequence[WantedRange], patience_s: float) -> int:
        """Appends to each range its bytes, as they come; returns the requests that they took.

        Raises BridgeError. The caller stops waiting after ``patience_s``; a library with deadlines may use it as one.
        """
        ...


class ListedFile(NamedTuple):
    """A name in a folder, as a library lists it; ``size_bytes`` is None for a folder, or where it is not known."""

    name: str
    is_folder: bool
    size_bytes: int | None


class BridgeError(Exception):
    """A failure with its kind, which says whether the same may succeed when it is tried again."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.retry = kind in RETRYABLE


def in_time(work: Callable[[], Answer], patience_s: float, who: str) -> Answer:
    """What ``work`` answers or raises, for libraries without deadlines: what takes longer goes on in a thread of its
    own, which does not keep Python from ending.

    Raises BridgeError after ``patience_s``, which says that ``who`` did not answer.
    """
    answers: SimpleQueue[tuple[Answer | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            answers.put((None, error))

    threading.Thread(target=run, name="branchline-watched", daemon=True).start()
    try:
        answer, error = answers.get(timeout=patience_s)
    except Empty:
        raise BridgeError("timeout", f"{who} did not answer within {patience_s:.3g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # None only if that is the answer
