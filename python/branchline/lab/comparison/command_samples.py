"""Samples of a comparison: each is one run of a command, with its times."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Protocol

from branchline.base.limits import TRIAL_LOG_MAX_BYTES
from branchline.base.texts import end_of_log
from branchline.errors import OptionError
from branchline.lab.sampling.machine import Moment, Surroundings
from branchline.lab.sampling.page_cache import Temperature
from branchline.records.result_files.job_files import JOB
from branchline.records.sensors.record import JobRecord

#: Size of a block in ru_inblock (getrusage(2)).
_BLOCK_BYTES = 512


@dataclass(frozen=True)
class ArmRun:
    """One run of ``arm`` in a round.

    ``position`` is its position in the round, from 0. ``wall_s`` and ``cpu_s`` include child processes. ``code`` is the
    exit code, ``said`` the end of the output of a failed run. ``phases`` has the seconds of each phase if a train or a
    reading ran. ``load`` is the load average of the machine before the run.

    ``cached_bytes`` is the part of the cold files that the page cache still held, None without cold files.
    ``temperature`` describes the page cache in detail, for readings only. ``events`` is the number of entries that a
    reading read. ``disk_bytes`` is the number of bytes read from disks according to the kernel. ``surroundings`` is
    the other activity on the machine.
    """

    arm: str
    round: int
    position: int
    wall_s: float
    cpu_s: float
    code: int = 0
    phases: dict[str, float] = field(default_factory=dict)
    load: float = 0.0
    cached_bytes: int | None = None
    said: str = ""
    temperature: Temperature | None = None
    events: int | None = None
    disk_bytes: int = 0
    surroundings: Surroundings = field(default_factory=Surroundings)


class ComparedSubject(Protocol):
    """What is compared: a command, or the reading of files."""

    @property
    def name(self) -> str:
        """Name of the subject in the result."""

    @property
    def whole(self) -> list[str]:
        """All words of the command, or of the description of the reading."""

    @property
    def output(self) -> Path | None:
        """Output directory of the command, if it is known."""

    def prepare(self, wait_s: float) -> None:
        """Prepare the subject. Called once, before the first sample."""

    def taken(self, round_number: int, position: int, cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Run the subject once. A run that exceeds ``wait_s`` is killed and has a nonzero exit code."""


@dataclass(frozen=True)
class ShellCommand:
    """A command that is compared. ``added`` are options that are appended for repeated runs."""

    name: str
    words: tuple[str, ...]
    added: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, text: str) -> ShellCommand:
        """Parse a shell command, without pipes and variables. Raises OptionError."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise OptionError(f"cannot parse the command {text!r:.200}: {error}") from None
        if not words:
            raise OptionError(f"command {name} is empty", hint="quote both commands")
        added: tuple[str, ...] = ()
        if Path(words[0]).name == "branchline" and words[1:2] == ["run"]:
            # Without these options, the second run would reuse the results of the first one.
            added = tuple(one for one in ("--force", "--no-reuse") if one not in words)
        return cls(name, tuple(words), added)

    @property
    def whole(self) -> list[str]:
        """All words of the command, with the added options."""
        return [*self.words, *self.added]

    @property
    def output(self) -> Path | None:
        """Output directory if the command runs a train."""
        for option in ("-o", "--output"):
            if option in self.words[:-1] and self.words[1:2] == ("run",):
                return Path(self.words[self.words.index(option) + 1])
        return None

    def prepare(self, wait_s: float) -> None:
        """Do nothing; commands need no preparation."""

    def taken(self, round_number: int, position: int, cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Run the command once. Raises OptionError if the program does not exist."""
        load, before = os.getloadavg()[0], Moment.now()
        with tempfile.TemporaryFile() as log:
            begin_s = time.perf_counter()
            process = _started(self.whole, log)
            timer = threading.Timer(wait_s, _end, (process,))
            timer.start()
            try:
                _, status, usage = os.wait4(process.pid, 0)
            except BaseException:
                _end(process)
                raise
            finally:
                timer.cancel()
            wall_s = time.perf_counter() - begin_s
            process.returncode = code = os.waitstatus_to_exitcode(status)
            said = end_of_log(log, TRIAL_LOG_MAX_BYTES) if code else ""
        cpu_s = usage.ru_utime + usage.ru_stime
        beside = Surroundings.between(before, Moment.now(), cpu_s, Path.cwd())
        return ArmRun(
            self.name,
            round_number,
            position,
            wall_s,
            cpu_s,
            code,
            _phases(self.output) if not code else {},
            load,
            cached_bytes,
            said,
            disk_bytes=usage.ru_inblock * _BLOCK_BYTES,
            surroundings=beside,
        )


def _started(words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own command
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    except OSError as error:
        raise OptionError(f"{words[0]} cannot be run: {error.strerror}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a command and its child processes."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _phases(output: Path | None) -> dict[str, float]:
    """Return the seconds of a train's phases; empty for other programs."""
    if output is None:
        return {}
    try:
        record = JobRecord.from_dict(json.loads((output / JOB).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return {name: seconds for name, seconds in record.phases.items() if seconds > 0}
