"""Watch the processes of a running trial: limit and end them, and receive the outcome through a pipe."""

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

from branchline.base.environment import TRIAL
from branchline.base.limits import TRIAL_MEMORY_MAX_BYTES, TRIAL_OUTCOME_MAX_BYTES, TRIAL_TASKS_MAX, TRIAL_WATCH_S
from branchline.base.quantities import count, size

#: Environment variable that marks all processes of a trial, including processes that left the trial's process group.
TRIAL_MARK = TRIAL
# Maximum number of rounds that search for and kill marked processes, and the wait after each round in seconds. Several
# rounds are needed, because a process may start new processes before it is killed.
_ENDINGS_MAX, _END_WAIT_S = 20, 0.1


@dataclass
class OutcomePipe:
    """A pipe into which a process writes its outcome.

    User code can also write to the pipe. The content is therefore untrusted, limited in size, and read without
    blocking. A file would be less safe, because user code could replace a file by a link or by a pipe that never ends.
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
        """Close the write end in this process. Only the started process then holds the write end."""
        if self.writing >= 0:
            os.close(self.writing)
            self.writing = -1

    @property
    def is_too_long(self) -> bool:
        """Whether the content exceeds the maximum length of an outcome."""
        return len(self.content) > TRIAL_OUTCOME_MAX_BYTES

    def read(self) -> None:
        """Read the available bytes and append them to ``content``."""
        with suppress(BlockingIOError):
            while not self.is_too_long and (piece := os.read(self.reading, 2**16)):
                self.content += piece


@dataclass
class ProcessWatch:
    """Limits on the total memory and number of a process's descendants. The kernel can only limit each process alone.

    A limit of 0 means the limit of a trial.
    """

    process: int
    memory_max_bytes: int = 0
    tasks_max: int = 0
    _looked_s: float = float("-inf")

    def excess(self) -> str:
        """Return which limit is exceeded, as the beginning of a sentence.

        Returns an empty string if no limit is exceeded, or if the last check was less than ``TRIAL_WATCH_S`` seconds
        ago.
        """
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
        return f"it used more than {size(memory_max)} of memory" if memory_bytes > memory_max else ""


def end_all(process: subprocess.Popen[bytes], mark: str) -> None:
    """Kill a process and all its descendants.

    Descendants in a sandbox end together with the sandbox's first process.
    """
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
    """Yield the running processes whose variable TRIAL_MARK is ``mark``."""
    for one in psutil.process_iter():
        with suppress(psutil.Error):
            if one.status() != psutil.STATUS_ZOMBIE and one.environ().get(TRIAL_MARK) == mark:
                yield one
