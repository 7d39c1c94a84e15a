"""Watch storage elements with a small study at regular intervals, and store the history of its results.

A `StorageWatch` compares reads with those of a copy on this machine of the first storage element's files: ratios to it
do not change if the machine becomes faster or slower. `branchline.lab.studies.reference_watch` runs the reference job.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from branchline.errors import BranchlineError, OptionError
from branchline.lab.sampling.clients import copied_to
from branchline.lab.sampling.job import this_host
from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.sampling.study_files import files_of
from branchline.lab.statistics import PAIRS_MIN
from branchline.lab.studies.history import HistoryPoint, add_points, points_of
from branchline.lab.studies.study_run import FailedStudyError, StudyRun
from branchline.lab.study import Factor, JobSettings, Level, Study

REFERENCE, TURN = "reference", "turn"


@dataclass(frozen=True)
class WatchTurn:
    """A turn of a watch: the ``folder`` of the history, the start time, the seed, and a function for messages."""

    folder: Path
    at: str
    seed: int
    say: Callable[[str], None]

    @property
    def study(self) -> Path:
        """The directory of the turn's study."""
        return self.folder / TURN

    def failed(self, storage: str, error: str) -> HistoryPoint:
        """Return the result for a storage element that could not be measured."""
        return HistoryPoint(self.at, storage, error=error, lost=1, host=this_host(), seed=self.seed)


class Watch(Protocol):
    """Measurements that are repeated at regular intervals."""

    @property
    def where(self) -> tuple[str, ...]:
        """The storage elements, which all have the same files."""

    @property
    def files(self) -> tuple[str, ...]:
        """Patterns of the files below each storage element."""

    def check(self) -> None:
        """Raise OptionError for invalid settings."""

    def measured(self, there: tuple[str, ...], turn: WatchTurn) -> list[HistoryPoint]:
        """Measure the storage elements ``there``, whose files were found."""


@dataclass(frozen=True, kw_only=True)
class StorageWatch:
    """The settings for watching storage elements.

    ``where`` are the storage elements, which all have the same files, and ``client`` reads the files. A turn has
    ``pairs`` pairs and the time limit ``budget_s``. ``wait_s`` is the timeout of a job, and of copying a file to the
    reference.
    """

    where: tuple[str, ...]
    files: tuple[str, ...] = ("*.root",)
    tree: str = ""
    client: str = "bytes"
    pairs: int = PAIRS_MIN
    budget_s: float = 600.0
    wait_s: float = 300.0

    def check(self) -> None:
        """Raise OptionError for invalid settings."""
        if not self.where or len(set(self.where)) < len(self.where):
            raise OptionError("a schedule needs one or more distinct storages")
        if REFERENCE in self.where:
            raise OptionError(f"a storage cannot be called {REFERENCE!r}", hint="write ./reference")
        if self.pairs < PAIRS_MIN:
            raise OptionError(f"{self.pairs} pairs are too few for an interval", hint=f"use {PAIRS_MIN} or more")

    def study(self, reference: Path) -> Study:
        """Return the study that measures one turn. Its baseline is the copy of the files in the folder
        ``reference``.
        """
        levels = [Level(REFERENCE, {"where": (str(reference),), "files": ("*",)})]
        levels += [Level(one, {"where": (one,), "cold": True}) for one in self.where]
        return Study(
            question="How fast are the storages now?",
            job=JobSettings(files=self.files, tree=self.tree, client=self.client),
            factors=(Factor("storage", tuple(levels)),),
            baseline={"storage": REFERENCE},
            per="byte",
            precision=0.001,
            budget_s=self.budget_s,
            rounds_max=self.pairs,
            wait_s=self.wait_s,
            limits=False,
        )

    def measured(self, there: tuple[str, ...], turn: WatchTurn) -> list[HistoryPoint]:
        """Compare the storage elements with the copy on this machine, which the first turn makes."""
        reference = turn.folder / REFERENCE
        if not reference.exists():
            files = files_of(JobSettings(where=(there[0],), files=self.files)).of_jobs[0]
            partial = turn.folder / f"{REFERENCE}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            for number, one in enumerate(files):
                copied_to(one, partial / f"{number}.root", self.wait_s)
            partial.rename(reference)
        study = replace(self, where=there).study(reference)
        run = StudyRun(study, turn.study, turn.seed, HereAtOnce(turn.folder), turn.say)
        try:
            return points_of(run.run(), turn.at, this_host(), there)
        except FailedStudyError as error:
            return [turn.failed(one, str(error)) for one in there]


def take_turn(watch: Watch, folder: Path, seed: int, say: Callable[[str], None]) -> list[HistoryPoint]:
    """Measure all storage elements once and add the results to the history.

    An unavailable storage element is recorded as failed. The turn of a killed process is restarted. Raises OptionError
    if another process is taking a turn.
    """
    watch.check()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        turn = WatchTurn(folder, dt.datetime.now(dt.UTC).isoformat(timespec="seconds"), seed, say)
        shutil.rmtree(turn.study, ignore_errors=True)
        points, there = [], []
        for one in watch.where:
            try:
                files_of(JobSettings(where=(one,), files=watch.files))
                there.append(one)
            except BranchlineError as error:
                points.append(turn.failed(one, str(error)))
        if there:
            points += watch.measured(tuple(there), turn)
        add_points(folder, points)
        return points


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock out other processes that take turns. The system releases the lock if this process is killed."""
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OptionError("another process is taking a turn in this directory", path=str(folder), retry=True) from None
    try:
        yield
    finally:
        os.close(descriptor)


def wait_for_turn(begun_s: float, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
    """Sleep until the next turn is due. Return immediately if the previous turn took longer than the interval."""
    time.sleep(max(0.0, begun_s + every_s - now_s()))
