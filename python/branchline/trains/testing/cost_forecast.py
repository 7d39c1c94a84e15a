"""`branchline test`: measures the cost of each wagon when it runs alone, and forecasts the cost of the whole train.

Each wagon's result in the train is compared with its result when it runs alone. If the results differ, further trials
find the wagon that changes the result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from branchline.base.checks import instance_of, whole_number
from branchline.base.limits import (
    CHUNKS_HELD,
    FORECAST_FILES,
    PICTURE_S,
    RECORDS_S,
    STEP_BYTES,
    STEP_MAX_ENTRIES,
    memory_limit_bytes,
)
from branchline.base.quantities import MB, count, parse_bytes
from branchline.errors import BranchlineError
from branchline.jobs.local import LocalProcesses
from branchline.jobs.program import ModuleFile
from branchline.jobs.subjob import Finished, SubJob, WorkerDiedError
from branchline.reading.access import Access, access_of
from branchline.reading.datasets.data_file import CompanionsLike, DataFile
from branchline.reading.datasets.dataset import Dataset
from branchline.reading.datasets.joins import JoinsLike
from branchline.records.sensors.record import WagonFault
from branchline.records.sensors.this_process import cpu_count
from branchline.trains.subjobs.picklable import pickling_error
from branchline.trains.testing.profiling import Profile
from branchline.trains.testing.wagon_trial import TrialInput, TrialRun, TrialWork
from branchline.trains.wagons.faults import because_of
from branchline.trains.wagons.known_changes import keep_changes
from branchline.trains.wagons.wagon_settings import settings_of, with_settings
from branchline.trains.wagons.wagons import Wagon, wagons_of, with_required


@dataclass(frozen=True)
class WagonForecast:
    """The cost of a wagon that runs alone on the sample, and the forecast of its output for the whole dataset.

    ``first_s`` is the time of the first chunk. ``seconds_per_event`` and ``cpu_s_per_event`` exclude the first chunk
    and reading. ``memory_bytes`` is the growth of the process's memory.
    """

    name: str
    events: int
    first_s: float
    seconds_per_event: float
    cpu_s_per_event: float
    memory_bytes: int
    output_bytes: int
    output_bytes_forecast: int
    output_grows: bool
    branches: tuple[str, ...]
    error: WagonFault | None
    profile: Profile | None = None
    variations: tuple[str, ...] = ()


@dataclass(frozen=True)
class Forecast:
    """The cost of the whole train, extrapolated from trials of single wagons. ``basis`` explains the extrapolation, one
    sentence per line.

    ``differences`` are the wagons whose results in the train differ from their results when they run alone. Times are
    in seconds.
    """

    wagons: tuple[WagonForecast, ...]
    workers: int
    events: int
    read_s_per_event: float
    seconds: float
    memory_bytes: int
    output_bytes: int
    basis: tuple[str, ...]
    differences: tuple[ResultMismatch, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether a wagon fails, or has a different result in the train than when it runs alone."""
        return bool(self.differences) or any(wagon.error is not None for wagon in self.wagons)


def forecast(
    wagons: object,
    dataset: object,
    *,
    workers: int | None = None,
    tree: str | None = None,
    companions: CompanionsLike = None,
    join: JoinsLike = None,
    step_size: int | str | None = None,
    memory_limit: int | str = "1 GiB",
    access: Access | str | None = None,
    parameters: object = None,
    profile: bool = False,
) -> Forecast:
    """Run every wagon alone on a few chunks of files spread over the dataset, and forecast the cost of the train.

    Afterwards, run all wagons together on the same chunks, and compare each result bit by bit with the result of the
    wagon alone: ``differences`` in the forecast names the wagons whose results differ, and the wagons that cause the
    differences. Later trains with a wagon that causes differences show a warning until its code changes.

    The arguments are as for ``run``. With ``profile``, the forecast has a profile of each wagon. Raises read errors.
    The failure of a wagon is recorded in the forecast.

        outcome = branchline.forecast("wagons.py", "data/*.root", workers=8)
        print(outcome.seconds, outcome.memory_bytes, [one.sentence() for one in outcome.differences])
    """
    workers_count = whole_number("number of workers", workers or cpu_count(), 1)
    given, modules = wagons_of(wagons)
    found = with_settings(given, settings_of(parameters))
    data = Dataset.of(dataset, tree, companions=companions, access=access_of(access), join=join)
    data.require_present()
    limit_bytes = memory_limit_bytes(memory_limit)
    sample = TrialInput(_sample(data), limit_bytes, access_of(access), profile)
    by_name = {wagon.name: wagon for wagon in found}
    trials: list[TrialRun] = []
    for wagon in found:
        failed = [trial.name for trial in trials if trial.error is not None and trial.name in wagon.requires]
        if failed:
            trials.append(TrialRun(wagon.name, error=because_of(failed[0])))
        else:
            own = with_required(wagon, by_name)
            trials.append(_try(own, wagon.branches or (), sample, modules))
    branches = tuple(sorted({branch for trial in trials for branch in trial.branches}))
    reading = _try((), branches, sample, modules)

    def run_together(some: tuple[Wagon, ...]) -> TrialRun:
        named = tuple(sorted({branch for wagon in some for branch in wagon.branches or ()}))
        return _try(some, named, sample, modules, is_train=True)

    found_differences = differences(found, {trial.name: trial for trial in trials}, run_together)
    changers = {name for one in found_differences for name in one.changed_by}
    keep_changes({name: [one.wagon for one in found_differences if name in one.changed_by] for name in changers}, found)
    extrapolation = _Extrapolation(data, trials, reading, step_size, limit_bytes, workers_count)
    outcome = extrapolation.forecast()
    alone = tuple(replace(one, variations=by_name[one.name].variations) for one in outcome.wagons)
    return replace(outcome, wagons=alone, differences=tuple(found_differences))


def _sample(dataset: Dataset) -> tuple[DataFile, ...]:
    count = min(FORECAST_FILES, len(dataset))
    last = len(dataset) - 1
    positions = sorted({round(index * last / max(1, count - 1)) for index in range(count)})
    return tuple(dataset.files[position] for position in positions)


def _try(
    wagons: tuple[Wagon, ...],
    branches: Sequence[str],
    sample: TrialInput,
    modules: Sequence[ModuleFile],
    *,
    is_train: bool = False,
) -> TrialRun:
    """Run a trial in a separate process, so that its memory can be measured and a crash does no harm."""
    name = wagons[-1].name if wagons else "reading"
    for wagon in wagons:
        error = pickling_error(wagon)
        if error is not None:
            return TrialRun(name, error=WagonFault(type(error).__name__, str(error)))
    subjobs: Iterator[SubJob] = iter([SubJob(0, f"the trial of {name} on {sample.files[0].path}")])
    work = TrialWork(wagons, tuple(branches), sample, is_train)
    try:
        for message in LocalProcesses(1, modules).run(work, lambda *_: next(subjobs, None)):
            if isinstance(message, Finished):
                return instance_of(message.value, TrialRun)
    except WorkerDiedError as error:
        fault = WagonFault(type(error).__name__, str(error), sample.files[0].path)
        return TrialRun(name, error=fault)
    raise BranchlineError(f"the trial of {name} ended without a result")


class _Extrapolation:
    """Extrapolates the trials to the whole train."""

    def __init__(
        self,
        dataset: Dataset,
        trials: Sequence[TrialRun],
        reading: TrialRun,
        step_size: int | str | None,
        limit_bytes: int,
        workers: int,
    ) -> None:
        self._trials = trials
        self._reading = reading
        self._workers = workers
        self._limit_bytes = limit_bytes
        self._events, self._events_basis = _events_in(dataset, reading.entries)
        self._plain_bytes_per_event = reading.plain_bytes / max(1, reading.events)
        if isinstance(step_size, int):
            self._step_entries = step_size
        elif not self._plain_bytes_per_event:
            self._step_entries = STEP_MAX_ENTRIES
        else:
            self._step_entries = max(1, int(parse_bytes(step_size or STEP_BYTES) / self._plain_bytes_per_event))

    def forecast(self) -> Forecast:
        wagons = tuple(self._wagon(trial) for trial in self._trials)
        read_s = self._reading.read_s / max(1, self._reading.events)
        per_event = sum(wagon.seconds_per_event for wagon in wagons)
        both = max(per_event, read_s) if self._overlaps else per_event + read_s
        work_s = self._events * both / self._workers + sum(wagon.first_s for wagon in wagons)
        return Forecast(
            wagons=wagons,
            workers=self._workers,
            events=self._events,
            read_s_per_event=read_s,
            seconds=self._start_s + work_s + self._write_s,
            memory_bytes=self._memory_bytes(wagons),
            output_bytes=sum(wagon.output_bytes_forecast for wagon in wagons),
            basis=self._basis(),
        )

    def _wagon(self, trial: TrialRun) -> WagonForecast:
        size, expected, grows = _output(trial.sizes, self._events)
        return WagonForecast(
            name=trial.name,
            events=trial.events,
            first_s=trial.first_s,
            seconds_per_event=trial.seconds / max(1, trial.events),
            cpu_s_per_event=trial.cpu_s / max(1, trial.events),
            memory_bytes=max(0, trial.memory_peak_bytes - trial.memory_start_bytes),
            output_bytes=size,
            output_bytes_forecast=expected,
            output_grows=grows,
            branches=trial.branches,
            error=trial.error,
            profile=trial.profile,
        )

    @property
    def _overlaps(self) -> bool:
        """Whether there are more cores than workers, so that files are read while wagons run."""
        return cpu_count() > self._workers

    @property
    def _start_s(self) -> float:
        """Seconds until all workers have started. They start simultaneously and share the cores."""
        return self._reading.start_s * max(1.0, self._workers / cpu_count())

    @property
    def _write_s(self) -> float:
        return RECORDS_S + PICTURE_S * self._histograms

    @property
    def _histograms(self) -> int:
        return sum(trial.histograms for trial in self._trials)

    @property
    def _chunk_entries(self) -> int:
        """Number of entries in a large chunk: the step size, limited by the largest file in the sample."""
        return max(1, min(self._step_entries, max(self._reading.entries.values(), default=1)))

    def _memory_bytes(self, wagons: Sequence[WagonForecast]) -> int:
        chunk_bytes = int(self._chunk_entries * self._plain_bytes_per_event)
        reading = min(self._limit_bytes, CHUNKS_HELD * chunk_bytes)
        once = sum(trial.memory_first_bytes - trial.memory_start_bytes for trial in self._trials)
        temporary = max([self._temporary_bytes(trial) for trial in self._trials], default=0)
        outputs = sum(wagon.output_bytes_forecast for wagon in wagons)
        return self._workers * (self._reading.memory_start_bytes + reading + once + temporary + outputs) + outputs

    def _temporary_bytes(self, trial: TrialRun) -> int:
        """Return the additional memory of a wagon for a full chunk, scaled from the smaller chunks of the trial."""
        tried = max(1, trial.chunk_entries)
        return (trial.memory_peak_bytes - trial.memory_first_bytes) * max(tried, self._chunk_entries) // tried

    def _basis(self) -> tuple[str, ...]:
        how = "the longer of the two, because spare cores read ahead" if self._overlaps else "added up"
        tried = [*self._trials, self._reading]
        calls, read_mb = sum(one.read_calls for one in tried), sum(one.bytes_read for one in tried) / MB
        return (
            f"tried: each wagon alone and reading alone, for which {read_mb:.1f} MB were read in {count(calls)} calls",
            self._events_basis,
            f"time: wagons and reading per event on {count(self._reading.events)} events, {how}, times the events, "
            f"divided by {self._workers} workers, plus each wagon's first chunk, {self._start_s:.1f} s to start them "
            f"and {self._write_s:.1f} s to write results (histograms: {self._histograms})",
            f"memory: for each worker, Python and libraries, {CHUNKS_HELD} chunks of {count(self._chunk_entries)} "
            "events (at most the limit), the growth during each wagon's first chunk, the further growth of the wagon "
            "that needs most, scaled to the chunk size, and the outputs",
            "output: the size after the sample or, if it grew, extrapolated in proportion to the events",
        )


def _events_in(dataset: Dataset, entries: dict[str, int]) -> tuple[int, str]:
    """Return the number of events of a dataset, extrapolated from a sample of its files, and a sentence that explains
    the number.
    """
    sampled = [one for one in dataset if one.place in entries]
    known = sum(entries[one.place] for one in sampled)
    if len(sampled) == len(dataset):
        return known, f"events: {count(known)} in all {len(dataset)} files"
    sampled_bytes = sum(one.share_bytes or 0 for one in sampled)
    if sampled_bytes and dataset.size_bytes:
        events = round(known * dataset.size_bytes / sampled_bytes)
        how = f"the bytes of {len(sampled)} of {len(dataset)} files"
    else:
        events = round(known * len(dataset) / max(1, len(sampled)))
        how = f"{len(sampled)} of {len(dataset)} files"
    return events, f"events: about {count(events)}, extrapolated from {how}"


def _output(sizes: Sequence[tuple[int, int]], events: int) -> tuple[int, int, bool]:
    """Return the size of an output after the sample, its expected size after ``events`` events, and whether the size
    grows with the number of events.
    """
    if not sizes:
        return 0, 0, False
    (first_events, first_bytes), (last_events, last_bytes) = sizes[0], sizes[-1]
    if last_events == first_events:
        return last_bytes, last_bytes, False
    slope = (last_bytes - first_bytes) / (last_events - first_events)
    # Ignore small growth: a histogram has a fixed size, except that large numbers may need more digits.
    grows = slope * last_events > 0.1 * last_bytes
    return last_bytes, round(last_bytes + slope * max(0, events - last_events)) if grows else last_bytes, grows


# A function that runs several wagons together on the sample, in the given order, in a separate process.
RunTogether = Callable[[tuple[Wagon, ...]], TrialRun]


def differences(wagons: Sequence[Wagon], alone: Mapping[str, TrialRun], run: RunTogether) -> list[ResultMismatch]:
    """Return the wagons whose results in the train differ from their results when they run alone, in the order of the
    train.

    ``alone`` are the trials of single wagons. A wagon that failed in its trial is left out of the train.
    """
    running = tuple(one for one in wagons if alone[one.name].error is None)
    if len(running) < 2:
        return []
    together = run(running)
    suspects: list[str] = []
    found = []
    for wagon in running:
        if together.digests.get(wagon.name) == alone[wagon.name].digests.get(wagon.name):
            continue
        difference = _explained(wagon, running, alone[wagon.name], together, suspects, run)
        suspects += [name for name in difference.changed_by if name not in suspects]
        found.append(difference)
    return found


@dataclass(frozen=True)
class ResultMismatch:
    """A wagon whose result in the train differs from its result when it runs alone on the same events.

    ``changed_by`` are the wagons that cause the difference. It is empty if no single wagon causes it, or if the wagon's
    result differs in each run (``is_repeatable`` is False). ``error`` is set if the wagon fails in the train.
    """

    wagon: str
    changed_by: tuple[str, ...]
    is_repeatable: bool = True
    error: WagonFault | None = None

    def sentence(self) -> str:
        """Return a sentence that describes the difference."""
        if not self.is_repeatable:
            return f"wagon {self.wagon} has a different result in each run: does it use random numbers or the time?"
        what = f"wagon {self.wagon} has a different result in the train than alone"
        if self.error is not None:
            what = f"wagon {self.wagon} runs alone and stops in the train ({self.error.type}: {self.error.message})"
        if not self.changed_by:
            return f"{what}; no other wagon alone causes this"
        names = " and ".join(self.changed_by)
        return (
            f"{what}: {names} changes data that it uses. Look there for in-place changes of arrays, global variables "
            "or class attributes"
        )


def _explained(
    wagon: Wagon,
    running: tuple[Wagon, ...],
    alone: TrialRun,
    together: TrialRun,
    suspects: Sequence[str],
    run: RunTogether,
) -> ResultMismatch:
    """Find the reason for a difference: run the wagon again alone, and then with one other wagon at a time until one
    causes the difference.
    """
    by_name = {one.name: one for one in running}
    expected = alone.digests.get(wagon.name)
    own = with_required(wagon, by_name)
    if run(own).digests.get(wagon.name) != expected:
        return ResultMismatch(wagon.name, (), is_repeatable=False)
    error = together.errors.get(wagon.name)
    others = [one for one in running if one not in own]
    # First try the wagons that changed another wagon's result.
    for other in sorted(others, key=lambda one: one.name not in suspects):
        wanted = {one.name for one in (*own, *with_required(other, by_name))}
        pair = tuple(one for one in running if one.name in wanted)
        if run(pair).digests.get(wagon.name) != expected:
            return ResultMismatch(wagon.name, (other.name,), error=error)
    return ResultMismatch(wagon.name, (), error=error)
