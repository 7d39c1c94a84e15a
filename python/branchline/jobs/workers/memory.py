"""Whether a process ended for want of memory: what is known of it after its death."""

from __future__ import annotations

import resource
import signal
from contextlib import suppress
from pathlib import Path

#: The exit code of a worker in which Python raised MemoryError.
EXIT_OUT_OF_MEMORY = 87
#: What stands for the exit code of a worker of which nobody knows how it ended. No process has it.
EXIT_NOT_KNOWN = 256

_VMSTAT = Path("/proc/vmstat")
_OWN_CGROUPS = Path("/proc/self/cgroup")
_CGROUPS = Path("/sys/fs/cgroup")
_LIMITS = (resource.RLIMIT_AS, resource.RLIMIT_DATA)


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
