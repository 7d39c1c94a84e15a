"""The status of a train, wherever it runs: for `branchline status`, progress lines and callbacks, and as text for
terminals and notebooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from branchline.base.plain import from_plain, to_plain
from branchline.base.quantities import MB, count
from branchline.records.sensors.record import FINISHED, RUNNING, MergeStage, SiteReading

#: Version of the status format; increased when a field changes its meaning or is removed. New fields have defaults.
STATUS_VERSION = 1
#: Status of a job whose process ended without recording it, for example after kill -9.
DIED = "died"
#: Status of a submitted train that has no queued or running tasks, although its results were not written.
STOPPED = "stopped"
#: Maximum number of storage elements whose read rates are shown in a progress line.
ELEMENTS_SHOWN_MAX = 4


@dataclass(frozen=True)
class ElementStatus:
    """Reads of finished sub-jobs from a storage element.

    The fields count files, bytes, bytes that workers at the element's own site or host read, and failed replicas.
    """

    storage_element: str
    files: int = 0
    bytes_read: int = 0
    bytes_near: int = 0
    failures: int = 0


class ElementReads:
    """Sums of the reads from each storage element."""

    def __init__(self) -> None:
        self._elements: dict[str, ElementStatus] = {}

    def add(self, readings: Iterable[SiteReading]) -> None:
        """Add workers' reads."""
        for one in readings:
            near = 0 if one.nearness == "elsewhere" else one.bytes_read
            self.add_element(ElementStatus(one.storage_element, one.files, one.bytes_read, near, one.failures))

    def add_element(self, other: ElementStatus) -> None:
        """Add counts that were already summed for a storage element."""
        known = self._elements.get(other.storage_element, ElementStatus(other.storage_element))
        self._elements[other.storage_element] = ElementStatus(
            other.storage_element,
            known.files + other.files,
            known.bytes_read + other.bytes_read,
            known.bytes_near + other.bytes_near,
            known.failures + other.failures,
        )

    def all(self) -> list[ElementStatus]:
        """Return the sums for each storage element, the element with the most bytes first."""
        return sorted(self._elements.values(), key=lambda one: (-one.bytes_read, one.storage_element))


@dataclass(frozen=True)
class TrainStatus:
    """A snapshot of a train's state; counts include everything done so far.

    - ``seconds`` is the time since the train started or was submitted.
    - ``fraction_done`` is the processed fraction of the dataset's bytes, None if unknown. In the phase "plan", it is
      the fraction of remote files and folders that were queried for sizes.
    - ``status`` is "running", "died", "stopped", or the status in job.json.
    - ``phase`` is "plan", "run", "merge" or "write".
    - ``done`` counts sub-jobs with a result. ``reused`` counts how many of these results come from an earlier run.
    - ``running`` counts sub-jobs that are assigned to workers.
    - ``failed`` counts sub-jobs without a result that will not run again, ``causes`` counts them by cause.
    - ``not_started`` counts sub-jobs that no task has begun and no task will begin, for example after a cancellation.
    - ``slowest`` is the sub-job that has been running longest, for ``slowest_s``.
    - ``repeated`` counts sub-jobs that ran twice, ``workers_lost`` counts workers that died or timed out.
    - ``merge_s`` is the merge time after the last sub-job.
    - ``merge_stages`` is the cost of each merge stage so far, on all machines.
    - ``elements`` has one value for each storage element.
    - ``errors`` are sentences that say what stopped the train and why wagons failed.
    - ``updated`` is the time of the snapshot (ISO 8601, UTC).
    - ``process`` is the ID of the job's process on ``host``.

    A submitted train also has these fields:

    - ``tasks`` counts tasks that are queued or running, ``waiting`` counts queued tasks by the reason why they wait.
    - ``release`` is the command that releases held tasks, empty if no task is held.
    - ``excluded_nodes`` are nodes that get no more tasks.
    - ``silence`` is the reason if the state of the tasks is unknown.

    The snapshot is immutable, and reading it never raises an exception. ``seconds`` and fields that end with ``_s`` are
    in seconds.

        def show(status):
            print(f"{status.done} of {status.subjobs} sub-jobs, {status.events} events in {status.seconds:.0f} s")
        branchline.run("wagons.py", "data/*.root", "out", progress=show)
    """

    seconds: float = 0.0
    events: int = 0
    bytes_read: int = 0
    plain_bytes: int = 0
    fraction_done: float | None = None
    status: str = RUNNING
    phase: str = "run"
    subjobs: int = 0
    done: int = 0
    running: int = 0
    queued: int = 0
    failed: int = 0
    not_started: int = 0
    reused: int = 0
    repeated: int = 0
    workers: int = 0
    workers_lost: int = 0
    slowest: str = ""
    slowest_s: float = 0.0
    merge_s: float = 0.0
    merge_stages: list[MergeStage] = field(default_factory=list)
    causes: dict[str, int] = field(default_factory=dict)
    elements: list[ElementStatus] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    started: str = ""
    updated: str = ""
    host: str = ""
    process: int | None = None
    tasks: int = 0
    waiting: dict[str, int] = field(default_factory=dict)
    release: str = ""
    excluded_nodes: list[str] = field(default_factory=list)
    silence: str = ""
    status_version: int = STATUS_VERSION

    @property
    def is_over(self) -> bool:
        """Whether the train has ended, without any queued or running tasks."""
        return self.status != RUNNING and not self.tasks and not self.silence

    @property
    def ended(self) -> str | None:
        """The status in job.json, or None until the job has recorded its end there."""
        return None if self.status in (RUNNING, DIED, STOPPED) else self.status

    @property
    def is_good(self) -> bool:
        """Whether all results are available, or may still become available."""
        return self.status in (RUNNING, FINISHED) and not self.failed

    def as_dict(self) -> dict[str, object]:
        """Return the output of `branchline status --json`: dicts, lists, numbers and strings."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> TrainStatus:
        """Create a status from the output of ``as_dict``.

        Raises ValueError for any other input, and for a newer version of the format.
        """
        version = plain.get("status_version")
        if not isinstance(version, int) or version > STATUS_VERSION:
            what = f"the status has version {version!r}; this Branchline supports versions up to {STATUS_VERSION}"
            raise ValueError(what)
        status: TrainStatus = from_plain(cls, {**plain, "status_version": STATUS_VERSION})
        return status


def part_done(now: TrainStatus) -> float:
    """Return the fraction of a train that is done, from 0 to 1: of its bytes if known, otherwise of its sub-jobs."""
    if now.fraction_done is not None:
        return now.fraction_done
    return now.done / now.subjobs if now.subjobs else 0.0


def progress_text(now: TrainStatus) -> str:
    """Return a train's status as a short line."""
    if now.phase == "plan":
        return "sizes of remote files"
    seconds = max(now.seconds, 1e-9)
    words = [f"{now.done}/{now.subjobs} sub-jobs"] if now.subjobs else []
    words.append(f"{count(now.events / seconds)} events/s")
    rates = [f"{one.bytes_read / MB / seconds:.1f}" for one in now.elements]
    by_element = f" ({' + '.join(rates[:ELEMENTS_SHOWN_MAX])})" if len(rates) > 1 else ""
    words.append(f"{now.bytes_read / MB / seconds:.1f} MB/s read{by_element}")
    words += [f"{now.failed} failed"] if now.failed else []
    words += [f"{now.workers_lost} workers lost"] if now.workers_lost else []
    words += ["merging"] if now.phase == "merge" else ["writing"] if now.phase == "write" else []
    return "  ".join(words)
