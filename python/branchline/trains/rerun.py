"""Runs an earlier train again: one sub-job in this process, or all of it into another directory.

``rerun`` compares the result of a sub-job with the one that is kept, and lets a debugger look at it. ``reproduce`` runs
the whole train as it was, and says under which other conditions.
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
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.plan import TrainPlan, TrainRequest
from branchline.trains.reuse.reuse import LEARNING_NAME, TRAIN_NAME, Reuse
from branchline.trains.reuse.stored_train import Learning, StoredTrain
from branchline.trains.run import run_quietly
from branchline.trains.running.result import TrainResult
from branchline.trains.subjobs.share_result import ShareResult, WagonShare
from branchline.trains.subjobs.shares import ChunkSizes, Share
from branchline.trains.sums.digests import digest_of
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.train_worker import TrainWork


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


def find_share(plan: TrainPlan, which: str) -> int:
    """The index of a sub-job that is named by its number or by a file that it reads. Raises OptionError."""
    if which.isdecimal():
        if int(which) < len(plan.shares):
            return int(which)
        last = len(plan.shares) - 1
        raise OptionError(f"there is no sub-job {which}", hint=f"give a number from 0 to {last}, or a file")
    path = absolute(which)
    found = [index for index, share in enumerate(plan.shares) if any(one.path == path for one in share.files)]
    if not found:
        raise OptionError(f"no sub-job reads {which}", hint="write the file as job.json does, or give a number")
    if len(found) > 1:
        hint = f"give a number from {found[0]} to {found[-1]}"
        raise OptionError(f"{len(found)} sub-jobs read parts of {which}", hint=hint)
    return found[0]


def rerun_share(plan: TrainPlan, learning: Learning, index: int, *, debug: bool) -> ShareResult:
    """The result of a sub-job, made in this process. With ``debug`` an error opens Python's debugger where it came
    from.
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
        access=plan.settings.access,
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


# Opens a debugger at a traceback.
Debug = Callable[[TracebackType | None], None]


class _DebuggedWagon(Wagon):
    """A wagon whose errors a debugger sees before they stop it."""

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
    """A sub-job as the train handed it out."""
    learns = index < learning.shares_count or learning.step is None
    branches = plan.named_branches if learns else learning.branches
    share = learning.share(index, plan.shares[index], branches, plan.faults)
    return replace(share, learn=learns)


def same_as(kept: Mapping[str, WagonShare], result: ShareResult) -> dict[str, bool]:
    """Whether wagons that came through have the kept result, bit for bit; those without a kept one are left out."""
    return {
        name: digest_of(kept[name].total) == digest_of(one.total)
        for name, one in result.wagons.items()
        if one.error is None and name in kept and kept[name].error is None
    }


@dataclass(frozen=True)
class Reproduction:
    """A train that ran once more. ``conditions`` are sentences on what differed between both runs besides the results,
    ``notes`` what could not be done as then.
    """

    first: JobRecord
    result: TrainResult
    conditions: list[str]
    notes: list[str]


def reproduce(
    out: Path, into: Path, *, workers: int | None = None, present_code: bool = False, force: bool = False
) -> Reproduction:
    """Runs the train whose results are in ``out`` once more, into the directory ``into``.

    The code is that of the first run, which is kept with its results; with ``present_code`` that of the files as they
    are now. Nothing is taken from kept results. Raises MissingFileError if no train is kept, OptionError for a
    directory that cannot be, and what ``branchline.run`` raises.
    """
    out, into = out.absolute(), into.absolute()
    if out.resolve() == into.resolve():
        raise OptionError("the first results would be replaced", path=str(into), hint="give another directory with -o")
    first = _record_of(out)
    earlier = earlier_run(out)
    if earlier.ledger is not None:
        earlier.ledger.close()
    earlier.enter()
    plan, workers = _loaded(earlier, workers, present_code=present_code)
    settings = replace(plan.settings, workers=workers, on=None)
    request = TrainRequest(plan.loaded, plan.dataset, settings, command=first.command, reuse=False)
    result = run_quietly(request, into, force=force, pictures="none")
    return Reproduction(first, result, list(conditions(first, result.record)), earlier.notes)


def _record_of(out: Path) -> JobRecord:
    try:
        record = JobRecord.from_dict(json.loads((out / "job.json").read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise MissingFileError(f"there is no record of a run that can be read: {error}", path=str(out)) from None
    if record.status == RUNNING:
        raise OptionError("this run has not come to its end", path=str(out), hint="wait for it, or resume it")
    return record


def _loaded(earlier: EarlierRun, workers: int | None, *, present_code: bool) -> tuple[TrainPlan, int | None]:
    """The plan with its wagons, and the number of workers that can have their code."""
    stored = earlier.stored
    changed = [] if stored.sources is None else stored.sources.changed()
    if stored.sources is None:
        earlier.notes.append("the code of the first run is not kept: the present files of the wagons run")
    if present_code or not changed:
        return stored.loaded(), workers
    what = f"the code of the first run is used, since {', '.join(changed)} changed"
    earlier.notes.append(f"{what}; it runs in one process, which alone has it")
    return stored.loaded_as_it_was(), 0


def conditions(first: JobRecord, second: JobRecord) -> Iterator[str]:
    """What differs between two runs besides their results, in sentences."""
    if first.branchline != second.branchline:
        yield f"Branchline was {first.branchline}, and is {second.branchline} now"
    yield from _differences("", first.versions, second.versions)
    yield from _differences("the variable ", first.environment, second.environment)
    then = {one.module: one for one in first.sources}
    for one in second.sources:
        before = then.get(one.module)
        if before is not None and before.sha256 != one.sha256:
            commit = f" (commit {before.commit[:12]}, {before.state})" if before.commit else ""
            yield f"{one.path} is another one than then{commit}"
    sizes = {(one.path, one.tree): (one.size_bytes, one.entries) for one in first.dataset}
    now = {(one.path, one.tree): (one.size_bytes, one.entries) for one in second.dataset}
    for key in sizes.keys() - now.keys():
        yield f"{key[0]} is not read any more"
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
        # What only one run noted, as of an older version, says nothing.
        if then is not None and now is not None and then != now:
            yield f"{what}{name} was {then}, and is {now} now"
