"""The measurements of a run of the reference job."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ReferenceMeasures:
    """What a run of the reference job measured.

    ``read_s`` is the wall time of the job, ``fetch_s`` the thread time in read calls, as in the record of any job.
    ``benchmark_s`` and ``benchmark_cpu_s`` are the wall and the CPU time of the same work on a copy in memory.
    ``wrong`` says what differs from the expected file or values; empty if nothing does.
    """

    events: int = 0
    read_s: float = 0.0
    fetch_s: float = 0.0
    bytes_read: int = 0
    read_calls: int = 0
    benchmark_s: float = 0.0
    benchmark_cpu_s: float = 0.0
    wrong: str = ""
