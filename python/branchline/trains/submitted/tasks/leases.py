"""Leases that prevent two tasks from working on the same unit.

On a file system with delayed visibility, two tasks may acquire the same unit. In this case, the first complete result
counts. A process may lose its lease to another process: after it was suspended for too long, or if the batch system
restarts its task before it has ended. The process notices this, and leaves the lease to the new holder.
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
    """The holder of a lease: ``task`` is the submitted task, ``attempt`` identifies one of its processes."""

    task: str
    attempt: str
    host: str
    process: int


class Leases:
    """The leases held by one process. A thread renews the leases until they are released."""

    def __init__(self, holder: Holder, clock: Path) -> None:
        """Create an empty set of leases. ``clock`` is a file that only this process writes, on the same file system. It
        is touched to get the current time: a lease is stale if its file is much older.
        """
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
        """The ID of the process that holds these leases."""
        return self._holder.attempt

    def take(self, path: Path) -> bool:
        """Acquire a lease if it is free or stale. Returns False if another task holds the lease. Raises
        StorageError.
        """
        for _ in range(LEASE_TRIES_MAX):
            try:
                # Many tasks may try to take the same unit, and writing costs more than looking.
                if path.exists() or not write_first(path, self._content):
                    if not self._is_over(path):
                        return False
                    write_again(path, self._content)
                if not self._is_ours(path):
                    return False
            except FileNotFoundError:
                continue  # the holder has just released the lease
            self._held.add(path)
            return True
        return False

    def give_back(self, path: Path) -> None:
        """Release a lease, so that other tasks can acquire it."""
        with self._lock, suppress(OSError):  # a lease that cannot be removed becomes stale
            self._held.discard(path)
            if _holder(path) == self._holder:
                path.unlink()

    def renew(self) -> None:
        """Renew all leases, except leases that another process has acquired."""
        for path in list(self._held):
            # If a lease cannot be renewed, it becomes stale. Another task may then process the unit, and the first
            # result counts.
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
        """Release all leases."""
        self._ended.set()
        for path in list(self._held):
            self.give_back(path)

    def _is_over(self, path: Path) -> bool:
        """Return whether a lease can be taken over from its holder. False if the lease cannot be read. Raises
        FileNotFoundError.
        """
        try:
            other = _holder(path)
            # The batch system restarts a task only after ending its previous attempt, or after asking it to end.
            if other is not None and other.task == self._holder.task:
                return True
            self._clock.touch()
            return self._clock.stat().st_mtime - path.stat().st_mtime > LEASE_STALE_S
        except FileNotFoundError:
            raise
        except OSError:
            return False

    def _is_ours(self, path: Path) -> bool:
        """Return whether this process holds a lease that it has just written. Raises FileNotFoundError."""
        try:
            return _holder(path) == self._holder
        except FileNotFoundError:
            raise
        except OSError:
            return True  # if another task holds the lease too, the first result counts

    def _renew(self) -> None:
        while not self._ended.wait(LEASE_INTERVAL_S):
            self.renew()


def _holder(path: Path) -> Holder | None:
    """Return the holder of a lease; None if the file does not contain a holder. Raises OSError."""
    content = path.read_bytes()
    try:
        return Holder(**json.loads(content))
    except (ValueError, TypeError):
        return None
