"""Program of the supervisor process, which runs a train in the sandbox and enforces the train's limits.

Usage: ``python -m branchline.control.trains.supervisor SETTINGS RESULTS``. The supervisor continues when the server
ends. If the supervisor is killed, the train ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.quantities import count, size
from branchline.base.whole_files import write_whole
from branchline.control.sandbox.sandbox import (
    SANDBOX_END_S,
    SANDBOX_FOLDER_LOOK_S,
    SANDBOX_LOOK_S,
    WRITTEN_FILES_MAX,
    Sandbox,
)
from branchline.control.sandbox.watch import ProcessWatch
from branchline.control.trains.sandbox_runner import Supervised

_PIECE_BYTES = 2**16


@dataclass
class Supervisor:
    """Runs and supervises one train."""

    settings: Supervised
    is_asked_to_end: bool = False
    _said: bytearray = field(default_factory=bytearray)
    _is_log_new: bool = False
    _folder_looked_s: float = float("-inf")

    def run(self) -> int:
        """Run the train to its end. Return the exit code of the train's process."""
        process = subprocess.Popen(  # noqa: S603 - command from the server
            self.settings.command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            # The sandbox clears its own environment, but the environment of bwrap is readable in /proc.
            env=Sandbox.environment,
        )
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        try:
            why = self._watched(process)
            if why:
                write_whole(Path(self.settings.why), why.encode())
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._listen(process.stdout.fileno())
            self._keep_log()
        return process.returncode

    def _watched(self, process: subprocess.Popen[bytes]) -> str:
        """Wait for the end of the train's process. Return the reason to kill the train; empty if it ended by itself."""
        assert process.stdout is not None
        limits = self.settings.limits
        watch = ProcessWatch(process.pid, limits.memory_bytes, limits.tasks)
        begin_s = time.monotonic()
        end_s = float("inf")
        while process.poll() is None:
            time.sleep(SANDBOX_LOOK_S)
            self._listen(process.stdout.fileno())
            self._keep_log()
            now_s = time.monotonic()
            if self.is_asked_to_end and end_s == float("inf"):
                _ask_to_end(process.pid)
                end_s = now_s + SANDBOX_END_S
            if now_s > end_s:
                return "it was cancelled"
            if now_s - begin_s > 3600 * limits.hours:
                return f"it ran for more than {limits.hours:g} hours and was ended"
            if excess := watch.excess() or self._folder_excess():
                return f"{excess} and was ended"
        return ""

    def _listen(self, output: int) -> None:
        """Read the available output of the train and keep the end of the output."""
        with suppress(BlockingIOError):
            # The number of reads is limited, so that endless output does not stop the supervision.
            for _ in range(100):
                if not (piece := os.read(output, _PIECE_BYTES)):
                    return
                self._said += piece
                self._is_log_new = True
                del self._said[:-TRIAL_LOG_MAX_BYTES]

    def _keep_log(self) -> None:
        if self._is_log_new:
            self._is_log_new = False
            write_whole(Path(self.settings.log), bytes(self._said))

    def _folder_excess(self) -> str:
        """Return which limit the train's folder exceeds; empty for none, or if the last check is too recent."""
        begin_s = time.monotonic()
        if begin_s - self._folder_looked_s < SANDBOX_FOLDER_LOOK_S:
            return ""
        files, bytes_written = 0, 0
        folders = [self.settings.written]
        while folders:
            with suppress(OSError), os.scandir(folders.pop()) as entries:
                for one in entries:
                    files += 1
                    if files > WRITTEN_FILES_MAX:
                        return f"it wrote more than {count(WRITTEN_FILES_MAX)} files"
                    with suppress(OSError):
                        bytes_written += one.stat(follow_symlinks=False).st_blocks * 512
                    if one.is_dir(follow_symlinks=False):
                        folders.append(one.path)
        # Delay the next check, so that checks of a folder with many files take at most 5 % of the time.
        self._folder_looked_s = begin_s + 20 * (time.monotonic() - begin_s)
        limit_bytes = self.settings.limits.results_bytes
        return f"it wrote more than {size(limit_bytes)}" if bytes_written > limit_bytes else ""


def _ask_to_end(process: int) -> None:
    """Send SIGTERM to the train's own process, which is a grandchild of the sandbox process ``process``."""
    with suppress(psutil.Error):
        for first in psutil.Process(process).children():
            for train in first.children():
                with suppress(psutil.Error):
                    train.send_signal(signal.SIGTERM)


def main() -> int:
    """Supervise the train of the settings file on the command line."""
    supervisor = Supervisor(Supervised.read(Path(sys.argv[1])))

    def end(_signal: int, _frame: object) -> None:
        supervisor.is_asked_to_end = True

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    return supervisor.run()


if __name__ == "__main__":
    sys.exit(main())
