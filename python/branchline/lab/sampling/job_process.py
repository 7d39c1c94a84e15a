"""One job of a study in a process of its own, which is forked for it (`job_starter`).

It takes a request from its input, prepares its client, says so, waits for the word to begin, and prints its outcome;
each is a line. Libraries that print do not disturb it: their output goes where errors go.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from typing import TextIO

from branchline.lab.sampling.clients import reader_of
from branchline.lab.sampling.job import Counts, JobOutcome, JobRequest, this_host, this_processor

READY, GO = "ready", "go"
#: What ru_inblock counts in (getrusage(2)).
_BLOCK_BYTES = 512


def main() -> None:
    """Speaks with the process that started this one."""
    _end_with_parent()
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    request = JobRequest.from_json(sys.stdin.readline())
    outcome = _outcome(request, answers)
    print(outcome.to_json(), file=answers, flush=True)
    # ROOT and others may take seconds to leave, or crash in it; all is said.
    os._exit(0)


def _end_with_parent() -> None:
    """Has a process watch the pipe from the study: when that is gone, however it ended, this job ends with all that it
    started. A thread would not do: ROOT does not let other threads of Python run.
    """
    if os.fork() != 0:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # Who waits for the job's answers has to see that it died.
    pipe = select.poll()
    pipe.register(0, 0)  # Also without events, an end of the other side is told (poll(2)).
    pipe.poll()
    os.killpg(0, signal.SIGKILL)


def _outcome(request: JobRequest, answers: TextIO) -> JobOutcome:
    try:
        read = reader_of(request)
    except Exception as failure:  # noqa: BLE001 - whatever a client raises is the failure of this job
        return JobOutcome(request.number, error=_said(failure))
    print(READY, file=answers, flush=True)
    if sys.stdin.readline().strip() != GO:
        return JobOutcome(request.number, error="it was not told to begin")
    begin_s, before = time.time(), _Clock()
    counts, error = Counts(), ""
    try:
        counts = read(request.files)
    except Exception as failure:  # noqa: BLE001 - as above
        error = _said(failure)
    after = _Clock()
    return JobOutcome(
        request.number,
        begin_s,
        after.wall_s - before.wall_s,
        after.cpu_s - before.cpu_s,
        counts.events,
        counts.bytes_read,
        counts.read_calls,
        after.disk_bytes - before.disk_bytes,
        counts.phases,
        this_host(),
        this_processor(),
        error,
    )


class _Clock:
    """Wall and CPU time and bytes from disks, of this process and all that it has waited for."""

    def __init__(self) -> None:
        used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self.wall_s = time.perf_counter()
        self.cpu_s = sum(one.ru_utime + one.ru_stime for one in used)
        self.disk_bytes = sum(one.ru_inblock for one in used) * _BLOCK_BYTES


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:4000]
