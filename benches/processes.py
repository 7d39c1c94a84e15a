"""Measures the CPU time and memory of a program and all its descendant processes."""

from __future__ import annotations

import ctypes
import os
import resource
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from benches.worker import REPOSITORY

PR_SET_CHILD_SUBREAPER = 36
SAMPLING_S = 0.1


@dataclass(frozen=True)
class Ended:
    """The output of a program, the CPU time of all its processes, and their peak memory.

    Memory is the proportional set size without file pages: shared memory counts once, the page cache not at all.
    """

    printed: str
    cpu_s: float
    peak_bytes: int


def measured(command: list[str]) -> Ended:
    """Run a program until all its processes have ended. Raises RuntimeError with its errors if it fails."""
    # Orphaned processes become children of this one, which waits for them, so that all are counted.
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before_s = ended_cpu_s()
    peak_bytes = 0
    with subprocess.Popen(
        command, cwd=REPOSITORY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        while True:
            with suppress(subprocess.TimeoutExpired):
                printed, errors = process.communicate(timeout=SAMPLING_S)
                break
            peak_bytes = max(peak_bytes, memory_bytes())
    with suppress(ChildProcessError):
        while True:
            os.wait()
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with exit code {process.returncode}:\n{errors}")
    return Ended(printed, ended_cpu_s() - before_s, peak_bytes)


def own_cpu_s() -> float:
    """Return the CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def ended_cpu_s() -> float:
    """Return the CPU seconds of ended children, including their descendants."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def memory_bytes() -> int:
    """Return the memory of all descendants of this process."""
    total = 0
    with suppress(psutil.Error):
        for one in psutil.Process().children(recursive=True):
            with suppress(OSError):
                lines = Path(f"/proc/{one.pid}/smaps_rollup").read_text().splitlines()
                own = [line.split()[1] for line in lines if line.startswith(("Pss_Anon", "Pss_Shmem"))]
                total += 1024 * sum(map(int, own))
    return total
