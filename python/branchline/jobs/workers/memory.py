"""Memory of workers: whether a process ended for want of it, and freed memory that is kept for the next arrays."""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from branchline.base.limits import FREED_MEMORY_KEPT_BYTES, LARGE_BLOCK_BYTES

#: The exit code of a worker in which Python raised MemoryError.
EXIT_OUT_OF_MEMORY = 87
#: Stands for an unknown exit code of a worker. No process has it.
EXIT_NOT_KNOWN = 256
#: Where the kernel counts the processes that it killed for want of memory.
_VMSTAT = Path("/proc/vmstat")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
#: Limits of memory that a process may have.
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
#: Settings of malloc: their names in malloc.h, and the variables with which users set them.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
CHOSEN_BY_USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


class MemoryWitness:
    """Made before a process is started; knows after its death whether memory was the reason.

    The kernel counts the processes that it kills when memory is short, of the machine (``oom_kill`` in /proc/vmstat)
    and of a cgroup. A SIGKILL while such a count rose is taken for one of them, and so is an end that is not known:
    another process may have been meant, but then memory was short as well.
    """

    def __init__(self) -> None:
        self._kills_before = _oom_kills()

    def was_memory(self, code: int) -> bool:
        """Whether a process with this exit code, negative for a signal, ended for want of memory."""
        if code == EXIT_OUT_OF_MEMORY:
            return True
        if code == -signal.SIGABRT:
            # The engine aborts where the system gives it no memory, which it does only if a limit is set.
            return any(resource.getrlimit(one)[0] != resource.RLIM_INFINITY for one in _LIMITS)
        return code in (-signal.SIGKILL, EXIT_NOT_KNOWN) and _oom_kills() > self._kills_before


def _oom_kills() -> int:
    """How many processes the kernel killed so far for want of memory, as far as it says."""
    return _count_in(_VMSTAT) + sum(_count_in(one) for one in _own_counts())


def _own_counts() -> list[Path]:
    """Where the kernel counts for the cgroup of this process."""
    with suppress(OSError):
        lines = [line.split(":", 2) for line in _OWN_CGROUPS.read_text().splitlines()]
        paths = {names: path.lstrip("/") for _, names, path in lines}
        # Version 2 of cgroups has one list without a name, version 1 one for each kind.
        found = [_CGROUPS / paths[""] / "memory.events"] if "" in paths else []
        return found + ([_CGROUPS / "memory" / paths["memory"] / "memory.oom_control"] if "memory" in paths else [])
    return []


def _count_in(path: Path) -> int:
    with suppress(OSError, ValueError):
        for line in path.read_text().splitlines():
            name, _, value = line.partition(" ")
            if name == "oom_kill":
                return int(value)
    return 0


@functools.cache
def keep_freed_memory() -> bool:
    """Has this process keep some of the memory that is freed, and tells whether it does.

    Wagons make and drop arrays of some MB all the time. The C library gives each back to the system and asks for the
    next, whose pages the system has to clear. Nothing is done with another C library than that of GNU, or where the
    environment has settings: of the user, or of Dask, whose workers give memory back by its own configuration.
    """
    if any(name in os.environ for name in CHOSEN_BY_USERS):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    settings = ((_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES), (_M_TRIM_THRESHOLD, FREED_MEMORY_KEPT_BYTES))
    return all(library.mallopt(name, value) == 1 for name, value in settings)
