"""A train's worker, which draws sub-jobs, opens the next sub-jobs in advance, and runs all wagons on each chunk."""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from branchline._core import set_base_directory
from branchline.base.checks import instance_of
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
from branchline.reading.request import ChunkLength
from branchline.reading.sources import ReaderWait, Source, StreamRecords
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.record import MemoryRetry, WagonFault
from branchline.records.sensors.storage_counts import links_chosen
from branchline.records.sensors.this_process import cpu_s, host, memory_peak_bytes, processor
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
from branchline.trains.worker.exactness import is_exact
from branchline.trains.worker.open_trees import KeptTree, StreamPart, is_last, parts_of
from branchline.trains.worker.warm_up import WARM_UP, CompiledCode


@dataclass(frozen=True)
class TrainWork:
    """The callable that a job runs in each worker.

    ``threads`` is the default number of threads per worker. ``tables`` is the folder for tables that wagons return.
    """

    wagons: tuple[Wagon, ...]
    named_branches: tuple[str, ...]
    step_size: int | str | None
    memory_limit_bytes: int
    threads: int
    skip_bad_files: bool
    access: Access
    tables: TableFolder = field(default_factory=TableFolder)
    #: Wagons that failed before the start, with the reasons.
    faults: dict[str, WagonFault] = field(default_factory=dict)
    #: The code with which the train was planned, for comparison with the code that a worker runs. None for local
    #: workers if results are not cached.
    planned_code: PlannedCode | None = None
    seed: int = 0
    #: Pickled wagons, which a worker unpickles once it has a sub-job. If this field is set, ``wagons`` contain no user
    #: objects. A task of a batch system passes the pickled wagons of the submission.
    packed: PackedWagons | None = None
    #: Name of the folder in which workers share compiled functions; empty if they do not share them.
    compiled_key: str = ""

    def __call__(self, context: Context) -> Iterator[Message]:
        return Worker(self, context).messages()

    @property
    def packages(self) -> Mapping[str, str]:
        """Package versions with which the train was planned. A worker with different versions rejects the work."""
        return {} if self.planned_code is None else self.planned_code.packages

    def __getstate__(self) -> dict[str, object]:
        packed = self.packed or PackedWagons.of(self.wagons)
        return vars(self) | {"wagons": packed.bare, "packed": packed}


@dataclass
class OpenSubJob:
    """A sub-job with an open stream. ``files`` are the sources of the stream. ``tree`` is set if the sub-job is a part
    of one file.
    """

    subjob: SubJob
    share: Share
    files: list[DataFile]
    stream: ChunkStream | StreamPart | None = None
    tree: Tree | None = None
    failed: BranchlineError | None = None
    #: Files that are read by a second stream after the open stream.
    later: list[DataFile] = field(default_factory=list)
    #: Index of the first sub-job that reads from the same stream.
    leader: int = -1
    #: Indices of the file's parts without entries. Empty if the file was already open.
    empty_parts: Sequence[int] = ()
    #: How this sub-job follows the measures of a control room.
    obeys: Obedience = field(default_factory=lambda: Obedience(PLANNED))
    #: Identities of the sub-job's local files, determined before the files were opened.
    inputs: dict[str, str] = field(default_factory=dict)


class Worker:
    """A running worker. Lives as long as its process has sub-jobs."""

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
            CompiledCode(work.compiled_key) if work.compiled_key else None,
        )
        # _ahead are sub-jobs that were opened early. _drawn is a sub-job that was drawn but is not open yet.
        self._ahead: deque[OpenSubJob] = deque()
        self._drawn: SubJob | None = None
        # Index of the sub-job in which a wagon failed, by wagon. A failed wagon need not run in later sub-jobs.
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
        """Run sub-jobs until none are left, a sub-job cannot be read, or the worker is asked to stop. Yields the
        messages for the job.
        """
        # Relative paths must not depend on the working directory, which a wagon may change while other threads open
        # files.
        set_base_directory(os.getcwd())
        try:
            opened = self._next()
            while opened is not None:
                if opened.empty_parts and not opened.share.is_trial:
                    first = opened.subjob.index - opened.share.part
                    yield self._note(EmptyParts(tuple(first + part for part in opened.empty_parts), opened.inputs))
                is_trial, index = opened.share.is_trial, opened.subjob.index
                failed_before = {name for name, failed_at in self._failed.items() if failed_at < index}
                not_run = opened.share.stopped | failed_before
                self._coupling.load(not_run)
                result = ShareResult(self._coupling.begin(not_run, index, counts_only=is_trial), not_run)
                yield from self._work_on(opened, result)
                self._note_failed(opened, result)
                self._clock.switch("merge")
                self._coupling.settle(result.wagons)
                if opened.share.is_lean:
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
        """Open the next sub-jobs while ``opened`` runs, unless enough sub-jobs, or two streams, are already open."""
        if opened.share.is_lean:
            return
        is_one_stream = all(one.leader == opened.leader for one in self._ahead)
        if len(self._ahead) <= SUBJOBS_PER_STREAM_MAX // 2 and is_one_stream:
            subjob = self._draw_now()
            self._ahead.extend(() if subjob is None else self._open_with_next(subjob))

    def _draw_now(self) -> SubJob | None:
        """Return the next sub-job if it is already known; otherwise None."""
        drawn = self._drawn or self._context.draw_ahead()
        self._drawn = None
        return drawn if isinstance(drawn, SubJob) else None

    def _open_with_next(self, subjob: SubJob) -> list[OpenSubJob]:
        """Open a sub-job. If its files are remote, the following sub-jobs are opened in the same stream."""
        share = instance_of(subjob.payload, Share)
        self._locality.learn(share.round_trips, share.silent)
        together, shares = [subjob], [share]
        while len(together) < share.together and self._is_far(share):
            drawn = self._draw_now()
            if drawn is None:
                break
            other = instance_of(drawn.payload, Share)
            if not share.can_share_stream(other) or _shares_file(shares, other):
                self._drawn = drawn
                break
            together.append(drawn)
            shares.append(other)
        together = [self._through_cache(one) for one in together]
        shares = [instance_of(one.payload, Share) for one in together]
        obeys = [self._locality.obey(one.files, share.measures) for one in shares]
        if with_replicas := [file for one in shares for file in one.files if len(file.locations) > 1]:
            avoided = {location for one in obeys for location in one.avoided}
            self._locality.prefer_near(with_replicas, share.replicas_skipped, avoided)
        if len(together) == 1:
            return [self._open(together[0], obeys[0])]
        self._context.at(f"opening {share.label}", READING)
        all_opened = [
            OpenSubJob(one, its, list(its.files), obeys=how, inputs=self._identities(its))
            for one, its, how in zip(together, shares, obeys, strict=True)
        ]
        sources = [_source_of(file) for one in all_opened for file in one.files]
        staged = next((one.access for one in obeys if one.access != self._work.access), self._work.access)
        stream = self._stream(sources, share.branches, share.step, staged)
        parts = parts_of(stream, [_stops_of(one.files) for one in all_opened])
        leader = subjob.index
        return [replace(one, stream=part, leader=leader) for one, part in zip(all_opened, parts, strict=True)]

    def _through_cache(self, subjob: SubJob) -> SubJob:
        share = instance_of(subjob.payload, Share)
        files = tuple(map(self._locality.through_cache, share.files))
        return replace(subjob, payload=replace(share, files=files))

    def _identities(self, share: Share) -> dict[str, str]:
        return {} if self._code_check is None else identities_of(share.files)

    def _is_far(self, share: Share) -> bool:
        """Return whether the next files should be requested in advance. False if the share must be read alone
        (``together`` is 1), as near the end of the job.
        """
        if share.together == 1:
            return False
        are_local = {"://" not in one.opens or one.opens.startswith("file:") for one in share.files}
        links = [one for one in links_chosen(self._work.access) if one.name.startswith("local:") in are_local]
        return any(one.requests_in_flight for one in links)

    def _open(self, subjob: SubJob, obeys: Obedience) -> OpenSubJob:
        share = instance_of(subjob.payload, Share)
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
                # There is nothing to read, so no stream is needed. An earlier stream has counted the reads for opening
                # this tree.
                return opened
            # The stream uses the tree that is already open.
            sources = [replace(opened.tree.source(start, stop), counts_apart=True)]
        else:
            self._kept_tree.forget()
        # If branches have to be learned, `_learn` opens a separate stream for each file, until a file has events.
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
        """Open a stream. Chunks of a file have equal lengths of about ``step`` entries, or exactly ``length`` if given.
        ``share`` determines how much memory the stream may use; None for a stream of several sub-jobs.
        """
        is_lean = share is not None and share.is_lean
        limit_bytes = self._work.memory_limit_bytes
        if share is not None:
            step = max(1, step // share.chunk_divisor)
        with self._clock.during("plan"):
            # Branches learned from the first file may be missing in other files. A wagon that uses a missing branch
            # then gets an error. If bad files are skipped, such a file is skipped instead.
            learned = [name for name in branches if name not in self._work.named_branches]
            return ChunkStream(
                sources,
                list(branches),
                optional=[] if self._work.skip_bad_files else learned,
                step_size=replace(ChunkLength.of(step), is_even=length is None),
                threads=1 if is_lean else self._threads,
                memory_limit=max(MEMORY_LIMIT_MIN_BYTES, limit_bytes // LEAN_MEMORY_PART) if is_lean else limit_bytes,
                # At the border between two sub-jobs, two streams are open simultaneously.
                memory_parts=1 if is_lean else 2,
                skip_bad_files=self._work.skip_bad_files,
                allow_missing=self._work.skip_bad_files,
                access=access,
            )

    def _work_on(self, opened: OpenSubJob, result: ShareResult) -> Iterator[Message]:
        """Run the wagons on all chunks of a sub-job. Errors and interruptions are recorded in the result."""
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
        except Exception as error:  # noqa: BLE001 - the job reports the error, stops, and keeps finished results
            if isinstance(error, MemoryError) or (opened.share.is_lean and isinstance(error, MemoryLimitError)):
                self._context.out_of_memory()
            result.is_whole, self._goes_on = False, opened.share.is_trial
            result.error = JobError.of(error)
            self._kept_tree.forget()
        finally:
            if opened.stream is not None:
                self._close(opened.stream, records)
            if (companions := self._coupling.companions) is not None:
                with self._clock.during("merge"):
                    records.companions_done(
                        companions.take_records(), companions.take_missing(), companions.take_joins()
                    )
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
            self._work_on_chunk(chunk, opened.files[chunk.source_index], begin_s, result, records, learning=False)
            del chunk
            if time.monotonic() - self._reported_s > PROGRESS_INTERVAL_S:
                self._reported_s = time.monotonic()
                yield self._note(_with_bytes(self._progress, stream.records()))

    def _work_on_chunk(
        self,
        chunk: Chunk,
        file: DataFile,
        begin_s: float,
        result: ShareResult,
        records: ShareRecords,
        *,
        learning: bool,
    ) -> None:
        """Run the wagons on a chunk, and record it. ``begin_s`` is the time at which the wait for the chunk started,
        minus the total warm-up time until then.
        """
        try:
            self._coupling.run(chunk, file, result.wagons, learning=learning)
            result.events += len(chunk)
        except UnreadableColumnError as error:
            self._skip_or_raise(error.cause, chunk.path, len(chunk), records)
        records.chunk_done(chunk, begin_s + self._clock.spent(WARM_UP))
        part = len(chunk) / chunk.tree_entries if chunk.tree_entries else 0.0
        self._progress = replace(
            self._progress,
            events=self._progress.events + len(chunk),
            size_bytes_done=self._progress.size_bytes_done + int(part * (file.share_bytes or 0)),
        )

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
        """Learn which branches to read: run the wagons on the first entries, with only the named branches read in
        advance.

        Stores a stream over the following entries, with all branches that the wagons used, in ``opened``. If a file is
        skipped, learning continues with the next file.
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
        """Run the wagons on all chunks of a stream over the first entries."""
        chunks = iter(stream)
        while True:
            begin_s = time.monotonic() - self._clock.spent(WARM_UP)
            chunk = self._pull(chunks, share)
            if chunk is None:
                return
            self._work_on_chunk(chunk, file, begin_s, result, records, learning=True)

    def _learned(self, opened: OpenSubJob, position: int, rest: DataFile, tree: Tree) -> Iterator[Message]:
        share, touched = opened.share, self._coupling.touched
        used = {*self._work.named_branches, *share.known_branches}.union(*touched.values())
        branches, step = tuple(sorted(used)), share.learned_step
        if step is None:
            with self._clock.during("plan"):
                facts = [tree.shape.facts_of(tree.core.find(name)) for name in branches]
                read = ReadSizes.of(tree, facts, self._coupling.companion_bytes_per_event)
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
            # The remaining files have a different chunk length, so they need a separate stream.
            opened.later = later
        else:
            opened.files, length = opened.files + later, None
        opened.stream = self._rest_stream(opened, rest, length) if opened.files else None

    def _rest_stream(self, opened: OpenSubJob, rest: DataFile | None = None, length: int | None = None) -> ChunkStream:
        """Open a stream over the remaining files after learning. ``rest`` is the part of the open tree's file that has
        not been read.
        """
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

    def _note(self, value: object) -> Note:
        return Note(value, self._context.worker)

    def _times(self) -> WorkerTimes:
        phases = split_reading(self._clock.seconds(), self._waited)
        cpu_seconds = cpu_s() + self._context.loading_cpu_s
        return WorkerTimes(
            time.monotonic(),
            host(),
            phases,
            cpu_seconds,
            memory_peak_bytes(),
            self._threads,
            self._locality.spot.site,
            processor(),
        )


def _memory_retry(opened: OpenSubJob, result: ShareResult) -> MemoryRetry:
    """Return the record of a sub-job that ran with less memory."""
    divisor = opened.share.chunk_divisor
    inexact = [name for name, one in result.wagons.items() if divisor > 1 and not is_exact(one.total)]
    return MemoryRetry(opened.subjob.label, divisor, inexact)


def _source_of(file: DataFile) -> Source:
    return Source(file.opens, file.tree, file.entry_start, file.entry_stop)


def _shares_file(shares: Sequence[Share], other: Share) -> bool:
    """Return whether a share reads another tree of a file of ``shares``: a stream counts the reads of all trees of a
    file together, so they cannot be divided between sub-jobs.
    """
    known = {file.path: file.tree for one in shares for file in one.files}
    return any(known.get(file.path, file.tree) != file.tree for file in other.files)


def _stops_of(files: Sequence[DataFile]) -> list[int | None]:
    return [one.entry_stop for one in files]


def _with_bytes(progress: Progress, read: StreamRecords) -> Progress:
    return replace(
        progress,
        bytes_read=progress.bytes_read + sum(one.bytes_read for one in read.files),
        plain_bytes=progress.plain_bytes + sum(one.plain_bytes for one in read.files),
    )
