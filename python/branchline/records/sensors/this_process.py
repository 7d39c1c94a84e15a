"""Measurements of this process: CPU time, peak memory, host."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time


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
