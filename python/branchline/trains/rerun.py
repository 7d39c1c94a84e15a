"""Runs one sub-job of an earlier run here, and compares its result with the one that is kept."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.trust import unpickle
from branchline.errors import BranchlineError, MissingFileError
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.ledger import LEDGER_NAME, Ledger, LedgerError
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.plan import TrainPlan
from branchline.trains.rerunning import find_share, handed_out, rerun_share, same_as
from branchline.trains.reuse.reuse import LEARNING_NAME, TRAIN_NAME, Reuse
from branchline.trains.reuse.stored_train import Learning, StoredTrain
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import ChunkSizes


@dataclass(frozen=True)
class Rerun:
    """What came out. ``same`` says by wagon whether its result is the kept one, bit for bit; a wagon that failed, or of
    which nothing is kept, is not in it. ``notes`` say what was not compared, and why.
    """

    index: int
    label: str
    result: ShareResult
    same: dict[str, bool]
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether all wagons came through, with the kept results."""
        failed = any(one.error is not None for one in self.result.wagons.values())
        return not failed and self.result.error is None and all(self.same.values())


@dataclass
class EarlierRun:
    """An earlier run: its train, what it learned, and what is kept of its sub-jobs."""

    stored: StoredTrain
    learning: Learning
    ledger: Ledger | None
    out: Path
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unit_of_subjob: bool = False

    def enter(self) -> None:
        """Goes to where the run began, from where its files may be named."""
        try:
            os.chdir(self.stored.directory)
        except OSError as error:
            where = f"the directory in which the run began cannot be entered ({error.strerror})"
            self.notes.append(f"{where}: {self.stored.directory}; relative paths are looked for from here")

    def kept(self, plan: TrainPlan, index: int) -> Mapping[str, WagonShare]:
        """What is kept of a sub-job, by wagon."""
        found = self._in_ledger(plan, index)
        if not found and self.unit_of_subjob:
            found = self.kept_in_units(index)
        return found

    def _in_ledger(self, plan: TrainPlan, index: int) -> Mapping[str, WagonShare]:
        if self.ledger is None or self.learning.step is None:
            return {}
        reuse = Reuse(self.ledger, plan, takes=True)
        reuse.begin(self.learning)
        kept = reuse.find(index, handed_out(plan, self.learning, index))
        self.notes += [f"of {name} nothing is kept: {why}" for name, why in reuse.unknown.items()]
        return {} if kept is None else kept.wagons

    def kept_in_units(self, index: int) -> Mapping[str, WagonShare]:
        """What the jobs of a submitted train left of a sub-job; a result that cannot be read is noted."""
        from branchline.trains.submitted.submission_folder import BatchFolder
        from branchline.trains.submitted.units import UnitResult

        try:
            return UnitResult.read(BatchFolder(self.out), FoldNode(0, index)).folded.wagons
        except MissingFileError:
            pass  # It has not come to its end.
        except BranchlineError as error:
            self.notes.append(f"the kept result cannot be read: {error}")
        return {}


def rerun(out: Path, which: str, *, debug: bool = False) -> Rerun:
    """Runs a sub-job, named by its number or by a file, in this process, with the wagons as their files are now.

    ``debug`` opens Python's debugger where a wagon raises. Raises MissingFileError if no train is kept in the
    directory, OptionError for a sub-job that is not there, LedgerError while a run is at work there.
    """
    out = out.absolute()
    earlier = earlier_run(out)
    earlier.enter()
    plan = earlier.learning.plan(earlier.stored.loaded())
    index = find_share(plan, which)
    notes_before = len(earlier.notes)
    kept = earlier.kept(plan, index)
    result = rerun_share(plan, earlier.learning, index, debug=debug)
    same = same_as(kept, result)
    are_explained = len(earlier.notes) > notes_before
    notes = [f"{path} changed since the run" for path in earlier.changed] + earlier.notes
    if not (same or are_explained):
        notes.append("there is no kept result of this code and these files to compare with")
    return Rerun(index, plan.shares[index].label, result, same, notes)


def earlier_run(out: Path) -> EarlierRun:
    """The train that is kept in a directory. Raises MissingFileError if there is none, LedgerError."""
    ledger = None
    notes = []
    if (out / LEDGER_NAME).is_file():
        try:
            ledger = Ledger(out / LEDGER_NAME, reads_only=True)
        except LedgerError as error:
            if not (out / JOBS / SUBMISSION).is_file():
                raise
            notes.append(f"nothing is compared: {error}")
    if (out / JOBS / SUBMISSION).is_file():
        # Imported here since few runs are submitted.
        from branchline.trains.submitted.submission import Submission
        from branchline.trains.submitted.submission_folder import BatchFolder

        found = Submission.read(BatchFolder(out))
        is_unit = found.unit_stage == 0
        changed = found.sources.changed()
        return EarlierRun(found.stored_train(), found.learning, ledger, out, changed, notes, is_unit)
    stored = None if ledger is None else ledger.of_job(TRAIN_NAME)
    if ledger is None or not stored:
        what = "no train is kept here, so none of its sub-jobs can be run again"
        raise MissingFileError(
            what,
            path=str(out),
            hint="run the train once more with this directory as -o; one whose URLs have secrets, or whose wagons "
            "cannot be pickled, is never kept",
        )
    train = unpickle(stored)
    learned = ledger.of_job(LEARNING_NAME)
    step = train.plan.step
    at_start = Learning(train.plan.named_branches, None if step is None else ChunkSizes(step), 0)
    learning = unpickle(learned) if learned else at_start
    return EarlierRun(train, learning, ledger, out)
