"""What a process says about itself: CPU time, peak memory, host."""

from __future__ import annotations

import os
import platform
import resource
import sys
import time


def cpu_s() -> float:
    """CPU seconds of this process, all its threads, user and system."""
    return time.process_time()


def memory_peak_bytes() -> int:
    """The largest resident memory of this process so far.

    Linux's own count is asked first: that of ``getrusage`` starts with the memory of the parent process.
    """
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as lines:
            for line in lines:
                if line.startswith("VmHWM:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
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
