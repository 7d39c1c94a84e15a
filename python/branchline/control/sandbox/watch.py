"""What a trial that runs is watched for, the pipe by which its outcome comes, and its end."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType

import psutil

from branchline.base.limits import TRIAL_MEMORY_MAX_BYTES, TRIAL_OUTCOME_MAX_BYTES, TRIAL_TASKS_MAX, TRIAL_WATCH_S
from branchline.base.quantities import count, size

#: A variable of the environment by which all processes of a trial are found, also those that left its group.
TRIAL_MARK = "BRANCHLINE_TRIAL"
# How often processes are looked for, and for how long: those that were found may have started others meanwhile.
_ENDINGS_MAX, _END_WAIT_S = 20, 0.1


@dataclass
class OutcomePipe:
    """A pipe into which a process writes its outcome. Code of users can write to it, too: what comes is bounded, read
    without waiting, and nothing but bytes. A file could be a link to another one, or a pipe without an end.
    """

    content: bytearray = field(default_factory=bytearray)
    reading: int = -1
    writing: int = -1

    def __enter__(self) -> OutcomePipe:
        self.reading, self.writing = os.pipe()
        os.set_blocking(self.reading, False)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, trace: TracebackType | None) -> None:
        self.close_writing()
        os.close(self.reading)

    def close_writing(self) -> None:
        """Leaves the end for writing to the process that was started."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    @property
    def is_too_long(self) -> bool:
        """Whether more has come than an outcome has."""
        return len(self.content) > TRIAL_OUTCOME_MAX_BYTES

    def read(self) -> None:
        """Takes what is there by now."""
        with suppress(BlockingIOError):
            while not self.is_too_long and (piece := os.read(self.reading, 2**16)):
                self.content += piece


@dataclass
class Watch:
    """What a process and all that it has started take together: limits of the kernel are for each of them alone. 0 is
    the limit of a trial.
    """

    process: int
    memory_max_bytes: int = 0
    tasks_max: int = 0
    _looked_s: float = float("-inf")

    def excess(self) -> str:
        """What is too much, as a sentence begins; empty if nothing is, or if it is too early to look again."""
        if time.monotonic() - self._looked_s < TRIAL_WATCH_S:
            return ""
        self._looked_s = time.monotonic()
        tasks_max = self.tasks_max or TRIAL_TASKS_MAX
        memory_max = min(self.memory_max_bytes or TRIAL_MEMORY_MAX_BYTES, psutil.virtual_memory().total // 2)
        memory_bytes = 0
        with suppress(psutil.Error):
            tasks = psutil.Process(self.process).children(recursive=True)
            if len(tasks) > tasks_max:
                return f"it had more than {count(tasks_max)} processes"
            for one in tasks:
                with suppress(psutil.Error):
                    found = one.memory_info()
                    memory_bytes += found.rss - found.shared
        return f"it took more than {size(memory_max)} of memory" if memory_bytes > memory_max else ""


def end_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """Ends the process with all that it started. Those of a sandbox end with its first process."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    for _ in range(_ENDINGS_MAX):
        left = list(_marked(mark))
        for one in left:
            with suppress(psutil.Error):
                one.kill()
        if not left:
            return
        psutil.wait_procs(left, timeout=_END_WAIT_S)


def _marked(mark: str) -> Iterator[psutil.Process]:
    """The processes of a trial that still run."""
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            if one.status() != psutil.STATUS_ZOMBIE and one.environ().get(TRIAL_MARK) == mark:
                yield one
