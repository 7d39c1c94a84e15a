"""Watching storages: a small paired study, turn after turn, kept as their history.

The reference is a copy of the first storage's files on this machine: the time beside it does not change when the
machine does.
"""

from __future__ import annotations

import datetime as dt
import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, kw_only=True)
class Watch:
    """What is watched: the same files at each storage of ``where``, read by ``client``. A turn has ``pairs`` pairs, and
    ends after ``budget_s``; a job, or the copy of a file for the reference, after ``wait_s``.
    """

    where: tuple[str, ...]
    files: tuple[str, ...] = ("*.root",)
    tree: str = ""
    client: str = "bytes"
    pairs: int = PAIRS_MIN
    budget_s: float = 600.0
    wait_s: float = 300.0

    def check(self) -> None:
        """Raises OptionError for what cannot be."""
        if not self.where or len(set(self.where)) < len(self.where):
            raise OptionError("a schedule needs storages, each once")
        if REFERENCE in self.where:
            raise OptionError(f"a storage cannot be called {REFERENCE!r}", hint="write ./reference")
        if self.pairs < PAIRS_MIN:
            raise OptionError(f"{self.pairs} pairs have no interval", hint=f"{PAIRS_MIN} or more have one")

    def study(self, reference: Path) -> Study:
        """The study of a turn, with the copy in ``reference`` as its baseline."""
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


def take_turn(watch: Watch, folder: Path, seed: int, say: Callable[[str], None]) -> list[HistoryPoint]:
    """Measures all storages once, and adds that to the history. A storage that is not there is in it as such. A turn
    that was killed is begun again. Raises OptionError when another process takes one.
    """
    watch.check()
    folder.mkdir(parents=True, exist_ok=True)
    with _alone(folder):
        at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        turn = folder / TURN
        shutil.rmtree(turn, ignore_errors=True)
        missing = _missing(watch)
        points = [
            HistoryPoint(at, one, error=said, lost=1, host=this_host(), seed=seed) for one, said in missing.items()
        ]
        there = tuple(one for one in watch.where if one not in missing)
        if there:
            points += _measured(watch, there, folder, seed, at, say)
        add_points(folder, points)
        return points


def _measured(
    watch: Watch, there: tuple[str, ...], folder: Path, seed: int, at: str, say: Callable[[str], None]
) -> list[HistoryPoint]:
    reference = _reference(watch, there[0], folder)
    settings = {**vars(watch), "where": there}
    run = StudyRun(Watch(**settings).study(reference), folder / TURN, seed, HereAtOnce(folder), say)
    try:
        return points_of(run.run(), at, this_host(), there)
    except FailedStudyError as error:
        return [HistoryPoint(at, one, error=str(error), lost=1, host=this_host(), seed=seed) for one in there]


def _missing(watch: Watch) -> dict[str, str]:
    """The storages whose files cannot be listed, with what was said."""
    found = {}
    for one in watch.where:
        try:
            files_of(JobSettings(where=(one,), files=watch.files))
        except BranchlineError as error:
            found[one] = str(error)
    return found


def _reference(watch: Watch, storage: str, folder: Path) -> Path:
    """The folder of the reference; its files are copied once. Raises ClientError."""
    reference = folder / REFERENCE
    if not reference.exists():
        files = files_of(JobSettings(where=(storage,), files=watch.files)).of_jobs[0]
        partial = folder / f"{REFERENCE}.partial"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        for number, one in enumerate(files):
            copied_to(one, partial / f"{number}.root", watch.wait_s)
        partial.rename(reference)
    return reference


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """While this process takes a turn no other does; the system lets go of the lock when it is killed."""
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OptionError("another process takes a turn in it", path=str(folder), retry=True) from None
    try:
        yield
    finally:
        os.close(descriptor)


def wait_for_turn(begun_s: float, every_s: float, now_s: Callable[[], float] = time.monotonic) -> None:
    """Sleeps until it is time for the next turn; one that took longer is followed at once."""
    time.sleep(max(0.0, begun_s + every_s - now_s()))
