"""Leases: two tasks do not work on the same unit at a time.

A file system that shows files late may let two tasks take a unit. Then the first complete result counts. A process that
stood still, or that its batch system started again before it was gone, finds its lease with another one: it leaves it.
"""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from branchline.base.limits import LEASE_INTERVAL_S, LEASE_STALE_S, LEASE_TRIES_MAX
from branchline.trains.submitted.submission_folder import write_again, write_first


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
        self._content = json.dumps(asdict(holder)).encode()
        self._clock = clock
        self._held: set[Path] = set()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._renew, name="branchline-leases", daemon=True)
        self._thread.start()

    @property
    def attempt(self) -> str:
        """The process that holds them."""
        return self._holder.attempt

    def take(self, path: Path) -> bool:
        """Takes a lease if it is free or stale; returns False if another task has it. Raises StorageError."""
        for _ in range(LEASE_TRIES_MAX):
            try:
                if not write_first(path, self._content):
                    if not self._is_over(path):
                        return False
                    write_again(path, self._content)
                if not self._is_ours(path):
                    return False
            except FileNotFoundError:
                continue  # whoever had it released it just now
            self._held.add(path)
            return True
        return False

    def give_back(self, path: Path) -> None:
        """Releases a lease, so that others may take it."""
        with self._lock, suppress(OSError):  # a lease that cannot be removed becomes stale
            self._held.discard(path)
            if _holder(path) == self._holder:
                path.unlink()

    def renew(self) -> None:
        """Marks all leases as those of a process that lives. One that another process has now is left to it."""
        for path in list(self._held):
            # A lease that is not renewed becomes stale, and the first result counts.
            with self._lock, suppress(OSError):
                if path not in self._held:
                    continue
                if not path.exists():
                    write_first(path, self._content)
                elif _holder(path) == self._holder:
                    os.utime(path)
                else:
                    self._held.discard(path)

    def close(self) -> None:
        """Releases all leases."""
        self._ended.set()
        for path in list(self._held):
            self.give_back(path)

    def _is_over(self, path: Path) -> bool:
        """Whether the holder of a lease does not need it any more. What cannot be read is held. Raises
        FileNotFoundError.
        """
        try:
            other = _holder(path)
            # A batch system starts a task again only when it has ended the one before, or told it to end.
            if other is not None and other.task == self._holder.task:
                return True
            self._clock.touch()
            return self._clock.stat().st_mtime - path.stat().st_mtime > LEASE_STALE_S
        except FileNotFoundError:
            raise
        except OSError:
            return False

    def _is_ours(self, path: Path) -> bool:
        """Whether a lease that was written just now is this process's. Raises FileNotFoundError."""
        try:
            return _holder(path) == self._holder
        except FileNotFoundError:
            raise
        except OSError:
            return True  # where another task has it, too, the first result counts

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_INTERVAL_S):
            self.renew()


def _holder(path: Path) -> Holder | None:
    """The holder of a lease; None for a file that names none. Raises OSError."""
    content = path.read_bytes()
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None
