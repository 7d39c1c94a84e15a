"""A worker of a train: draws sub-jobs, opens the next ones early, and runs every wagon on every chunk."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from branchline._core import set_base_directory
from branchline.base.limits import (
    LEAN_MEMORY_PART,
    MEMORY_LIMIT_MIN_BYTES,
    PROGRESS_INTERVAL_S,
    SUBJOBS_PER_STREAM_MAX,
)
from branchline.errors import FILE_ERRORS, BranchlineError, MemoryLimitError
from branchline.jobs.subjob import Context, Message, Note, SubJob
from branchline.jobs.workers.heartbeat import READING
from branchline.reading.access import PLANNED, Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.request import Step
from branchline.reading.sources import ReaderWait, Source, StreamRecords
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.record import MemoryRetry, WagonFault
from branchline.records.sensors.storage_counts import links_chosen
from branchline.records.sensors.this_process import cpu_s, host, memory_peak_bytes
from branchline.trains.subjobs.folding import NeighbourFolding
from branchline.trains.subjobs.locality import Locality, Obedience
from branchline.trains.subjobs.share_records import ShareRecords
from branchline.trains.subjobs.share_result import (
    EmptyParts,
    JobError,
    Learned,
    PackedWagons,
    Progress,
    ShareResult,
    WorkerTimes,
)
from branchline.trains.subjobs.shares import (
    ReadSizes,
    Share,
    chunk_sizes,
    empty_parts,
    entry_range,
    learning_entries,
    open_tree,
    parts_count,
)
from branchline.trains.subjobs.used_inputs import CodeCheck, PlannedCode, identities_of, unchanged
from branchline.trains.tables.piece_writer import TableWriters
from branchline.trains.tables.table_folder import TableFolder
from branchline.trains.wagons.clock import PhaseClock, split_reading
from branchline.trains.wagons.wagons import Wagon
from branchline.trains.worker.chunk_run import Coupling, UnreadableColumnError
from branchline.trains.worker.compiled_code import CompiledCode
from branchline.trains.worker.exactness import is_exact
from branchline.trains.worker.open_trees import KeptTree, StreamPart, is_last, parts_of
from branchline.trains.worker.warm_up import WARM_UP


@dataclass(frozen=True)
class TrainWork:
    """The callable that a job runs in each worker. ``threads`` are those of a worker that is given none; ``tables`` is
    where tables that wagons return are written.
    """

    wagons: tuple[Wagon, ...]
    named_branches: tuple[str, ...]
    step_size: int | str | None
    memory_limit_bytes: int
    threads: int
    skip_bad_files: bool
    access: Access
    tables: TableFolder = field(default_factory=TableFolder)
    #: The wagons that did not even begin.
    faults: dict[str, WagonFault] = field(default_factory=dict)
    #: What is compared with the code that a worker runs; None where no results are kept.
    planned_code: PlannedCode | None = None
    seed: int = 0
    #: In a worker, what the wagons are unpickled from once it has a sub-job.
    packed: PackedWagons | None = None
    #: Names what workers of a machine compile for each other; empty where they do not.
    compiled_key: str = ""

    def __call__(self, context: Context) -> Iterator[Message]:
        return Worker(self, context).messages()

    @property
    def packages(self) -> Mapping[str, str]:
        """The versions with which the train was planned: a worker that has others refuses it."""
        return {} if self.planned_code is None else self.planned_code.packages

    def __getstate__(self) -> dict[str, object]:
        packed = PackedWagons.of(self.wagons)
        return vars(self) | {"wagons": packed.bare, "packed": packed}


@dataclass
class OpenSubJob:
    """A sub-job whose stream is open. ``files`` are the sources of the stream; ``tree`` is open where the sub-job is a
    part of one file.
    """

    subjob: SubJob
    share: Share
    files: list[DataFile]
    stream: ChunkStream | StreamPart | None = None
    tree: Tree | None = None
    failed: BranchlineError | None = None
    #: The files that another stream reads after this one.
    later: list[DataFile] = field(default_factory=list)
    #: The index of the first sub-job that the same stream reads.
    leader: int = -1
    #: The parts of its file that have no entries, where it was opened for this sub-job.
    empty_parts: Sequence[int] = ()
    #: What measures of the control room make of it.
    obeys: Obedience = field(default_factory=lambda: Obedience(PLANNED))
    #: The identities of its local files, from before they were opened.
    inputs: dict[str, str] = field(default_factory=dict)


class Worker:
    """One worker at work; it lives as long as its process has sub-jobs."""

    def __init__(self, work: TrainWork, context: Context) -> None:
        self._work = work
        self._context = context
        self._threads = context.threads or work.threads
        self._clock = PhaseClock("start", context.begin_s)
        self._tables = TableWriters(work.tables)
        self._coupling = Coupling(
            work.wagons,
            self._clock,
            context.interruption,
            work.access,
            context.at,
            context.out_of_memory,
            self._tables,
            work.seed,
            work.packed,
            CompiledCode(work.compiled_key),
        )
        # Sub-jobs that are opened early, and one that was drawn and is not open yet.
        self._ahead: deque[OpenSubJob] = deque()
        self._drawn: SubJob | None = None
        # Wagons that failed here, in which sub-job: they need not run in later ones, whose results come after it.
        self._failed: dict[str, int] = {}
        self._waited = ReaderWait()
        self._progress = Progress(0, 0, 0, 0)
        self._reported_s = 0.0
        self._goes_on = True
        self._locality = Locality.here(work.access)
        self._kept_tree = KeptTree()
        self._code_check = None if work.planned_code is None else CodeCheck(work.planned_code, host())
        self._neighbours = NeighbourFolding(work.faults, context.worker)

    def messages(self) -> Iterator[Message]:
        """Works until there are no more sub-jobs, or one of them could not be read, or it is asked to stop."""
        # Files are opened by other threads while a wagon runs, which may change the working directory.
        set_base_directory(os.getcwd())
        try:
            opened = self._next()
            while opened is not None:
                if opened.empty_parts and not opened.share.is_trial:
                    first = opened.subjob.index - opened.share.part
                    yield self._note(EmptyParts(tuple(first + part for part in opened.empty_parts), opened.inputs))
                not_run = opened.share.stopped | self._failed_before(opened.subjob.index)
                self._coupling.load(not_run)
                is_trial, index = opened.share.is_trial, opened.subjob.index
                result = ShareResult(self._coupling.begin(not_run, index, counts_only=is_trial), not_run)
                yield from self._work_on(opened, result)
                self._note_failed(opened, result)
                self._clock.switch("merge")
                self._coupling.settle(result.wagons)
                result.memory_retry = _memory_retry(opened, result)
                result.times = self._times()
                if self._code_check is not None:
                    result.code = self._code_check.used()
                yield from self._neighbours.take(opened.subjob, result)
                self._clock.switch("other")
                if not self._goes_on:
                    break
                opened = self._next()
        finally:
            set_base_directory(None)
            self._tables.abandon()
            for one in self._ahead:
                if one.stream is not None:
                    one.stream.close()
        yield from self._neighbours.end()
        yield self._note(self._progress)
        yield self._note(self._times())

    def _failed_before(self, index: int) -> frozenset[str]:
        return frozenset(name for name, failed_at in self._failed.items() if failed_at < index)

    def _note_failed(self, opened: OpenSubJob, result: ShareResult) -> None:
        if opened.share.is_trial:
            return
        for name, share in result.wagons.items():
            if share.error is not None:
                self._failed[name] = min(opened.subjob.index, self._failed.get(name, opened.subjob.index))

    def _next(self) -> OpenSubJob | None:
        if not self._ahead:
            self._clock.switch("idle")
            subjob, self._drawn = self._drawn or self._context.draw(), None
            self._clock.switch("other")
            self._ahead.extend(() if subjob is None else self._open_with_next(subjob))
        return self._ahead.popleft() if self._ahead else None

    def _draw_ahead(self, opened: OpenSubJob) -> None:
        """Opens the next sub-jobs while this one is worked on, unless enough of them are, or two streams."""
        if opened.share.is_lean:
            return
        is_one_stream = all(one.leader == opened.leader for one in self._ahead)
        if len(self._ahead) <= SUBJOBS_PER_STREAM_MAX // 2 and is_one_stream:
            subjob = self._draw_now()
            self._ahead.extend(() if subjob is None else self._open_with_next(subjob))

    def _draw_now(self) -> SubJob | None:
        """The next sub-job, if it is known."""
        drawn = self._drawn or self._context.draw_ahead()
        self._drawn = None
        return drawn if isinstance(drawn, SubJob) else None

    def _open_with_next(self, subjob: SubJob) -> list[OpenSubJob]:
        """Opens a sub-job; where its files are far away together with those that come next, as one stream."""
        share: Share = subjob.payload
        self._locality.learn(share.round_trips)
        together = [subjob]
        while len(together) < share.together and self._is_far(share):
            drawn = self._draw_now()
            if drawn is None:
                break
            if not share.can_share_stream(drawn.payload):
                self._drawn = drawn
                break
            together.append(drawn)
        obeys = [self._locality.obey(one.payload.files, share.measures) for one in together]
        avoided = {location for one in obeys for location in one.avoided}
        files = (file for one in together for file in one.payload.files)
        self._locality.prefer_near(files, share.replicas_skipped, avoided)
        if len(together) == 1:
            return [self._open(subjob, obeys[0])]
        self._context.at(f"opening {share.label}", READING)
        all_opened = [
            OpenSubJob(one, one.payload, list(one.payload.files), obeys=how, inputs=self._identities(one.payload))
            for one, how in zip(together, obeys, strict=True)
        ]
        sources = [_source_of(file) for one in all_opened for file in one.files]
        staged = next((one.access for one in obeys if one.access != self._work.access), self._work.access)
        stream = self._stream(sources, share.branches, share.step, staged)
        parts = parts_of(stream, [_stops_of(one.files) for one in all_opened])
        leader = subjob.index
        return [replace(one, stream=part, leader=leader) for one, part in zip(all_opened, parts, strict=True)]

    def _identities(self, share: Share) -> dict[str, str]:
        return {} if self._code_check is None else identities_of(share.files)

    def _is_far(self, share: Share) -> bool:
        """Whether files are asked for early, and this sub-job is not one of the last, which others may want."""
        if share.together == 1:
            return False
        are_local = {_is_local(one) for one in share.files}
        links = [one for one in links_chosen(self._work.access) if one.name.startswith("local:") in are_local]
        return any(one.requests_in_flight for one in links)

    def _open(self, subjob: SubJob, obeys: Obedience) -> OpenSubJob:
        share: Share = subjob.payload
        self._context.at(f"opening {share.label}", READING)
        inputs = self._identities(share)
        opened = OpenSubJob(subjob, share, list(share.files), leader=subjob.index, obeys=obeys, inputs=inputs)
        sources, length = [_source_of(one) for one in opened.files], None
        if share.parts > 1:
            try:
                with self._clock.during("plan"):
                    opened.tree, is_new = self._kept_tree.open(share, obeys.access, inputs)
            except BranchlineError as error:
                opened.failed = error
                return opened
            entries_count, borders = opened.tree.entries_count, opened.tree.basket_borders()
            start, stop = entry_range(share, entries_count, borders)
            length = share.chunk_length(entries_count)
            if is_new and not share.is_provisional:
                opened.empty_parts = empty_parts(share, entries_count, borders)
            opened.files = [replace(share.files[0], entry_start=start, entry_stop=stop)]
            if start == stop and not is_new:
                # Its baskets are in other parts, and a stream over the tree has counted its opening.
                return opened
            # The stream goes on with the open tree.
            sources = [replace(opened.tree.source(start, stop), counts_apart=True)]
        else:
            self._kept_tree.forget()
        # To learn, a stream is opened for each file in turn until one of them has events.
        if not share.learn:
            opened.stream = self._stream(sources, share.branches, length or share.step, obeys.access, share, length)
        return opened

    def _stream(
        self,
        sources: list[Source],
        branches: tuple[str, ...],
        step: int,
        access: Access,
        share: Share | None = None,
        length: int | None = None,
    ) -> ChunkStream:
        """``share`` says with how little memory it is read, where it is read alone. Chunks of a file have one length of
        about ``step`` entries, or the ``length`` that is given.
        """
        is_lean = share is not None and share.is_lean
        limit_bytes = self._work.memory_limit_bytes
        if share is not None:
            step = max(1, step // share.chunk_divisor)
        with self._clock.during("plan"):
            return ChunkStream(
                sources,
                list(branches),
                optional=self._optional(branches),
                step_size=replace(Step.of(step), is_even=length is None),
                threads=1 if is_lean else self._threads,
                memory_limit=max(MEMORY_LIMIT_MIN_BYTES, limit_bytes // LEAN_MEMORY_PART) if is_lean else limit_bytes,
                # Two streams live side by side at the border of two sub-jobs.
                memory_parts=1 if is_lean else 2,
                skip_bad_files=self._work.skip_bad_files,
                allow_missing=self._work.skip_bad_files,
                access=access,
            )

    def _optional(self, branches: tuple[str, ...]) -> list[str]:
        """The branches that were learned on the first file. Other files may lack them: a wagon that wants one there
        gets an error, unless such files are skipped.
        """
        if self._work.skip_bad_files:
            return []
        return [name for name in branches if name not in self._work.named_branches]

    def _work_on(self, opened: OpenSubJob, result: ShareResult) -> Iterator[Message]:
        """Runs the wagons on all chunks of a sub-job; what stops it is noted in the result."""
        records = ShareRecords(self._context.worker, self._locality, opened.share.files)
        try:
            if opened.failed is not None:
                self._skip_or_raise(opened.failed, opened.files[0].path, None, records)
            elif opened.share.learn:
                yield from self._learn(opened, result, records)
            if opened.stream is not None:
                yield from self._work_through(opened, opened.stream, result, records)
            if opened.stream is not None and opened.later:
                self._close(opened.stream, records)
                opened.files, opened.later, opened.stream = opened.later, [], None
                opened.stream = self._rest_stream(opened)
                yield from self._work_through(opened, opened.stream, result, records)
        except KeyboardInterrupt:
            result.is_whole, result.interrupted, self._goes_on = False, True, False
        except Exception as error:  # noqa: BLE001 - it stops the job, which reports it and keeps what is finished
            if isinstance(error, MemoryError) or (opened.share.is_lean and isinstance(error, MemoryLimitError)):
                self._context.out_of_memory()
            result.is_whole, self._goes_on = False, opened.share.is_trial
            result.error = JobError.of(error)
            self._kept_tree.forget()
        finally:
            if opened.stream is not None:
                self._close(opened.stream, records)
            with self._clock.during("merge"):
                companions = self._coupling.companions
                records.companions_done(companions.take_records(), companions.take_missing())
            records.write_into(result)
            result.measures = opened.obeys.records
            result.inputs = unchanged(opened.inputs, self._identities(opened.share)) | records.other_versions
            result.links = links_chosen(self._work.access, self._locality.spot.site)

    def _work_through(
        self, opened: OpenSubJob, stream: ChunkStream | StreamPart, result: ShareResult, records: ShareRecords
    ) -> Iterator[Message]:
        chunks, is_whole = iter(stream), False
        while True:
            if self._coupling.all_stopped(result.wagons):
                result.is_whole = is_whole
                return
            begin_s = time.monotonic() - self._clock.spent(WARM_UP)
            chunk = self._pull(chunks, opened.share)
            if chunk is None:
                return
            is_whole = is_last(chunk, _stops_of(opened.files))
            if is_whole or self._is_far(opened.share):
                self._draw_ahead(opened)
            file = opened.files[chunk.source_index]
            self._work_on_chunk(chunk, file, result, records, learning=False)
            records.chunk_done(chunk, begin_s + self._clock.spent(WARM_UP))
            self._count(chunk, file)
            del chunk
            if time.monotonic() - self._reported_s > PROGRESS_INTERVAL_S:
                yield self._note(self._progress_with(stream))

    def _work_on_chunk(
        self, chunk: Chunk, file: DataFile, result: ShareResult, records: ShareRecords, *, learning: bool
    ) -> None:
        try:
            self._coupling.run(chunk, file, result.wagons, learning=learning)
            result.events += len(chunk)
        except UnreadableColumnError as error:
            self._skip_or_raise(error.cause, chunk.path, len(chunk), records)

    def _skip_or_raise(
        self, error: BranchlineError, path: str, entries_lost: int | None, records: ShareRecords
    ) -> None:
        if not self._work.skip_bad_files or not isinstance(error, FILE_ERRORS):
            raise error
        records.skip(path, entries_lost, error.reason)

    def _pull(self, chunks: Iterator[Chunk], share: Share) -> Chunk | None:
        self._context.at(f"reading {share.label}", READING)
        with self._clock.during("reading"), self._context.interruption.allowed():
            return next(chunks, None)

    def _learn(self, opened: OpenSubJob, result: ShareResult, records: ShareRecords) -> Iterator[Message]:
        """Runs the wagons on the first entries with the named branches alone; what they touch is read from there on.

        Leaves in ``opened`` a stream over the entries that follow. A file that is skipped leaves it to the next one.
        """
        for position, file in enumerate(opened.files):
            try:
                with self._clock.during("plan"):
                    tree = opened.tree if opened.tree is not None else open_tree(file, opened.obeys.access)
            except BranchlineError as error:
                self._skip_or_raise(error, file.path, None, records)
                continue
            stop = tree.entries_count if file.entry_stop is None else min(file.entry_stop, tree.entries_count)
            length = learning_entries(replace(opened.share, files=(opened.share.files[position],)), tree.entries_count)
            learned = min(file.entry_start + length, stop)
            events_before = result.events
            source = replace(tree.source(file.entry_start, learned), counts_apart=True)
            branches = self._work.named_branches
            stream = self._stream([source], branches, length, opened.obeys.access, opened.share, length)
            try:
                self._learn_from(stream, replace(file, entry_stop=learned), opened.share, result, records)
            finally:
                self._close(stream, records, skips=False)
            if stream.skipped:
                lost = stop - file.entry_start - (result.events - events_before)
                records.skip(file.path, lost, stream.skipped[0].error)
            elif result.events > events_before:
                yield from self._learned(opened, position, replace(file, entry_start=learned, entry_stop=stop), tree)
                return
        opened.stream = None

    def _learn_from(
        self, stream: ChunkStream, file: DataFile, share: Share, result: ShareResult, records: ShareRecords
    ) -> None:
        """Works through the first entries."""
        chunks = iter(stream)
        while True:
            begin_s = time.monotonic() - self._clock.spent(WARM_UP)
            chunk = self._pull(chunks, share)
            if chunk is None:
                return
            self._work_on_chunk(chunk, file, result, records, learning=True)
            records.chunk_done(chunk, begin_s + self._clock.spent(WARM_UP))
            self._count(chunk, file)

    def _learned(self, opened: OpenSubJob, position: int, rest: DataFile, tree: Tree) -> Iterator[Message]:
        share, touched = opened.share, self._coupling.touched
        used = {*self._work.named_branches, *share.known_branches, *self._coupling.touched_by_all}
        branches, step = tuple(sorted(used)), share.learned_step
        if step is None:
            with self._clock.during("plan"):
                read = ReadSizes.of(tree, branches, self._coupling.companion_bytes_per_event)
            sizes = chunk_sizes(read, self._work.step_size, self._work.memory_limit_bytes)
            step = sizes.step
            if not share.is_trial or share.only_learns:
                by_wagon = {name: tuple(sorted(names)) for name, names in touched.items()}
                yield self._note(Learned(opened.subjob.index, branches, sizes, by_wagon))
            if share.is_provisional and share.part == 0:
                share = replace(share, parts=parts_count(share, sizes))
                borders = tree.basket_borders()
                rest = replace(rest, entry_stop=entry_range(share, tree.entries_count, borders)[1])
                empty = empty_parts(share, tree.entries_count, borders)
                if empty and not share.is_trial:
                    yield self._note(EmptyParts(tuple(opened.subjob.index + part for part in empty), opened.inputs))
        if share.only_learns:
            opened.stream = None
            return
        opened.share, opened.tree = replace(share, branches=branches, step=step), tree
        opened.files, later = [], opened.files[position + 1 :]
        length = replace(share, files=(share.files[position],)).chunk_length(tree.entries_count)
        if rest.entry_start < (rest.entry_stop or 0):
            opened.files.append(rest)
        if opened.files and length is not None:
            # The next files have chunks of other lengths, and so a stream of their own.
            opened.later = later
        else:
            opened.files, length = opened.files + later, None
        opened.stream = self._rest_stream(opened, rest, length) if opened.files else None

    def _rest_stream(self, opened: OpenSubJob, rest: DataFile | None = None, length: int | None = None) -> ChunkStream:
        """A stream over the files of a sub-job in which branches were learned; ``rest`` is that of the open tree."""
        share, sources = opened.share, [_source_of(one) for one in opened.files]
        if opened.tree is not None and rest in opened.files:
            sources[0] = replace(opened.tree.source(rest.entry_start, rest.entry_stop), counts_apart=True)
        return self._stream(sources, share.branches, length or share.step, opened.obeys.access, share, length)

    def _close(self, stream: ChunkStream | StreamPart, records: ShareRecords, *, skips: bool = True) -> None:
        with self._clock.during("merge"):
            stream.close()
            read = stream.records()
            records.stream_done(read, stream.skipped if skips else [])
        if stream.skipped:
            self._kept_tree.forget()
        self._waited = self._waited.plus(read.wait)
        self._progress = _with_bytes(self._progress, read)

    def _count(self, chunk: Chunk, file: DataFile) -> None:
        share = len(chunk) / chunk.tree_entries if chunk.tree_entries else 0.0
        self._progress = replace(
            self._progress,
            events=self._progress.events + len(chunk),
            size_bytes_done=self._progress.size_bytes_done + int(share * (file.size_bytes or 0)),
        )

    def _progress_with(self, stream: ChunkStream | StreamPart) -> Progress:
        self._reported_s = time.monotonic()
        return _with_bytes(self._progress, stream.records())

    def _note(self, value: object) -> Note:
        return Note(value, self._context.worker)

    def _times(self) -> WorkerTimes:
        phases = split_reading(self._clock.seconds(), self._waited)
        cpu_seconds = cpu_s() + self._context.loading_cpu_s
        return WorkerTimes(
            time.monotonic(), host(), phases, cpu_seconds, memory_peak_bytes(), self._threads, self._locality.spot.site
        )


def _memory_retry(opened: OpenSubJob, result: ShareResult) -> MemoryRetry | None:
    """For a sub-job that had less memory than others."""
    share = opened.share
    if not share.is_lean:
        return None
    inexact = [name for name, one in result.wagons.items() if share.chunk_divisor > 1 and not is_exact(one.total)]
    return MemoryRetry(opened.subjob.label, share.chunk_divisor, inexact)


def _source_of(file: DataFile) -> Source:
    return Source(file.opens, file.tree, file.entry_start, file.entry_stop)


def _is_local(file: DataFile) -> bool:
    return "://" not in file.opens or file.opens.startswith("file:")


def _stops_of(files: Sequence[DataFile]) -> list[int | None]:
    return [one.entry_stop for one in files]


def _with_bytes(progress: Progress, read: StreamRecords) -> Progress:
    return replace(
        progress,
        bytes_read=progress.bytes_read + sum(one.bytes_read for one in read.files),
        plain_bytes=progress.plain_bytes + sum(one.plain_bytes for one in read.files),
    )
