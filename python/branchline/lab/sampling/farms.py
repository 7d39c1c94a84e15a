"""Take samples whose jobs run on a farm: a batch system, Dask, or an executor.

`_as_one` combines the outcomes of all jobs into one sample.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import shutil
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from branchline.base.checks import instance_of
from branchline.base.plain import from_plain, to_plain
from branchline.base.processes import own_python
from branchline.base.whole_files import write_whole
from branchline.errors import BatchError, BranchlineError, OptionError
from branchline.jobs.batch.site_settings import load_site
from branchline.jobs.batch.system import BatchSystem, Submitted, TaskStep, batch_system, is_batch_system
from branchline.jobs.sites import Spot
from branchline.jobs.subjob import NO_WORKERS, Finished, Lost, SubJob, Workers
from branchline.jobs.where import Terms, Where, place_on, where_of
from branchline.lab.limits import FARM_ANSWER_GRACE_S, FARM_ANSWER_LOOK_S, FARM_LOOK_S, FARM_QUEUE_S, STUDY_JOBS_MAX
from branchline.lab.sampling.farm_job import FarmTask, answer_path, task_path, work_on_jobs
from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.sampling.sampler import HereAtOnce, Taker, Turn
from branchline.lab.sampling.samples import StudySample
from branchline.lab.sampling.study_files import JobFiles
from branchline.lab.study import JobSettings

#: Maximum fraction of failed jobs. With more failed jobs, the whole sample fails.
FAILED_MOST = 0.5
#: Name of the folder for jobs on a farm in a study's directory, and of the record of a submission in that folder.
FARM, _SUBMITTED = "farm", "submitted.json"


def taker_on(on: object, folder: Path) -> Taker:
    """Return the place where the jobs of a study run.

    None is this machine; ``slurm``, ``htcondor``, ``dask=ADDRESS``, an executor or a Dask client are farms. Raises
    OptionError, BatchError.
    """
    if on is None:
        return HereAtOnce(folder)
    if is_batch_system(on):
        return OnBatchSystem(str(on), folder)
    return OnWorkers(where_of(on))


class OnWorkers:
    """Takes samples on workers of Dask or of an executor, using the code that runs trains there."""

    jobs_max = STUDY_JOBS_MAX
    has_traces = False

    def __init__(self, where: Where) -> None:
        self._where = where

    def take(self, settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> StudySample:
        """Run the jobs of an arm once. If a job's worker is lost, the job has an error, and other jobs continue."""
        at, tasks = _now(), _tasks(settings, files, turn, wait_s)
        place_name = type(self._where).__name__.removeprefix("On").lower()
        try:
            found = self._run(tasks)
            error = ""
        except BranchlineError as failure:
            found, error = {}, str(failure)
        return _as_one([found.get(number) for number in range(len(tasks))], turn, at, place_name, error)

    def _run(self, tasks: Sequence[FarmTask]) -> dict[int, StudySample | str]:
        waiting = deque(SubJob(number, f"job {number}", one, False) for number, one in enumerate(tasks))
        found: dict[int, StudySample | str] = {}

        def draw(spot: Spot | None = None, workers: Workers = NO_WORKERS) -> SubJob | None:
            del spot, workers  # A study does not distinguish workers.
            return waiting.popleft() if waiting else None

        def after_loss(lost: Lost, subjobs: Sequence[SubJob]) -> bool:
            for one in subjobs[:1]:
                found[one.index] = f"its worker was lost: {lost}"
            waiting.extendleft(reversed(subjobs[1:]))
            return True

        terms = Terms((), (), max(one.longest_s for one in tasks), 0.0, after_loss, lambda _: False)
        for message in place_on(self._where, terms).run(work_on_jobs, draw):
            if isinstance(message, Finished):
                found[message.index] = instance_of(message.value, StudySample)
        return found


class OnBatchSystem:
    """Takes samples with jobs of Slurm or HTCondor: one array of jobs per sample, in a folder that all nodes share.

    Jobs that a killed study left in the queue are cancelled first, since they would disturb the samples.
    """

    jobs_max = STUDY_JOBS_MAX
    has_traces = False

    def __init__(self, name: str, folder: Path, queue_s: float = FARM_QUEUE_S) -> None:
        self._name, self._folder, self._queue_s = name, (folder / FARM).absolute(), queue_s
        self._system: BatchSystem = batch_system(name)
        self._site = load_site(name)
        self._is_checked = False

    def take(self, settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> StudySample:
        """Run the jobs of an arm once. If the node or the batch system killed a job, the job has an error with the
        reason.
        """
        at, tasks = _now(), _tasks(settings, files, turn, wait_s)
        folder = self._folder / f"{turn.round}.{turn.position}.{turn.kind}"
        try:
            self._begin(folder)
            found = self._run(tasks, folder)
            error = ""
        except BranchlineError as failure:
            found, error = {}, str(failure)
        if not (folder / _SUBMITTED).exists():
            shutil.rmtree(folder, ignore_errors=True)
        return _as_one([found.get(number) for number in range(len(tasks))], turn, at, self._name, error)

    def _begin(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        if not self._is_checked:
            self._system.check(self._folder)
            self._is_checked = True
        for left in sorted(self._folder.glob(f"*/{_SUBMITTED}")):
            self._system.cancel(_submitted(left))
            shutil.rmtree(left.parent)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()

    def _run(self, tasks: Sequence[FarmTask], folder: Path) -> dict[int, StudySample | str]:
        for number, task in enumerate(tasks):
            task_path(folder, number).write_text(task.to_json(), encoding="utf-8")
        words = (*own_python(self._site.python), "-m", "branchline.lab.sampling.farm_job", str(folder))
        step = TaskStep("jobs", len(tasks), words, folder, folder)
        submitted = self._system.submit(f"branchline-study-{folder.name}", [step], folder, self._site)
        write_whole(folder / _SUBMITTED, json.dumps(to_plain(submitted)).encode())
        try:
            found = _Waiting(self._system, submitted, folder, len(tasks)).answers(tasks[0].longest_s, self._queue_s)
            return self._with_causes(found, submitted, step, len(tasks))
        finally:
            # Cancel remaining jobs, and DAGMan, which ends after its jobs and would be held without its folder. If the
            # system does not respond, the sample is kept, and the next sample starts by cancelling these jobs.
            with suppress(BatchError):
                self._system.cancel(submitted)
                (folder / _SUBMITTED).unlink()

    def _with_causes(
        self, found: dict[int, StudySample | str], submitted: Submitted, step: TaskStep, count: int
    ) -> dict[int, StudySample | str]:
        """For each job without an answer, add the reason that the batch system gives."""
        missing = [number for number in range(count) if number not in found]
        causes = self._system.causes(submitted) if missing else {}
        for number in missing:
            said = _end_of(step.log_of(number))
            found[number] = ": ".join(filter(None, (causes.get((0, number), "it left no answer"), said)))
        return found


class _Waiting:
    """Waits for the answers of tasks that were submitted to a batch system."""

    def __init__(self, system: BatchSystem, submitted: Submitted, folder: Path, count: int) -> None:
        self._system, self._submitted, self._folder = system, submitted, folder
        self._found: dict[int, StudySample | str] = {}
        self._missing = set(range(count))

    def answers(self, run_s: float, queue_s: float) -> dict[int, StudySample | str]:
        """Wait until all answers exist, or until no task without an answer is in the queue.

        Tasks that are queued longer than ``queue_s``, or run longer than ``run_s`` after the last start, are cancelled.
        Raises BatchError.
        """
        begin_s = running_s = time.monotonic()
        looked_s, gone_s = 0.0, None
        while self._missing:
            for number in sorted(self._missing):
                path = answer_path(self._folder, number)
                if path.exists():
                    self._found[number] = from_plain(StudySample, json.loads(path.read_text(encoding="utf-8")))
                    self._missing.discard(number)
                elif self._has_failed(number):
                    self._missing.discard(number)
            now_s = time.monotonic()
            if self._missing and now_s - looked_s >= FARM_LOOK_S:
                looked_s = now_s
                states = [one for one in self._system.states(self._submitted) if one.task in self._missing]
                if any(one.state == "queued" for one in states):
                    running_s = now_s
                gone_s = None if states else gone_s or now_s
            is_late = now_s - begin_s > queue_s or now_s - running_s > run_s
            if is_late or (gone_s is not None and now_s - gone_s > FARM_ANSWER_GRACE_S):
                self._system.cancel(self._submitted)
                break
            time.sleep(FARM_ANSWER_LOOK_S)
        return self._found

    def _has_failed(self, number: int) -> bool:
        """Return whether the script of a task has written a nonzero exit code."""
        try:
            code = (self._folder / f"jobs.{number}.exit").read_text(encoding="ascii").strip()
        except OSError:
            return False
        return code not in ("", "0")


def _submitted(path: Path) -> Submitted:
    """Load the record of a submission. Raises OptionError."""
    try:
        found: Submitted = from_plain(Submitted, json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError) as error:
        raise OptionError(f"the record of submitted jobs cannot be read: {error}", path=str(path)) from None
    return found


def _end_of(log: Path) -> str:
    try:
        return log.read_text(encoding="utf-8", errors="replace")[-500:].strip()
    except OSError:
        return ""


def _tasks(settings: JobSettings, files: JobFiles, turn: Turn, wait_s: float) -> list[FarmTask]:
    """Return one task per job, each with the files of its job."""
    # Machines of a farm cannot clear the cache of a server; a remark in their samples says so.
    settings = replace(settings, served_from=(), servers=())
    return [FarmTask(settings, files.of_job(number), turn, wait_s) for number in range(len(files.of_jobs))]


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")


# --- the jobs of a farm as one sample ---------------------------------------------------------------------------------


def _as_one(found: Sequence[StudySample | str | None], turn: Turn, at: str, place: str, error: str) -> StudySample:
    """Combine the jobs of a farm into one sample.

    If an element of ``found`` is a string, the string is the reason why the job has no sample. ``wall_s`` is the time
    from the first start to the last end according to the machines' clocks.
    """
    jobs = []
    for number, one in enumerate(found):
        if isinstance(one, StudySample):
            outcome = one.jobs[0] if one.jobs else JobOutcome(number)
            jobs.append(dataclasses.replace(outcome, number=number, error=one.error or outcome.error))
        else:
            jobs.append(JobOutcome(number, error=one or "it did not run"))
    good = [one for one in jobs if not one.error]
    if not error and len(jobs) - len(good) > FAILED_MOST * len(jobs):
        failed = [one.error for one in jobs if one.error]
        error = f"{len(failed)} of {len(jobs)} jobs failed: {failed[0]}"
    samples = [one for one in found if isinstance(one, StudySample)]
    cached = [one.cached_bytes for one in samples if one.cached_bytes is not None]
    sizes = [one.file_bytes for one in good]
    return StudySample(
        turn.round,
        turn.position,
        turn.arm,
        turn.kind,
        at,
        max((one.begin_s + one.wall_s for one in good), default=0.0) - min((one.begin_s for one in good), default=0.0),
        jobs,
        None if None in sizes else sum(one for one in sizes if one is not None),
        sum(cached) if cached else None,
        next((one.cold_remark for one in samples if one.cold_remark), ""),
        _surroundings(samples),
        error=error,
        place=place,
    )


def _surroundings(samples: Sequence[StudySample]) -> Surroundings:
    """Combine the notes, and add up the bytes that each machine received while jobs of the sample ran on it. Bytes
    received while several jobs ran on a machine are counted once.
    """
    spans: dict[str, list[tuple[int, int]]] = {}
    for one in samples:
        beside = one.surroundings
        received = beside.network_bytes + beside.loopback_bytes
        for job in one.good_jobs:
            span = (beside.received_before_bytes, beside.received_before_bytes + received)
            spans.setdefault(job.host, []).append(span)
    received = sum(max(end for _, end in one) - min(begin for begin, _ in one) for one in spans.values())
    every = [one.surroundings for one in samples]
    busy_shares = [one.device_busy_share for one in every if one.device_busy_share is not None]
    device_bytes = [one.device_bytes for one in every if one.device_bytes is not None]
    return Surroundings(
        others_share=max((one.others_share for one in every), default=0.0),
        network_bytes=received,
        notes=tuple(dict.fromkeys(note for one in every for note in one.notes)),
        stolen_share=max((one.stolen_share for one in every), default=0.0),
        throttled=sum(one.throttled for one in every),
        device_bytes=sum(device_bytes) if device_bytes else None,
        device_busy_share=max(busy_shares, default=None),
    )
