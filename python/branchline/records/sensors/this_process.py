"""CPU time, peak memory and host of this process, and the versions of what the results of a job depend on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import os
import platform
import resource
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from branchline import _core

#: Packages whose versions are recorded: always, and if something of the job has imported them.
_ALWAYS, _IF_USED = ("numpy", "awkward"), ("hist", "boost-histogram", "coffea", "numba", "uproot", "pandas", "pyarrow")


def cpu_s() -> float:
    """CPU seconds of this process, all its threads, user and system."""
    return time.process_time()


def core_wait_s() -> float:
    """Seconds that this thread was ready to run and waited for a core; 0 where the kernel does not count them.

    The second number of ``/proc/thread-self/schedstat``, in nanoseconds (Linux, sched-stats.rst).
    """
    try:
        with open("/proc/thread-self/schedstat", "rb", buffering=0) as file:
            return int(file.read().split()[1]) * 1e-9
    except (OSError, ValueError, IndexError):
        return 0.0


def machine_cpu_s() -> float | None:
    """CPU seconds of everything that ran on this machine so far, other guests of its host included; None if unknown.

    They are in the first line of ``/proc/stat``, in clock ticks: all but the fourth and fifth, which are idle.
    """
    try:
        with open("/proc/stat", encoding="ascii") as lines:
            ticks = [int(field) for field in lines.readline().split()[1:9]]
    except (OSError, ValueError):
        return None
    return (sum(ticks) - sum(ticks[3:5])) / os.sysconf("SC_CLK_TCK")


def memory_peak_bytes() -> int:
    """The largest resident memory of this process so far.

    Linux's own count comes first: that of ``getrusage`` starts with the memory of the parent process.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: getrusage has it
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def host() -> str:
    """The name of this machine."""
    return platform.node() or "localhost"


def cpu_count() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def branchline_version() -> str:
    """The version of Branchline."""
    return str(_core.__version__)


def versions() -> dict[str, str]:
    """The versions of Python, numpy and awkward, and of the packages of the field that this process has imported."""
    used = [name for name in _IF_USED if name.replace("-", "_") in sys.modules]
    found = {"python": platform.python_version()}
    for name in (*_ALWAYS, *used):
        if version := _installed(name):
            found[name] = version
    return found


@cache
def _installed(name: str) -> str:
    """The version of a package that is imported, which stays the one that it is; empty where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def code_sha256(kind: Any) -> str | None:
    """The SHA-256 of the file that a class or a function is written in, of the class alone where there is no file, as
    in a notebook; None where neither is known.
    """
    try:
        content = Path(inspect.getfile(kind)).read_bytes()
    except (TypeError, OSError):
        try:
            content = inspect.getsource(kind).encode()
        except (TypeError, OSError):
            return None
    return hashlib.sha256(content).hexdigest()
