"""A sample: one run of a command, with its times."""

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
from branchline.base.texts import printable
from branchline.errors import OptionError
from branchline.lab.sampling.machine import Moment, Surroundings
from branchline.lab.sampling.page_cache import Temperature
from branchline.records.result_files.job_files import JOB
from branchline.records.sensors.record import JobRecord

#: What ru_inblock counts in (getrusage(2)).
_BLOCK_BYTES = 512


@dataclass(frozen=True)
class ArmRun:
    """A run of ``arm`` in a round: its position there, from 0, seconds of wall and CPU time with all that it started,
    its exit code, and the seconds of its phases if it was a train or a reading. ``load`` is that of the machine before
    it, ``cached_bytes`` what the page cache had of the files that had to be cold; None where none had to be.
    ``temperature`` says so of a reading, and ``events`` how many entries it read. ``disk_bytes`` came from disks, as
    the kernel counts it for its processes. ``notes`` are what disturbed it.
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
    notes: list[str] = field(default_factory=list)


class Subject(Protocol):
    """What is compared: a command, or the reading of files."""

    @property
    def name(self) -> str:
        """What the answer calls it."""

    @property
    def whole(self) -> list[str]:
        """Its words, all of them."""

    @property
    def output(self) -> Path | None:
        """The directory that it writes to, where that is known."""

    def prepare(self, wait_s: float) -> None:
        """Is called once, before the first sample."""

    def taken(self, round_number: int, position: int, cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Runs once. What lasts longer than ``wait_s`` is ended, and has a code that is not 0."""


@dataclass(frozen=True)
class Command:
    """A command that is compared. ``added`` are options that it needs to be run again and again."""

    name: str
    words: tuple[str, ...]
    added: tuple[str, ...] = ()

    @classmethod
    def of(cls, name: str, text: str) -> Command:
        """A command as it is written in a shell; pipes and variables are not for it. Raises OptionError."""
        try:
            words = shlex.split(text)
        except ValueError as error:
            raise OptionError(f"{text!r:.200} is no command: {error}") from None
        if not words:
            raise OptionError(f"command {name} is empty", hint="write both commands in quotes")
        added: tuple[str, ...] = ()
        if Path(words[0]).name == "branchline" and words[1:2] == ["run"]:
            # The second time results of the first would be taken.
            added = tuple(one for one in ("--force", "--no-reuse") if one not in words)
        return cls(name, tuple(words), added)

    @property
    def whole(self) -> list[str]:
        """All its words."""
        return [*self.words, *self.added]

    @property
    def output(self) -> Path | None:
        """The directory of results, if it is a train."""
        for option in ("-o", "--output"):
            if option in self.words[:-1] and self.words[1:2] == ("run",):
                return Path(self.words[self.words.index(option) + 1])
        return None

    def prepare(self, wait_s: float) -> None:
        """Nothing is to be done."""

    def taken(self, round_number: int, position: int, cached_bytes: int | None, wait_s: float) -> ArmRun:
        """Runs it once. Raises OptionError for a program that is not there."""
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
            said = _said(log) if code else ""
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
            notes=list(beside.notes),
        )


def _started(words: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - the user's own command
            words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
    except OSError as error:
        raise OptionError(f"{words[0]} cannot be run: {error.strerror}") from None


def _end(process: subprocess.Popen[bytes]) -> None:
    """Ends a command with what it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _said(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - TRIAL_LOG_MAX_BYTES))
    return printable(log.read().decode(errors="replace")).strip()


def _phases(output: Path | None) -> dict[str, float]:
    """Where the time of a train went; empty for any other program."""
    if output is None:
        return {}
    try:
        record = JobRecord.from_dict(json.loads((output / JOB).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
    return {name: seconds for name, seconds in record.phases.items() if seconds > 0}
