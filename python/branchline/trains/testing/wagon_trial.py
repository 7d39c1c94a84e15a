"""Runs a trial, in a separate process: one wagon and the wagons that it requires, or several wagons, on a sample of the
dataset.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import boost_histogram

from branchline.base.limits import FORECAST_CHUNKS, FORECAST_ENTRIES, LEARN_ENTRIES
from branchline.errors import NoSuchKeyError, UnsupportedBranchError
from branchline.jobs.subjob import Context, Finished, Message
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.records.sensors.record import WagonFault
from branchline.records.sensors.this_process import memory_peak_bytes
from branchline.trains.subjobs.share_result import WagonShare, pickled_bytes
from branchline.trains.sums.digests import digest_of
from branchline.trains.testing.profiling import Profile, Profiler
from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.chunk_run import Coupling, UnreadableColumnError


@dataclass
class TrialRun:
    """The result of a trial.

    - ``start_s`` is the start-up time of the process.
    - ``first_s`` is the time of the first chunk, including compilation. Other times exclude the first chunk.
    - ``memory_first_bytes`` is the peak memory after the first chunk.
    - ``sizes`` has a pair for each chunk: the number of events so far, and the size of the output so far in bytes.
    - ``entries`` are the numbers of entries of the trees, by path.
    - ``digests`` and ``errors`` cover all wagons that ran.
    - ``profile`` covers the time after the first chunk.
    """

    name: str
    start_s: float = 0.0
    first_s: float = 0.0
    events: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    read_s: float = 0.0
    plain_bytes: int = 0
    bytes_read: int = 0
    read_calls: int = 0
    histograms: int = 0
    memory_start_bytes: int = 0
    memory_first_bytes: int = 0
    memory_peak_bytes: int = 0
    chunk_entries: int = 0
    sizes: list[tuple[int, int]] = field(default_factory=list)
    branches: tuple[str, ...] = ()
    entries: dict[str, int] = field(default_factory=dict)
    error: WagonFault | None = None
    digests: dict[str, str] = field(default_factory=dict)
    errors: dict[str, WagonFault] = field(default_factory=dict)
    profile: Profile | None = None


@dataclass(frozen=True)
class TrialInput:
    """The files and settings that all trials share."""

    files: tuple[DataFile, ...]
    memory_limit_bytes: int
    access: Access
    is_profiled: bool = False


@dataclass(frozen=True)
class TrialWork:
    """The callable that runs a trial of the last wagon in ``wagons`` or, if ``is_train`` is true, of all wagons.
    Without wagons, it only reads ``branches``.
    """

    wagons: tuple[Wagon, ...]
    branches: tuple[str, ...]
    sample: TrialInput
    is_train: bool = False

    def __call__(self, context: Context) -> Iterator[Message]:
        subjob = context.draw()
        while subjob is not None:
            yield Finished(subjob.index, _Trying(self, context).trial())
            subjob = context.draw()


class _Trying:
    def __init__(self, work: TrialWork, context: Context) -> None:
        self._work = work
        self._begin_s = context.begin_s
        self._clock = PhaseClock("other")
        self._coupling = Coupling(work.wagons, self._clock, context.interruption, work.sample.access)
        self._shares = self._coupling.begin(frozenset())
        self._trial = TrialRun(work.wagons[-1].name if work.wagons else "")
        self._profiler: Profiler | None = None

    def trial(self) -> TrialRun:
        trial = self._trial
        trial.start_s = time.monotonic() - self._begin_s
        trial.memory_start_bytes = memory_peak_bytes()
        first = self._work.sample.files[0]
        branches: Sequence[str] = self._work.branches
        if self._work.wagons:
            begin_s = time.monotonic()
            try:
                self._through([_range(first, 0, LEARN_ENTRIES)], branches, LEARN_ENTRIES)
            except (NoSuchKeyError, UnsupportedBranchError) as error:
                what = f"names a branch that cannot be read: {error}"
                trial.error = WagonFault(type(error).__name__, what)
                return trial
            trial.first_s = time.monotonic() - begin_s
            trial.memory_first_bytes = memory_peak_bytes()
            branches = sorted(set(branches).union(*self._coupling.touched.values()))
            self._restart()
        if self._work.sample.is_profiled and self._work.wagons:
            self._profiler = Profiler()
        step = FORECAST_ENTRIES // FORECAST_CHUNKS
        self._through([_range(one, 0, FORECAST_ENTRIES) for one in self._work.sample.files], branches, step)
        trial.memory_peak_bytes = memory_peak_bytes()
        trial.profile = self._profiler.profile() if self._profiler else None
        trial.branches = tuple(branches)
        trial.read_s = self._clock.seconds().get("reading", 0.0)
        self._take_from(self._share())
        return trial

    def _goes_on(self) -> bool:
        """Return whether a tested wagon is still running. True if no wagons are tested."""
        tried = self._work.wagons if self._work.is_train else self._work.wagons[-1:]
        return not tried or any(self._shares[one.name].error is None for one in tried)

    def _share(self) -> WagonShare:
        return self._shares[self._work.wagons[-1].name] if self._work.wagons else WagonShare()

    def _restart(self) -> None:
        """Discard the results of the first chunk, but keep the errors."""
        errors = {name: share.error for name, share in self._shares.items()}
        self._shares = self._coupling.begin(frozenset())
        for name, error in errors.items():
            self._shares[name].error = error
        self._clock = self._coupling.use(PhaseClock("other"))
        self._trial.events = 0
        self._trial.sizes.clear()

    def _through(self, files: list[DataFile], branches: Sequence[str], step: int) -> None:
        sources = [Source(one.opens, one.tree, one.entry_start, one.entry_stop) for one in files]
        limit_bytes, access = self._work.sample.memory_limit_bytes, self._work.sample.access
        stream = ChunkStream(sources, list(branches), step_size=step, memory_limit=limit_bytes, access=access)
        chunks = iter(stream)
        try:
            while self._goes_on():
                with self._clock.during("reading"):
                    chunk = next(chunks, None)
                if chunk is None:
                    break
                self._try(chunk, files[chunk.source_index])
        finally:
            stream.close()
        read = stream.records().files
        self._trial.plain_bytes = sum(one.plain_bytes for one in read)
        self._trial.bytes_read += sum(one.bytes_read for one in read)
        self._trial.read_calls += sum(one.read_calls for one in read)
        companions = self._coupling.companions
        for one in [] if companions is None else companions.take_records():
            self._trial.bytes_read += one.bytes_read
            self._trial.read_calls += one.read_calls

    def _try(self, chunk: Chunk, file: DataFile) -> None:
        trial = self._trial
        try:
            with self._profiler.during() if self._profiler else nullcontext():
                self._coupling.run(chunk, file, self._shares, learning=True)
        except UnreadableColumnError as error:
            raise error.cause from None
        trial.events += len(chunk)
        trial.entries[file.place if file.trees else chunk.path] = chunk.tree_entries
        trial.chunk_entries = max(trial.chunk_entries, len(chunk))
        if self._work.wagons:
            self._coupling.settle(self._shares)
            trial.sizes.append((trial.events, pickled_bytes(self._share().total)))
        else:
            for name in chunk.branches:
                chunk.array(name)

    def _take_from(self, share: WagonShare) -> None:
        self._trial.seconds = share.seconds
        self._trial.cpu_s = share.cpu_s
        self._trial.error = share.error
        self._trial.histograms = _histograms_in(share.total)
        for name, one in self._shares.items():
            if one.error is None:
                self._trial.digests[name] = digest_of(one.total)
            else:
                self._trial.errors[name] = one.error


def _histograms_in(output: object) -> int:
    if isinstance(output, boost_histogram.Histogram):
        return 1
    parts = output.values() if isinstance(output, Mapping) else output if isinstance(output, (list, tuple)) else ()
    return sum(_histograms_in(part) for part in parts)


def _range(one: DataFile, first: int, last: int) -> DataFile:
    start = one.entry_start + first
    stop = one.entry_start + last
    return replace(one, entry_start=start, entry_stop=stop if one.entry_stop is None else min(stop, one.entry_stop))
