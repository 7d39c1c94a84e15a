"""What every file beyond the bridge is: its size, what tells its versions apart, and ranges of its bytes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue
from typing import Literal, Protocol, TypeVar

Kind = Literal[
    "missing", "permission", "not a file", "unknown", "timeout", "unreachable", "changed", "refused", "failed"
]
Answer = TypeVar("Answer")
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


def in_time(work: Callable[[], Answer], patience_s: float, who: str) -> Answer:
    """What ``work`` answers or raises. A library may know no deadline: what takes longer is left behind with its
    thread, which does not keep Python from ending.

    Raises CarrierError after ``patience_s``, which names ``who`` did not answer.
    """
    answers: SimpleQueue[tuple[Answer | None, BaseException | None]] = SimpleQueue()

    def run() -> None:
        try:
            answers.put((work(), None))
        except BaseException as error:  # noqa: BLE001 - raised by who waits
            answers.put((None, error))

    threading.Thread(target=run, name="branchline-watched", daemon=True).start()
    try:
        answer, error = answers.get(timeout=patience_s)
    except Empty:
        raise CarrierError("timeout", f"{who} did not answer within {patience_s:.3g} s") from None
    if error is not None:
        raise error
    return answer  # type: ignore[return-value]  # None only if that is the answer
