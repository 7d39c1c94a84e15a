"""Leases: two tasks do not work on the same unit at a time.

A file system that shows files late may let two tasks take a unit. Then the first complete result counts.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from branchline.limits import LEASE_INTERVAL_S, LEASE_STALE_S
from branchline.running.submitted.folder import write_again, write_first


@dataclass(frozen=True)
class Holder:
    """The holder of a lease: ``task`` is the submitted task, ``attempt`` one of its processes."""

    task: str
    attempt: str
    host: str
    process: int


class Leases:
    """The leases of one process. A thread renews them until they are released."""

    def __init__(self, holder: Holder, clock: Path) -> None:
        """``clock`` is a file of this process on the same file system: its time decides whether a lease is stale."""
        self._holder = holder
        self._clock = clock
        self._held: set[Path] = set()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="branchline-leases", daemon=True)
        self._thread.start()

    @property
    def attempt(self) -> str:
        """The process that holds them."""
        return self._holder.attempt

    def take(self, path: Path) -> bool:
        """Takes a lease if it is free or stale; returns False if another task has it. Raises StorageError."""
        content = json.dumps(asdict(self._holder)).encode()
        if not write_first(path, content):
            if not self._is_over(path):
                return False
            write_again(path, content)
        if _holder(path) != self._holder:
            return False
        self._held.add(path)
        return True

    def give_back(self, path: Path) -> None:
        """Releases a lease, so that others may take it."""
        self._held.discard(path)
        with suppress(OSError):  # a lease that cannot be removed becomes stale
            path.unlink()

    def close(self) -> None:
        """Releases all leases."""
        self._ended.set()
        for path in list(self._held):
            self.give_back(path)

    def _is_over(self, path: Path) -> bool:
        other = _holder(path)
        # A batch system starts a task again only when the one before has ended.
        if other is None or other.task == self._holder.task:
            return True
        try:
            self._clock.touch()
            return self._clock.stat().st_mtime - path.stat().st_mtime > LEASE_STALE_S
        except OSError:
            return True

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_INTERVAL_S):
            for path in list(self._held):
                with suppress(OSError):  # a lease that is not renewed becomes stale, and the first result counts
                    os.utime(path)


def _holder(path: Path) -> Holder | None:
    """The holder of a lease; None if the file cannot be read."""
    try:
        return Holder(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None
