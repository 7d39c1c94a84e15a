"""The interface of files that are read through a Python library: size, version, and byte ranges."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

Kind = Literal[
    "missing", "permission", "not a file", "unknown", "timeout", "unreachable", "changed", "refused", "failed"
]
Answer = TypeVar("Answer")
#: An object of an untyped library: an fsspec file system, or a client or file of hdfs-native or XRootD.
LibraryObject = Any  # type: ignore[explicit-any]
RETRYABLE = ("timeout", "unreachable", "failed")


class WantedRange(Protocol):
    """A range requested by the compiled module: ``length`` bytes from ``offset`` on."""

    @property
    def offset(self) -> int:
        """Offset in the file."""
        ...

    @property
    def length(self) -> int:
        """Number of bytes."""
        ...

    def append(self, content: bytes) -> None:
        """Append the next bytes of the range.

        If the total exceeds ``length``, the read fails and may be retried. Raises ValueError if the read has already
        ended.
        """
        ...


class BridgedFile(Protocol):
    """A file opened by a library. Several threads may read from the file concurrently."""

    @property
    def name(self) -> str:
        """Name of the storage element for reports."""
        ...

    @property
    def size_bytes(self) -> int:
        """The size of the file."""
        ...

    @property
    def identity(self) -> str | None:
        """A value that differs between versions of the file; None if unknown."""
        ...

    def read(self, wanted: Sequence[WantedRange], patience_s: float) -> int:
        """Read the wanted ranges and append the bytes to each range as they arrive; return the number of requests.

        ``patience_s`` is the time after which the caller stops waiting; a library may use it as timeout. Raises
        BridgeError.
        """
        ...


class ListedFile(NamedTuple):
    """An entry of a folder as listed by a library. ``size_bytes`` is None for a folder, or if unknown."""

    name: str
    is_folder: bool
    size_bytes: int | None


class BridgeError(Exception):
    """An error whose kind determines whether a retry may succeed."""

    def __init__(self, kind: Kind, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.retry = kind in RETRYABLE


def in_time(work: Callable[[], Answer], patience_s: float, who: str) -> Answer:
    """Run ``work`` with a timeout, for libraries without timeouts.

    After ``patience_s`` seconds, raises BridgeError, which names ``who`` as the server that did not respond. The work
    then continues in a daemon thread, which does not prevent Python from exiting.
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
    return answer  # type: ignore[return-value]  # None only if work() returned None
