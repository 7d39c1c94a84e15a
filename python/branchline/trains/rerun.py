"""Repeat an earlier train: a single sub-job in this process, or the whole train into another directory.

``rerun`` compares the sub-job's result with the stored result, and can open a debugger where an error is raised.
``reproduce`` repeats the whole train with its original code, and describes differences in package versions, environment
variables and files.
"""

from __future__ import annotations

import json
import os
import pdb
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType

from branchline.base.trust import unpickle
from branchline.errors import BranchlineError, MissingFileError, OptionError
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.ledger import LEDGER_NAME, Ledger, LedgerError
from branchline.jobs.local import InThisProcess
from branchline.jobs.subjob import Finished, SubJob
from branchline.reading.datasets.data_file import absolute
from branchline.records.sensors.record import RUNNING, JobRecord
from branchline.trains.out_folder.claim import JOBS, SUBMISSION
from branchline.trains.plan import TrainPlan, TrainRequest
from branchline.trains.reuse.reuse import LEARNING_NAME, TRAIN_NAME, Reuse
from branchline.trains.reuse.stored_train import Learning, StoredTrain
from branchline.trains.run import run_quietly
from branchline.trains.run_options import RunOptions
from branchline.trains.running.result import TrainResult
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import ChunkSizes, Share
from branchline.trains.sums.digests import digest_of
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.train_worker import TrainWork


@dataclass(frozen=True)
class Rerun:
    """The outcome of a repeated sub-job.

    ``same`` says, by wagon, whether the new result equals the stored result bit for bit. Wagons that failed or have no
    stored result are left out. ``notes`` say what was not compared, and why.
    """

    index: int
    label: str
    result: ShareResult
    same: dict[str, bool]
    notes: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        """Whether all wagons succeeded, and all compared results equal the stored results."""
        failed = any(one.error is not None for one in self.result.wagons.values())
        return not failed and self.result.error is None and all(self.same.values())


def rerun(out: Path, which: str, *, debug: bool = False) -> Rerun:
    """Run a sub-job in this process with the wagons' current code. The sub-job is given by its index or by one of its
    files.

    ``debug`` opens Python's debugger where a wagon raises. Raises MissingFileError if the directory contains no stored
    train, OptionError for an unknown sub-job, and LedgerError while a run is active in the directory.
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
        notes.append("no result of this code and these files is stored, so nothing is compared")
    return Rerun(index, plan.shares[index].label, result, same, notes)


@dataclass
class EarlierRun:
    """An earlier run: its train, the branches and chunk sizes that it learned, and the stored results of its
    sub-jobs.
    """

    stored: StoredTrain
    learning: Learning
    ledger: Ledger | None
    out: Path
    changed: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    unit_of_subjob: bool = False

    def enter(self) -> None:
        """Change to the directory where the run started, since file names may be relative to it."""
        try:
            os.chdir(self.stored.directory)
        except OSError as error:
            where = f"cannot change to the directory where the run started ({error.strerror})"
            self.notes.append(f"{where}: {self.stored.directory}; relative paths start at the current directory")

    def kept(self, plan: TrainPlan, index: int) -> Mapping[str, WagonShare]:
        """Return the cached results of a sub-job, by wagon."""
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
        self.notes += [f"no result of {name} is stored: {why}" for name, why in reuse.unknown.items()]
        return {} if kept is None else kept.wagons

    def kept_in_units(self, index: int) -> Mapping[str, WagonShare]:
        """Return the results that a job of a submitted train has stored for a sub-job, by wagon. If they cannot be
        read, a note is added.
        """
        from branchline.trains.submitted.submission_folder import BatchFolder
        from branchline.trains.submitted.units import UnitResult

        try:
            return UnitResult.read(BatchFolder(self.out), FoldNode(0, index)).folded.wagons
        except MissingFileError:
            pass  # A sub-job that has not finished has no stored result.
        except BranchlineError as error:
            self.notes.append(f"the stored result cannot be read: {error}")
        return {}


def earlier_run(out: Path) -> EarlierRun:
    """Return the earlier run stored in a directory. Raises MissingFileError if the directory contains no train, and
    LedgerError.
    """
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
        # Imported late, because few trains are submitted to a batch system.
        from branchline.trains.submitted.submission import Submission
        from branchline.trains.submitted.submission_folder import BatchFolder

        found = Submission.read(BatchFolder(out)).with_dataset(BatchFolder(out))
        is_unit = found.unit_stage == 0
        changed = found.sources.changed()
        return EarlierRun(found.stored_train(), found.learning, ledger, out, changed, notes, is_unit)
    stored = None if ledger is None else ledger.of_job(TRAIN_NAME)
    if ledger is None or not stored:
        what = "no train is stored in this directory, so it cannot be repeated"
        raise MissingFileError(
            what,
            path=str(out),
            hint="run the train again with this directory as -o; trains with secrets in URLs, or with wagons that "
            "cannot be pickled, are never stored",
        )
    train = unpickle(stored, StoredTrain)
    learned = ledger.of_job(LEARNING_NAME)
    step = train.plan.step
    at_start = Learning(train.plan.named_branches, None if step is None else ChunkSizes(step), 0)
    learning = unpickle(learned, Learning) if learned else at_start
    return EarlierRun(train, learning, ledger, out)


def find_share(plan: TrainPlan, which: str) -> int:
    """Return the index of a sub-job, given the index as text or a file that the sub-job reads. Raises OptionError."""
    if which.isdecimal():
        if int(which) < len(plan.shares):
            return int(which)
        last = len(plan.shares) - 1
        raise OptionError(f"no sub-job has the number {which}", hint=f"give a number from 0 to {last}, or a file")
    path = absolute(which)
    found = [index for index, share in enumerate(plan.shares) if any(one.path == path for one in share.files)]
    if not found:
        raise OptionError(f"no sub-job reads {which}", hint="give the file as in job.json, or a number")
    if len(found) > 1:
        hint = f"give a number from {found[0]} to {found[-1]}"
        raise OptionError(f"{len(found)} sub-jobs read parts of {which}", hint=hint)
    return found[0]


def rerun_share(plan: TrainPlan, learning: Learning, index: int, *, debug: bool) -> ShareResult:
    """Run a sub-job in this process and return its result. With ``debug``, Python's debugger opens where an error was
    raised.
    """
    enter: Debug = pdb.post_mortem
    wagons = tuple(_DebuggedWagon(one, enter) for one in plan.loaded.wagons) if debug else plan.loaded.wagons
    work = TrainWork(
        wagons=wagons,
        named_branches=plan.named_branches,
        step_size=plan.settings.step_size,
        memory_limit_bytes=plan.settings.memory_limit_bytes,
        threads=1,
        skip_bad_files=plan.settings.skip_bad_files,
        access=plan.settings.reading,
        seed=plan.settings.seed,
    )
    share = handed_out(plan, learning, index)
    left = [SubJob(index, share.label, share)]
    result = next(
        message.value
        for message in InThisProcess().run(work, lambda *_: left.pop() if left else None)
        if isinstance(message, Finished)
    )
    assert isinstance(result, ShareResult)
    if debug and result.error is not None:
        enter(result.error.error.__traceback__)
    return result


# A function that opens a debugger at a traceback.
Debug = Callable[[TracebackType | None], None]


class _DebuggedWagon(Wagon):
    """A wagon whose errors open a debugger before they are raised again."""

    def __init__(self, wagon: Wagon, debug: Debug) -> None:
        vars(self).update(vars(wagon))
        self._debug = debug

    def process(self, events: object) -> object:
        try:
            return super().process(events)
        except Exception as error:
            self._debug(error.__traceback__)
            raise


def handed_out(plan: TrainPlan, learning: Learning, index: int) -> Share:
    """Return the share of a sub-job exactly as the train sent it to a worker."""
    learns = index < learning.shares_count or learning.step is None
    branches = plan.named_branches if learns else learning.branches
    share = learning.share(index, plan.shares[index], branches, plan.faults)
    return replace(share, learn=learns)


def same_as(kept: Mapping[str, WagonShare], result: ShareResult) -> dict[str, bool]:
    """Return, by wagon, whether the result equals the cached result bit for bit. Wagons that failed or have no cached
    result are left out.
    """
    return {
        name: digest_of(kept[name].total) == digest_of(one.total)
        for name, one in result.wagons.items()
        if one.error is None and name in kept and kept[name].error is None
    }


@dataclass(frozen=True)
class Reproduction:
    """A repeated train. ``conditions`` are sentences about differences in the conditions of the two runs, such as
    package versions. ``notes`` say what could not be reproduced.
    """

    first: JobRecord
    result: TrainResult
    conditions: list[str]
    notes: list[str]


def reproduce(
    out: Path, into: Path, *, workers: int | None = None, present_code: bool = False, force: bool = False
) -> Reproduction:
    """Repeat the train whose results are in ``out``, and write the new results to the directory ``into``.

    The new run uses the code of the first run, which is stored with its results, or with ``present_code`` the current
    files of the wagons. Stored results are not reused.

    Raises MissingFileError if no train is stored, OptionError for an invalid directory, and the errors of
    ``branchline.run``.
    """
    out, into = out.absolute(), into.absolute()
    if out.resolve() == into.resolve():
        hint = "give another directory with -o"
        raise OptionError("the original results would be replaced", path=str(into), hint=hint)
    first = _record_of(out)
    earlier = earlier_run(out)
    if earlier.ledger is not None:
        earlier.ledger.close()
    earlier.enter()
    plan, workers = _loaded(earlier, workers, present_code=present_code)
    settings = replace(plan.settings, workers=workers, on=None)
    options = RunOptions(**vars(settings), command=first.command, reuse=False, force=force, pictures="none")
    result = run_quietly(TrainRequest(plan.loaded, plan.dataset, options), into)
    return Reproduction(first, result, list(conditions(first, result.record)), earlier.notes)


def _record_of(out: Path) -> JobRecord:
    try:
        record = JobRecord.from_dict(json.loads((out / "job.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise MissingFileError(f"cannot read the record of a run: {error}", path=str(out)) from None
    if record.status == RUNNING:
        raise OptionError("this run is not finished", path=str(out), hint="wait for it, or resume it")
    return record


def _loaded(earlier: EarlierRun, workers: int | None, *, present_code: bool) -> tuple[TrainPlan, int | None]:
    """Return the plan with its wagons, and the number of workers. The number is 0 if stored code is used, because only
    this process can load it.
    """
    stored = earlier.stored
    changed = [] if stored.sources is None else stored.sources.changed()
    if stored.sources is None:
        earlier.notes.append("the code of the first run is not stored, so the present files of the wagons are used")
    if present_code or not changed:
        return stored.loaded(), workers
    what = f"the code of the first run is used, since {', '.join(changed)} changed"
    earlier.notes.append(f"{what}; it runs in a single process, since only this one can load it")
    return stored.loaded_as_it_was(), 0


def conditions(first: JobRecord, second: JobRecord) -> Iterator[str]:
    """Describe the differences between two runs in versions, environment variables, source files and dataset."""
    if first.branchline != second.branchline:
        yield f"Branchline was {first.branchline}, and is {second.branchline} now"
    yield from _differences("", first.versions, second.versions)
    yield from _differences("the variable ", first.environment, second.environment)
    then = {one.module: one for one in first.sources}
    for one in second.sources:
        before = then.get(one.module)
        if before is not None and before.sha256 != one.sha256:
            commit = f" (commit {before.commit[:12]}, {before.state})" if before.commit else ""
            yield f"the source {one.path} differs{commit}"
    sizes = {(one.path, one.tree): (one.size_bytes, one.entries) for one in first.dataset}
    now = {(one.path, one.tree): (one.size_bytes, one.entries) for one in second.dataset}
    for key in sizes.keys() - now.keys():
        yield f"{key[0]} is no longer read"
    for key in now.keys() - sizes.keys():
        yield f"{key[0]} was not read then"
    for key in sorted(sizes.keys() & now.keys(), key=str):
        if None not in (*sizes[key], *now[key]) and sizes[key] != now[key]:
            (had_bytes, had_entries), (has_bytes, has_entries) = sizes[key], now[key]
            had = f"{had_bytes} bytes and {had_entries} entries"
            yield f"{key[0]} had {had}, and has {has_bytes} bytes and {has_entries} entries now"


def _differences(what: str, first: Mapping[str, str], second: Mapping[str, str]) -> Iterator[str]:
    for name in sorted(first.keys() | second.keys()):
        then, now = first.get(name), second.get(name)
        # A value that only one of the runs recorded, for example because the other used an older version, is not a
        # difference.
        if then is not None and now is not None and then != now:
            yield f"{what}{name} was {then}, and is {now} now"
