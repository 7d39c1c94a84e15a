"""One job of a study in its own process, with its own session.

The process reads a request from standard input, prepares the client, reports that it is ready, waits for the signal to
start, and prints the outcome. Each message is one line. The output of libraries is redirected to standard error.
"""

from __future__ import annotations

import os
import resource
import select
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TextIO

from branchline.jobs.interruption import SIGNALS
from branchline.jobs.workers.fork_server import Forkable
from branchline.lab.sampling.clients import prepare, reader_of
from branchline.lab.sampling.job import Counts, JobOutcome, JobRequest, this_host
from branchline.records.sensors.this_process import processor

READY, GO = "ready", "go"
#: Size of a block in ru_inblock (getrusage(2)).
_BLOCK_BYTES = 512


@dataclass(frozen=True)
class ForkableJob(Forkable):
    """A job with this client, which runs with one descriptor, its standard input."""

    client: str

    def prepare(self) -> None:
        prepare(self.client)

    def run(self, descriptors: Sequence[int], _loading_cpu_s: float) -> None:
        """Run the job that the study requests, exchanging messages with the study over standard input and output."""
        os.setsid()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        os.dup2(descriptors[0], 0)
        os.close(descriptors[0])
        _end_with_parent()
        answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        request = JobRequest.from_json(sys.stdin.readline())
        outcome = _outcome(request, answers)
        print(outcome.to_json(), file=answers, flush=True)
        # Skip Python's shutdown, because ROOT and other libraries may take seconds to exit, or crash.
        os._exit(0)


def _end_with_parent() -> None:
    """Fork a process that watches the pipe from the study. If the study ends for any reason, the watching process kills
    this job and all its child processes. A thread could not do that, since ROOT blocks other Python threads.
    """
    if os.fork() != 0:
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)  # Otherwise the study would not see the end of the job's output.
    pipe = select.poll()
    pipe.register(0, 0)  # POLLHUP is reported even without requested events (poll(2)).
    pipe.poll()
    os.killpg(0, signal.SIGKILL)


def _outcome(request: JobRequest, answers: TextIO) -> JobOutcome:
    try:
        read = reader_of(request)
    except Exception as failure:  # noqa: BLE001 - any exception of a client is a failure of the job
        return JobOutcome(request.number, error=_said(failure))
    print(READY, file=answers, flush=True)
    if sys.stdin.readline().strip() != GO:
        return JobOutcome(request.number, error="no signal to start was received")
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
        processor(),
        error,
        reference=counts.reference,
    )


class _Clock:
    """Wall time, CPU time and bytes read from disks, of this process and its finished child processes."""

    def __init__(self) -> None:
        used = [resource.getrusage(one) for one in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        self.wall_s = time.perf_counter()
        self.cpu_s = sum(one.ru_utime + one.ru_stime for one in used)
        self.disk_bytes = sum(one.ru_inblock for one in used) * _BLOCK_BYTES


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:4000]
