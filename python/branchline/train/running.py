"""One train run: from wagons and a dataset to results, with a record of where the time went."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from branchline.access import Access, access_of, longest_wait_s
from branchline.dataset import Dataset
from branchline.errors import BranchlineError
from branchline.jobs import Finished, Interruption, InThisProcess, LocalProcesses, Lost, Place, Told
from branchline.limits import WORKER_TIMEOUT_S, memory_limit_bytes, parse_bytes
from branchline.sensors import cpu_count, cpu_s, machine_cpu_s, take_troubles
from branchline.train.clock import PhaseClock
from branchline.train.first_trees import FirstTrees
from branchline.train.job_record import JobRecord, postprocess
from branchline.train.merging import Merger
from branchline.train.plan import cut
from branchline.train.progress import ProgressLog, TrainProgress
from branchline.train.result import TrainResult
from branchline.train.share_result import JobError, Learned, Progress, WorkerTimes
from branchline.train.supply import Supply
from branchline.train.wagons import Wagon, wagons_of
from branchline.train.work import TrainWork


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
    interruption: Interruption,
    worker_timeout: float = WORKER_TIMEOUT_S,
    companions: Any = None,
    access: Access | str | None = None,
    begin: Callable[[], None] | None = None,
    stopping: Callable[[], None] | None = None,
) -> TrainResult:
    """Runs wagons over a dataset; ``branchline.run`` says what the arguments are and what is raised.

    ``interruption`` listens already. ``begin`` is called once all is checked, before the run, and ``stopping`` in the
    signal's handler when the run is interrupted.
    """
    train = _Train(workers, branches, step_size, memory_limit, skip_bad_files, progress, access_of(access))
    train.watch(worker_timeout)
    with interruption.allowed():
        with train.clock.during("start"):
            train.load(wagons)
        with train.clock.during("plan"):
            train.plan(Dataset.of(dataset, tree, companions=companions))
        with train.clock.during("write"):
            if begin is not None:
                begin()
    return train.go(command, interruption, stopping)


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
        access: Access,
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
        self._memory_limit_bytes = memory_limit_bytes(memory_limit)
        self._skip_bad_files = skip_bad_files
        self._progress = progress
        self._access = access
        self._times: dict[int, WorkerTimes] = {}
        self._lost: list[Lost] = []
        self._stopped_by: JobError | None = None

    def watch(self, timeout_s: float) -> None:
        """A worker that is silent for so long is ended; 0 for never."""
        if not 0 <= timeout_s < float("inf"):
            raise BranchlineError(f"a worker cannot be silent for {timeout_s} s", hint="give seconds, 0 for any time")
        self._worker_timeout_s = timeout_s or None

    def load(self, wagons: Any) -> None:
        """Finds the wagons, and what they want to read."""
        found, self._modules = wagons_of(wagons)
        self._wagons: tuple[Wagon, ...] = tuple(found)

    def plan(self, dataset: Dataset) -> None:
        """Cuts the dataset into sub-jobs."""
        self.dataset = dataset
        take_troubles()  # What went wrong before is not of this job.
        self._missing = list(self.dataset.missing)
        if not self._skip_bad_files:
            self.dataset.require_present()
        files = [one for one in self.dataset if not one.is_missing]
        self.shares = cut(files)
        first = FirstTrees(files, skip_bad_files=self._skip_bad_files, access=self._access)
        self._faults = first.faults_of(self._wagons)
        self._named = self._names_to_read()
        step = None if self._learns else first.step(self._named, self._step_size, self._memory_limit_bytes)
        self._looked_at = first.records()
        self.workers = min(self._workers_wanted or cpu_count(), max(1, len(self.shares)))
        self._supply = Supply(
            self.shares,
            self._named,
            step,
            wagons_count=len(self._wagons),
            workers_count=self.workers,
            stopped=self._faults,
        )

    def _names_to_read(self) -> tuple[str, ...]:
        """The branches that are named by the wagons that run, or for all of them."""
        running = [wagon for wagon in self._wagons if wagon.name not in self._faults]
        self._learns = self._given_branches is None and any(wagon.branches is None for wagon in running)
        named = [*(self._given_branches or ())]
        for wagon in running:
            named += wagon.branches or ()
        return tuple(dict.fromkeys(named))

    def go(self, command: str, interruption: Interruption, stopping: Callable[[], None] | None = None) -> TrainResult:
        """Runs the sub-jobs, adds up what comes back, and makes the record of the job."""
        self._interruption = interruption
        self._merger = Merger(self._wagons, self.shares, self._faults)
        self._merger.merged.files.add(self._looked_at)
        self._log = ProgressLog(self.clock.begin_s, self.dataset.size_bytes)
        self.clock.switch("run")
        try:
            self._listen(self._place(), stopping)
        except KeyboardInterrupt:
            interruption.asked = True
        except Exception as error:  # noqa: BLE001 - whatever it is, what was finished is kept
            self._stopped_by = JobError.of(error)
        self.clock.switch("merge")
        # What was finished is kept, also by somebody in a hurry; only what wagons do with it may be cut off.
        with Interruption(patient=True).installed():
            merged = self._merger.finish()
        with self.clock.during("wagons"), Interruption().installed() as anew, anew.allowed():
            outputs = postprocess(self._wagons, merged)
        self._stopped_by = merged.error or self._stopped_by
        interrupted = (interruption.asked or anew.asked) and not self._stopped_by
        record = self._record(command, interrupted=interrupted)
        job = record.as_dict(merged, outputs, self._stopped_by)
        self.clock.switch("write")
        return TrainResult(outputs, job, self._stopped_by, _close_clock=record.close_clock)

    def _place(self) -> Place:
        if self.workers == 1:
            return InThisProcess(self._interruption)
        return LocalProcesses(self.workers, self._modules, self._worker_timeout_s, longest_wait_s())

    def _listen(self, place: Place, stopping: Callable[[], None] | None) -> None:
        def stop() -> None:
            place.stop()
            if stopping is not None:
                stopping()

        self._interruption.when_asked = stop
        if self._interruption.asked:
            place.stop()
        work = TrainWork(
            wagons=self._wagons,
            named_branches=self._named,
            step_size=self._step_size,
            memory_limit_bytes=self._memory_limit_bytes,
            threads=max(1, cpu_count() // self.workers),
            skip_bad_files=self._skip_bad_files,
            access=self._access,
            begin_s=time.monotonic(),
        )
        for message in place.run(work, self._supply.draw):
            with self._interruption.held():
                self._take(message, place)

    def _take(self, message: Told, place: Place) -> None:
        if isinstance(message, Lost):
            self._lost.append(message)
            self._times.pop(message.worker, None)
            return
        value = message.value
        if isinstance(message, Finished):
            self._times[message.worker] = value.times
            self._supply.finished(message.index)
            self._supply.missed(branch for share in value.wagons.values() for branch in share.misses)
            self._supply.stopped |= {name for name, share in value.wagons.items() if share.error is not None}
            self._merger.take(message.index, value)
            if value.interrupted and not self._interruption.asked:
                # A signal that reached this worker alone, as when a batch system tells every process.
                self._interruption.asked = value.error is None and self._stopped_by is None
            if value.error is not None or value.interrupted:
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
            lost=self._lost,
            command=command,
            access=self._access,
        )
