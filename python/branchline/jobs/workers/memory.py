"""Memory of workers: determines whether a worker died from lack of memory, and configures malloc to keep freed memory
for reuse.
"""

from __future__ import annotations

import ctypes
import functools
import os
import resource
import signal
from contextlib import suppress
from pathlib import Path

from branchline.base.limits import FREED_MEMORY_KEPT_BYTES, LARGE_BLOCK_BYTES

#: Exit code of a worker in which Python raised MemoryError.
EXIT_OUT_OF_MEMORY = 87
#: Stands for an unknown exit code of a worker. No process can exit with this code.
EXIT_NOT_KNOWN = 256
#: File in which the kernel counts its out-of-memory kills.
_VMSTAT = Path("/proc/vmstat")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
#: Resource limits that restrict the memory of a process.
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)
#: Parameters of mallopt in malloc.h, and the environment variables with which users set malloc parameters.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
CHOSEN_BY_USERS = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")


class MemoryWitness:
    """Determines after a process has died whether it ran out of memory. Must be created before the process starts.

    The kernel counts its out-of-memory kills on the machine (``oom_kill`` in /proc/vmstat) and in each cgroup. A
    process that ended by SIGKILL or in an unknown way counts as out of memory if one of these counts has increased. The
    kernel may have killed a different process, but in that case memory was short as well.
    """

    def __init__(self) -> None:
        self._kills_before = _oom_kills()

    def was_memory(self, code: int) -> bool:
        """Return whether a process with the given exit code (negative for a signal) ran out of memory."""
        if code == EXIT_OUT_OF_MEMORY:
            return True
        if code == -signal.SIGABRT:
            # The engine aborts if an allocation fails, which on Linux mostly happens if a memory limit is set.
            return any(resource.getrlimit(one)[0] != resource.RLIM_INFINITY for one in _LIMITS)
        return code in (-signal.SIGKILL, EXIT_NOT_KNOWN) and _oom_kills() > self._kills_before


def _oom_kills() -> int:
    """Return the number of out-of-memory kills that the kernel has counted."""
    return _count_in(_VMSTAT) + sum(_count_in(one) for one in _own_counts())


def _own_counts() -> list[Path]:
    """Return the files in which the kernel counts out-of-memory kills in this process's cgroup."""
    with suppress(OSError):
        lines = [line.split(":", 2) for line in _OWN_CGROUPS.read_text().splitlines()]
        paths = {names: path.lstrip("/") for _, names, path in lines}
        # cgroup version 2 has a single hierarchy without a name, version 1 has one hierarchy per controller.
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
    """Configure malloc to keep some freed memory; return whether malloc was configured.

    Wagons constantly create and drop arrays of several MB. By default, the C library returns the memory of each array
    to the system and requests new memory for the next array, which the system has to clear first. Nothing is changed
    without glibc, or if the environment contains malloc settings by the user or by Dask, whose workers return memory to
    the system in their own way.
    """
    if any(name in os.environ for name in CHOSEN_BY_USERS):
        return False
    library = ctypes.CDLL(None)
    if not hasattr(library, "gnu_get_libc_version") or not hasattr(library, "mallopt"):
        return False
    settings = ((_M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES), (_M_TRIM_THRESHOLD, FREED_MEMORY_KEPT_BYTES))
    return all(library.mallopt(name, value) == 1 for name, value in settings)
