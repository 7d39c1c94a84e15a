"""What one sub-job of a train brings back: for each wagon its sum, and the records of what was read.

Wagons and their outputs are pickled to travel between processes. One that cannot be pickled stops alone.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
    MissingCompanion,
    SiteReading,
    SkippedFile,
    TroubleRecord,
    WagonFault,
)
from branchline.trains.subjobs.shares import ChunkSizes
from branchline.trains.subjobs.used_inputs import UsedCode
from branchline.trains.wagons.wagons import Wagon


@dataclass
class WagonShare:
    """What a wagon did in one sub-job. ``total`` is in the end the sum over its chunks, up to its error;
    ``reused_count`` is 1 where it comes from an earlier run.
    """

    total: Any = None
    events: int = 0
    chunks: int = 0
    seconds: float = 0.0
    cpu_s: float = 0.0
    core_wait_s: float = 0.0
    touched: set[str] = field(default_factory=set)
    misses: dict[str, int] = field(default_factory=dict)
    error: WagonFault | None = None
    requires: tuple[str, ...] = ()
    reused_count: int = 0

    def __getstate__(self) -> dict[str, object]:
        # By itself: a sum that fails on its way stops its wagon alone.
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
    """What stopped a sub-job, or the whole job, in a form that travels between processes."""

    error: BaseException
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> JobError:
        """With the traceback that the error has now."""
        return cls(error, "".join(traceback.format_exception(error)))

    def fault(self) -> JobFault:
        """For the record of the job."""
        path = getattr(self.error, "path", None)
        message = message_of(self.error)
        if not isinstance(self.error, BranchlineError):
            message = f"{type(self.error).__name__}: {message}"
        kind = type(self.error).__name__
        return JobFault(kind, message, None if path is None else str(path), self.traceback)


@dataclass
class WorkerTimes:
    """Where the time of a worker went so far, and what it needed. ``until_s`` is now by ``time.monotonic``."""

    until_s: float
    host: str
    phases: dict[str, float]
    cpu_s: float
    memory_peak_bytes: int
    threads: int = 1
    site: str = ""


@dataclass(kw_only=True)
class ReadRecords:
    """The records of what was read, by one sub-job or by several, and what stopped them."""

    files: list[FileRecord] = field(default_factory=list)
    branches: list[BranchRecord] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    companions_missing: list[MissingCompanion] = field(default_factory=list)
    # Files that were never closed, with how many keys were found again.
    recovered: dict[str, int] = field(default_factory=dict)
    troubles: list[TroubleRecord] = field(default_factory=list)
    links: list[LinkRecord] = field(default_factory=list)
    sites: list[SiteReading] = field(default_factory=list)
    measures: list[MeasureRecord] = field(default_factory=list)
    events: int = 0
    error: JobError | None = None

    def take(self, other: ReadRecords) -> None:
        """Has the records of the other one from now on."""
        for one in fields(ReadRecords):
            setattr(self, one.name, getattr(other, one.name))


#: Gets the records of what was read, as results come; they do not change any more.
OnReads = Callable[[ReadRecords], None]


@dataclass
class ShareResult(ReadRecords):
    """The outcome of a sub-job; ``is_whole`` is False if it was interrupted, stopped by ``error``, or left because all
    wagons had stopped, ``is_reused`` is True if all of it comes from an earlier run.
    """

    wagons: dict[str, WagonShare]
    # The wagons that did not run, for they had stopped before.
    not_run: frozenset[str] = frozenset()
    is_whole: bool = True
    interrupted: bool = False
    is_reused: bool = False
    memory_retry: MemoryRetry | None = None
    times: WorkerTimes | None = None
    #: By path, identities of the local files that were read, and versions of files at servers that differ from the
    #: plan; and the code that differs from it.
    inputs: dict[str, str] = field(default_factory=dict)
    code: UsedCode = field(default_factory=UsedCode)

    @classmethod
    def without_entries(
        cls, wagons: Sequence[Wagon], not_run: frozenset[str], inputs: Mapping[str, str]
    ) -> ShareResult:
        """That of a part of a file without entries, as a worker would make it that read these ``inputs``."""
        return cls(
            {one.name: WagonShare(requires=one.requires) for one in wagons}, not_run=not_run, inputs=dict(inputs)
        )


@dataclass(frozen=True)
class Progress:
    """Cumulative counts of one worker."""

    events: int
    bytes_read: int
    plain_bytes: int
    size_bytes_done: int


@dataclass(frozen=True)
class EmptyParts:
    """The sub-jobs (by index) that are parts of a file without entries, as the worker found that opened the file, and
    the identities of what it opened.
    """

    indices: tuple[int, ...]
    inputs: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Learned:
    """The branches that wagons touched in their first chunk, in the sub-job ``index``, and the chunk sizes that follow
    from them; ``touched`` are those of each wagon.
    """

    index: int
    branches: tuple[str, ...]
    sizes: ChunkSizes
    touched: dict[str, tuple[str, ...]] = field(default_factory=dict)


class CannotPickleError(BranchlineError):
    """What a wagon returned cannot go from one process to another."""


class _Counter:
    """A file that counts what is written to it and keeps nothing."""

    def __init__(self) -> None:
        self.size_bytes = 0

    def write(self, data: Any) -> int:
        length = memoryview(data).nbytes
        self.size_bytes += length
        return length


def pickled_bytes(output: Any) -> int:
    """The size of an output as it goes between processes. Raises CannotPickleError, MemoryError."""
    counter = _Counter()
    try:
        cloudpickle.dump(output, counter)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot_pickle(error) from error
    return counter.size_bytes


def send_and_return(output: Any) -> None:
    """Sends an output on its way between processes and back. Raises CannotPickleError, MemoryError.

    With one worker it would not have to travel; but a train that works with one is to work with several.
    """
    try:
        unpickle(from_own_process(cloudpickle.dumps(output)))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - as above
        raise _cannot_pickle(error) from None


def packed(output: Any) -> Pickled | None:
    """Return an output for its way to another process. Raises CannotPickleError, MemoryError."""
    try:
        return None if output is None else Pickled.of(output)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot_pickle(error) from error


def unpacked(output: Pickled | None) -> Any:
    """Return an output that came from another process. Raises CannotPickleError, MemoryError."""
    try:
        return None if output is None else output.value()
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:
        raise _cannot_pickle(error) from error


def _cannot_pickle(error: BaseException) -> CannotPickleError:
    return CannotPickleError(
        f"what process() returned cannot travel between processes: {type(error).__name__}: {message_of(error)}",
        hint="return numbers, histograms, arrays, and lists and dicts of these",
    )


@dataclass(frozen=True)
class PackedWagons:
    """The wagons of a train on their way to another process.

    ``together`` keeps what wagons share shared. Where one of them cannot be unpickled, the others are taken from
    ``alone``, each by itself; ``bare`` are the wagons without objects of the user.
    """

    together: bytes
    bare: tuple[Wagon, ...]
    alone: tuple[bytes, ...]

    @classmethod
    def of(cls, wagons: Sequence[Wagon]) -> PackedWagons:
        """Raises what pickling a wagon raises."""
        alone = tuple(cloudpickle.dumps(one) for one in wagons) if len(wagons) > 1 else ()
        return cls(cloudpickle.dumps(tuple(wagons)), tuple(one.bare() for one in wagons), alone)

    def unpacked(self) -> tuple[Wagon, ...]:
        """Return the wagons. One that cannot be unpickled raises when it is to run."""
        together = _unpickled(self.together)
        if not isinstance(together, WagonError):
            return cast("tuple[Wagon, ...]", together)
        if not self.alone:
            return tuple(one.failing(together) for one in self.bare)
        return tuple(self.one(index) for index in range(len(self.bare)))

    def one(self, index: int) -> Wagon:
        """Return a wagon without unpickling the others. One that cannot be unpickled raises when it is to run."""
        if not self.alone:
            return self.unpacked()[index]
        found = _unpickled(self.alone[index])
        return self.bare[index].failing(found) if isinstance(found, WagonError) else cast("Wagon", found)


def _unpickled(content: bytes) -> Any:
    """Return wagons, or a WagonError."""
    try:
        return unpickle(from_own_process(content))
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # noqa: BLE001 - classes of users may raise anything
        failed = WagonError(f"cannot be unpickled: {type(error).__name__}: {message_of(error)}")
        failed.__cause__ = error
        return failed
