"""The result of a sub-job: the sums of the wagons, and records of the reads.

Wagons and their outputs are pickled for transfer between processes. If a wagon or its output cannot be pickled, only
that wagon stops.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import cloudpickle

from branchline.base.texts import message_of
from branchline.base.trust import from_own_process, unpickle
from branchline.errors import BranchlineError, WagonError
from branchline.jobs.subjob import Pickled
from branchline.records.sensors.job_measures import MeasureRecord
from branchline.records.sensors.record import (
    BranchRecord,
    FileRecord,
    JobFault,
    LinkRecord,
    MemoryRetry,
    SiteReading,
    SkippedFile,
    TroubleRecord,
    WagonFault,
)
from branchline.records.sensors.record_parts import JoinRecord, MissingCompanion
from branchline.trains.subjobs.shares import ChunkSizes
from branchline.trains.subjobs.used_inputs import UsedCode
from branchline.trains.wagons.luminosity import LumiSections
from branchline.trains.wagons.wagons import Wagon


@dataclass
class WagonShare:
    """The result of a wagon in one sub-job. ``total`` is the sum over the chunks before the first error.
    ``reused_count`` is 1 if the sum comes from an earlier run. ``python_lines`` are the lines of Python that the wagon
    executed while ``python_events`` events were processed. ``sections`` are the luminosity sections that the wagon has
    processed, by dataset.
    """

    total: Any = None
    events: int = 0
    chunks: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    core_wait_s: float = 0.0
    python_lines: int = 0
    python_events: int = 0
    touched: set[str] = field(default_factory=set)
    misses: dict[str, int] = field(default_factory=dict)
    error: WagonFault | None = None
    requires: tuple[str, ...] = ()
    reused_count: int = 0
    sections: dict[str, LumiSections] = field(default_factory=dict)

    def add_sections(self, dataset: str, sections: LumiSections) -> None:
        """Add luminosity sections of a dataset."""
        known = self.sections.get(dataset)
        self.sections[dataset] = sections if known is None else known + sections

    def __getstate__(self) -> dict[str, object]:
        # Pickle the sum separately, so that a sum that cannot be transferred stops only its wagon.
        try:
            return vars(self) | {"total": packed(self.total)}
        except CannotPickleError as error:
            return vars(self._without_sum(error))

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        vars(self).update({**state, "total": None})
        try:
            self.total = unpacked(state["total"])
        except CannotPickleError as error:
            vars(self).update(vars(self._without_sum(error)))

    def _without_sum(self, error: CannotPickleError) -> WagonShare:
        text = "".join(traceback.format_exception(error))
        fault = self.error or WagonFault(type(error).__name__, str(error), traceback=text)
        return replace(self, total=None, events=0, chunks=0, error=fault)


@dataclass
class JobError:
    """The error that stopped a sub-job or the whole job, in a form that can be pickled."""

    error: BaseException
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> JobError:
        """Create a job error from an error, with its current traceback."""
        return cls(error, "".join(traceback.format_exception(error)))

    def fault(self) -> JobFault:
        """Return the error in the form for the job record."""
        path = getattr(self.error, "path", None)
        message = message_of(self.error)
        if not isinstance(self.error, BranchlineError):
            message = f"{type(self.error).__name__}: {message}"
        kind = type(self.error).__name__
        return JobFault(kind, message, None if path is None else str(path), self.traceback)


@dataclass
class WorkerTimes:
    """How a worker spent its time until ``until_s`` (``time.monotonic``), and the resources that it used."""

    until_s: float
    host: str
    phases: dict[str, float]
    cpu_s: float
    memory_peak_bytes: int
    threads: int = 1
    site: str = ""
    processor: str = ""


@dataclass(kw_only=True)
class ReadRecords:
    """The read records of one or several sub-jobs, and the error that stopped them."""

    files: list[FileRecord] = field(default_factory=list)
    branches: list[BranchRecord] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    companions_missing: list[MissingCompanion] = field(default_factory=list)
    joins: list[JoinRecord] = field(default_factory=list)
    # Number of keys recovered from files that were not closed properly, by path.
    recovered: dict[str, int] = field(default_factory=dict)
    troubles: list[TroubleRecord] = field(default_factory=list)
    links: list[LinkRecord] = field(default_factory=list)
    sites: list[SiteReading] = field(default_factory=list)
    measures: list[MeasureRecord] = field(default_factory=list)
    events: int = 0
    error: JobError | None = None


#: A callback that is called with the read records of each result. The records do not change afterwards.
OnReads = Callable[[ReadRecords], None]


@dataclass
class ShareResult(ReadRecords):
    """The outcome of a sub-job.

    ``is_whole`` is False if the sub-job was interrupted, was stopped by ``error``, or ended because all wagons had
    stopped. ``is_reused`` is True if the entire outcome comes from an earlier run.
    """

    wagons: dict[str, WagonShare]
    # Wagons that did not run because they had already stopped.
    not_run: frozenset[str] = frozenset()
    is_whole: bool = True
    interrupted: bool = False
    is_reused: bool = False
    memory_retry: MemoryRetry | None = None
    times: WorkerTimes | None = None
    #: Inputs that were read, by path: identities of local files, and versions of remote files that differ from the
    #: plan.
    inputs: dict[str, str] = field(default_factory=dict)
    code: UsedCode = field(default_factory=UsedCode)

    @classmethod
    def without_entries(
        cls, wagons: Sequence[Wagon], not_run: frozenset[str], inputs: Mapping[str, str]
    ) -> ShareResult:
        """Return the result that a worker with these ``inputs`` would create for a sub-job without entries."""
        return cls(
            {one.name: WagonShare(requires=one.requires) for one in wagons}, not_run=not_run, inputs=dict(inputs)
        )


@dataclass(frozen=True)
class Progress:
    """Cumulative counts of one worker since its start."""

    events: int
    bytes_read: int
    plain_bytes: int
    size_bytes_done: int


@dataclass(frozen=True)
class EmptyParts:
    """Indices of sub-jobs whose part of a file has no entries, as found by the worker that opened the file. ``inputs``
    are the identities of the files that the worker opened.
    """

    indices: tuple[int, ...]
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Learned:
    """The branches that wagons used in the first chunk of sub-job ``index``, and the chunk sizes computed from them.
    ``touched`` has the branches by wagon.
    """

    index: int
    branches: tuple[str, ...]
    sizes: ChunkSizes
    touched: dict[str, tuple[str, ...]] = field(default_factory=dict)


class CannotPickleError(BranchlineError):
    """An output of a wagon cannot be pickled."""


class _Counter:
    """A file object that counts the bytes written to it and discards them."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self.size_bytes += length
        return length


def pickled_bytes(output: object) -> int:
    """Return the size of an output when pickled. Raises CannotPickleError, MemoryError."""
    counter = _Counter()
    try:
        cloudpickle.dump(output, counter)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot_pickle(error) from error
    return counter.size_bytes


def send_and_return(output: object) -> None:
    """Pickle and unpickle an output. Raises CannotPickleError, MemoryError.

    This checks that the train also works with several workers, even if a single worker need not transfer outputs.
    """
    try:
        unpickle(from_own_process(cloudpickle.dumps(output)), object)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - classes of users may raise anything
        raise _cannot_pickle(error) from None


def packed(output: object) -> Pickled | None:
    """Pickle an output. Raises CannotPickleError, MemoryError."""
    try:
        return None if output is None else Pickled.of(output)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot_pickle(error) from error


def unpacked(output: Pickled | None) -> object:
    """Unpickle an output. Raises CannotPickleError, MemoryError."""
    try:
        return None if output is None else output.value()
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot_pickle(error) from error


def _cannot_pickle(error: BaseException) -> CannotPickleError:
    return CannotPickleError(
        f"the output of process() cannot be pickled: {type(error).__name__}: {message_of(error)}",
        hint="return numbers, histograms, arrays, and lists and dicts of these",
    )


@dataclass(frozen=True)
class PackedWagons:
    """The pickled wagons of a train.

    ``together`` has all wagons in one pickle, which preserves objects that several wagons share. ``alone`` has a
    separate pickle for each wagon, which is used if ``together`` cannot be unpickled. ``bare`` are the wagons without
    the user's objects.
    """

    together: bytes
    bare: tuple[Wagon, ...]
    alone: tuple[bytes, ...]

    @classmethod
    def of(cls, wagons: Sequence[Wagon]) -> PackedWagons:
        """Pickle wagons. Raises errors from pickling."""
        alone = tuple(cloudpickle.dumps(one) for one in wagons) if len(wagons) > 1 else ()
        return cls(cloudpickle.dumps(tuple(wagons)), tuple(one.bare() for one in wagons), alone)

    def unpacked(self) -> tuple[Wagon, ...]:
        """Return the wagons. A wagon that cannot be unpickled is replaced by a wagon that raises an error when it
        runs.
        """
        together = _unpickled(self.together)
        if not isinstance(together, WagonError):
            return cast("tuple[Wagon, ...]", together)
        if not self.alone:
            return tuple(one.failing(together) for one in self.bare)
        return tuple(self.one(index) for index in range(len(self.bare)))

    def unpacked_but(self, left_out: Collection[str]) -> tuple[Wagon, ...]:
        """Return the wagons. Wagons named in ``left_out`` are not unpickled, and have no user object."""
        if not left_out:
            return self.unpacked()
        return tuple(one if one.name in left_out else self.one(index) for index, one in enumerate(self.bare))

    def one(self, index: int) -> Wagon:
        """Return one wagon without unpickling the others. If it cannot be unpickled, the returned wagon raises an error
        when it runs.
        """
        if not self.alone:
            return self.unpacked()[index]
        found = _unpickled(self.alone[index])
        return self.bare[index].failing(found) if isinstance(found, WagonError) else cast("Wagon", found)


def _unpickled(content: bytes) -> object:
    """Unpickle wagons. Returns, instead of raising, a WagonError if they cannot be unpickled."""
    try:
        return unpickle(from_own_process(content), object)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - classes of users may raise anything
        failed = WagonError(f"cannot be unpickled: {type(error).__name__}: {message_of(error)}")
        failed.__cause__ = error
        return failed
