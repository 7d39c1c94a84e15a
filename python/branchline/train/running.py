"""One train run: from wagons and a dataset to results, with a record of where the time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from branchline.dataset import DataFile, Dataset
from branchline.errors import BranchlineError, NoSuchKeyError
from branchline.jobs import Finished, Interruption, InThisProcess, LocalProcesses, Message, Place
from branchline.limits import STEP_MAX_ENTRIES, parse_bytes
from branchline.sensors import cpu_count, cpu_s, machine_cpu_s
from branchline.train.clock import PhaseClock
from branchline.train.job_record import JobRecord, postprocess
from branchline.train.merging import Merger
from branchline.train.plan import cut, open_tree, step_entries
from branchline.train.progress import ProgressLog, TrainProgress
from branchline.train.result import TrainResult
from branchline.train.share_result import JobError, Learned, Progress, WorkerTimes
from branchline.train.supply import Supply
from branchline.train.wagons import Wagon, wagons_of
from branchline.train.work import READ_ERRORS, TrainWork


def run_train(
    wagons: Any,
    dataset: Any,
    *,
    workers: int | None,
    tree: str | None,
    branches: Sequence[str] | None,
    step_size: int | str,
    memory_limit: int | str,
    skip_bad_files: bool,
    progress: Callable[[TrainProgress], None] | None,
    command: str,
) -> TrainResult:
    """Runs wagons over a dataset; ``branchline.run`` says what the arguments are and what is raised."""
    train = _Train(workers, branches, step_size, memory_limit, skip_bad_files, progress)
    with train.clock.during("start"):
        train.load(wagons)
    with train.clock.during("plan"):
        train.plan(dataset, tree)
    return train.go(command)


class _Train:
    """The steps of a run, in the order of its methods."""

    def __init__(
        self,
        workers: int | None,
        branches: Sequence[str] | None,
        step_size: int | str,
        memory_limit: int | str,
        skip_bad_files: bool,
        progress: Callable[[TrainProgress], None] | None,
    ) -> None:
        self.clock = PhaseClock("other")
        self._cpu_begin_s = cpu_s()
        self._machine_cpu_begin_s = machine_cpu_s()
        self._started = datetime.now(UTC)
        if workers is not None and workers < 1:
            raise BranchlineError(f"{workers} workers cannot run a train", hint="give 1 or more")
        self._workers_wanted = workers
        self._given_branches = None if branches is None else tuple(branches)
        if (step_size if isinstance(step_size, int) else parse_bytes(step_size)) < 1:
            what = f"{step_size} entries" if isinstance(step_size, int) else step_size
            raise BranchlineError(f"a step of {what} is none", hint='write it like 10000 (entries) or "100 MB"')
        self._step_size = step_size
        self._memory_limit_bytes = parse_bytes(memory_limit)
        self._skip_bad_files = skip_bad_files
        self._progress = progress
        self._times: dict[int, WorkerTimes] = {}
        self._stopped_by: JobError | None = None

    def load(self, wagons: Any) -> None:
        """Finds the wagons, and what they want to read."""
        found, self._modules = wagons_of(wagons)
        self._wagons: tuple[Wagon, ...] = tuple(found)
        named = [*(self._given_branches or ())]
        for wagon in self._wagons:
            named += wagon.branches or ()
        self._named = tuple(dict.fromkeys(named))
        self._learns = self._given_branches is None and any(wagon.branches is None for wagon in self._wagons)

    def plan(self, given: Any, tree: str | None) -> None:
        """Cuts the dataset into sub-jobs."""
        self.dataset = Dataset.of(given, tree)
        self._missing = list(self.dataset.missing)
        if not self._skip_bad_files:
            self.dataset.require_present()
        files = [one for one in self.dataset if not one.is_missing]
        self.shares = cut(files)
        step = None if self._learns else self._step(files)
        self._supply = Supply(self.shares, self._named, step)
        self.workers = min(self._workers_wanted or cpu_count(), max(1, len(self.shares)))

    def _step(self, files: Sequence[DataFile]) -> int:
        """Checks the named branches on the first file that can be read, and sets the entries of a chunk."""
        for one in files:
            try:
                tree = open_tree(one)
                self._check_names(tree, one)
                return step_entries(tree, self._named, self._step_size, self._memory_limit_bytes)
            except READ_ERRORS:
                if not self._skip_bad_files:
                    raise
        return STEP_MAX_ENTRIES

    def _check_names(self, tree: Any, one: DataFile) -> None:
        for wagon in self._wagons:
            for name in wagon.branches or ():
                try:
                    tree[name]
                except NoSuchKeyError as error:
                    what = f"wagon {wagon.name!r} names a branch that is not there: {error.what}"
                    raise NoSuchKeyError(what, path=one.path, hint=error.hint) from None

    def go(self, command: str) -> TrainResult:
        """Runs the sub-jobs, adds up what comes back, and makes the record of the job."""
        interruption = Interruption()
        place = self._place(interruption)
        self._merger = Merger(self._wagons, self.shares)
        self._log = ProgressLog(self.clock.begin_s, self.dataset.size_bytes)
        with interruption.installed():
            interruption.when_asked = place.stop
            self.clock.switch("run")
            try:
                self._listen(place)
            except KeyboardInterrupt:
                interruption.asked = True
            except Exception as error:  # noqa: BLE001 - whatever it is, what was finished is kept
                self._stopped_by = JobError.of(error)
            self.clock.switch("merge")
            merged = self._merger.finish()
            self._stopped_by = merged.error or self._stopped_by
            record = self._record(command, interrupted=interruption.asked and not self._stopped_by)
            with self.clock.during("wagons"):
                outputs = postprocess(self._wagons, merged)
        job = record.as_dict(merged, outputs, self._stopped_by)
        self.clock.switch("write")
        return TrainResult(outputs, job, self._stopped_by, _close_clock=record.close_clock)

    def _place(self, interruption: Interruption) -> Place:
        if self.workers == 1:
            return InThisProcess(interruption)
        return LocalProcesses(self.workers, self._modules)

    def _listen(self, place: Place) -> None:
        work = TrainWork(
            wagons=self._wagons,
            named_branches=self._named,
            step_size=self._step_size,
            memory_limit_bytes=self._memory_limit_bytes,
            threads=max(1, cpu_count() // self.workers),
            skip_bad_files=self._skip_bad_files,
            begin_s=time.monotonic(),
        )
        for message in place.run(work, self._supply.draw):
            self._take(message, place)

    def _take(self, message: Message, place: Place) -> None:
        value = message.value
        if isinstance(message, Finished):
            self._times[message.worker] = value.times
            self._supply.finished(message.index)
            self._supply.missed(branch for share in value.wagons.values() for branch in share.misses)
            self._supply.stopped |= {name for name, share in value.wagons.items() if share.error is not None}
            self._merger.take(message.index, value)
            if value.error is not None:
                place.stop()
        elif isinstance(value, Learned):
            self._supply.learned(value.branches, value.step)
        elif isinstance(value, WorkerTimes):
            self._times[message.worker] = value
        elif isinstance(value, Progress):
            now = self._log.take(message.worker, value)
            if self._progress is not None:
                self._progress(now)

    def _record(self, command: str, *, interrupted: bool) -> JobRecord:
        return JobRecord(
            wagons=self._wagons,
            dataset=self.dataset,
            missing=self._missing,
            workers=self.workers,
            threads=max(1, cpu_count() // self.workers),
            started=self._started,
            clock=self.clock,
            cpu_begin_s=self._cpu_begin_s,
            machine_cpu_begin_s=self._machine_cpu_begin_s,
            times=self._times,
            timeline=self._log.timeline(),
            subjobs=len(self.shares),
            step_entries=self._supply.step or 0,
            interrupted=interrupted,
            command=command,
        )
