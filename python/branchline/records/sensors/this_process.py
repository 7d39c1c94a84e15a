"""CPU time, peak memory, host and processor of this process, and package versions that a job's results depend on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import os
import platform
import resource
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from branchline import _core
from branchline.base.quantities import KIB, NS_PER_S

if TYPE_CHECKING:
    from types import FunctionType

#: Packages whose versions are recorded: always, or only if the job has imported them.
_ALWAYS, _IF_USED = ("numpy", "awkward"), ("hist", "boost-histogram", "coffea", "numba", "uproot", "pandas", "pyarrow")

Number = TypeVar("Number", int, float)


def cpu_s() -> float:
    """Return the CPU seconds (user and system) of all threads of this process."""
    return time.process_time()


def core_wait_s() -> float:
    """Return the seconds that this thread was ready to run but waited for a core; 0 if the kernel does not count them.

    The value is the second number in ``/proc/thread-self/schedstat``, in nanoseconds (Linux, sched-stats.rst).
    """
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) / NS_PER_S
    except (OSError, ValueError, IndexError):
        return 0.0


@dataclass(frozen=True)
class MachineCounters:
    """Counters of this machine since boot, for all programs; None if unknown.

    ``cpu_s`` is the CPU time, on a virtual machine including that of other guests. ``iowait_s`` is the time during
    which cores were idle while a program waited for a disk, summed over the cores. ``received_bytes`` were received
    over the network, without the loopback interface.
    """

    cpu_s: float | None = None
    iowait_s: float | None = None
    received_bytes: int | None = None

    @classmethod
    def now(cls) -> MachineCounters:
        """Read the counters of proc_stat(5) and proc_net(5), which takes less than a millisecond."""
        cpu_s = iowait_s = received = None
        with suppress(OSError, ValueError, IndexError), open("/proc/stat", encoding="ascii") as lines:
            # User, nice, system, idle, iowait, and further busy times in clock ticks.
            ticks = list(map(int, lines.readline().split()[1:9]))
            per_s = os.sysconf("SC_CLK_TCK")
            cpu_s, iowait_s = (sum(ticks) - sum(ticks[3:5])) / per_s, ticks[4] / per_s
        with suppress(OSError, ValueError, IndexError), open("/proc/net/dev", encoding="ascii") as lines:
            rows = [line.partition(":") for line in lines.readlines()[2:]]
            received = sum(int(counts.split()[0]) for name, _, counts in rows if name.strip() != "lo")
        return cls(cpu_s, iowait_s, received)

    def since(self, start: MachineCounters) -> MachineCounters:
        """Return the growth of the counters since ``start``."""
        return MachineCounters(
            _growth(self.cpu_s, start.cpu_s),
            _growth(self.iowait_s, start.iowait_s),
            _growth(self.received_bytes, start.received_bytes),
        )


def _growth(now: Number | None, before: Number | None) -> Number | None:
    # Counters of an interface that was removed disappear.
    return None if now is None or before is None else max(now - before, type(now)(0))


def memory_peak_bytes() -> int:
    """Return the peak resident memory of this process.

    VmHWM in Linux is preferred, because the value of ``getrusage`` starts with the parent process's memory.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * KIB
    except OSError:
        pass  # not Linux: use getrusage
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * KIB


def host() -> str:
    """Return the name of this machine."""
    return platform.node() or "localhost"


@cache
def processor() -> str:
    """Return the processor model that the kernel reports."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.machine()


def cpu_count() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def branchline_version() -> str:
    """Return the version of Branchline."""
    return str(_core.__version__)


def versions() -> dict[str, str]:
    """Return the versions of Python, numpy and awkward, and of the analysis packages that this process has imported."""
    used = [name for name in _IF_USED if name.replace("-", "_") in sys.modules]
    found = {"python": platform.python_version()}
    for name in (*_ALWAYS, *used):
        if version := _installed(name):
            found[name] = version
    return found


@cache
def _installed(name: str) -> str:
    """Return the version of an installed package; empty if the package is not installed.

    The result is cached, because the version of an imported package does not change.
    """
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def code_sha256(kind: type | FunctionType) -> str | None:
    """Return the SHA-256 of the file that defines a class or function.

    If there is no file, as in a notebook, only the source of the class or function is hashed. Returns None if that
    source is unavailable, too.
    """
    try:
        content = Path(inspect.getfile(kind)).read_bytes()
    except (TypeError, OSError):
        try:
            content = inspect.getsource(kind).encode()
        except (TypeError, OSError):
            return None
    return hashlib.sha256(content).hexdigest()
