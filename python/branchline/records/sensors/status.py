"""The state of a train, the same on every place: what `branchline status`, the progress line and callbacks get; and the
same in words, for a terminal and a notebook.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from branchline.base.limits import MB
from branchline.base.plain import from_plain, to_plain
from branchline.base.quantities import count
from branchline.records.sensors.record import FINISHED, RUNNING, MergeStage

#: Raised when a field changes its meaning or goes away; new fields have defaults.
STATUS_VERSION = 1
#: The process of the job has ended without a record of its end, as after kill -9.
DIED = "died"
#: No task of a submitted train waits or runs, and its results were not written.
STOPPED = "stopped"
#: Storage elements whose rates stand in a progress line.
ELEMENTS_SHOWN_MAX = 4


@dataclass(frozen=True)
class ElementStatus:
    """What finished sub-jobs read from a storage element: files, bytes as they are stored, the bytes of them that
    workers at the same site or host read, and failures of replicas.
    """

    storage_element: str
    files: int = 0
    bytes_read: int = 0
    bytes_near: int = 0
    failures: int = 0


@dataclass(frozen=True)
class TrainStatus:
    """The state of a train at a moment; counts are of all that was done so far.

    ``seconds`` since it began or was submitted; ``fraction_done`` of the dataset's bytes, None if nobody knows them.
    ``status`` is "running", "died", "stopped", or the status in job.json; ``phase`` is "run", "merge" or "write".
    ``running`` counts sub-jobs that workers have, ``failed`` those without a result that nobody will run, ``causes``
    the same by cause, ``reused`` those of ``done`` that an earlier run made. ``slowest`` is the sub-job that has been
    at work for longest, for ``slowest_s``; ``repeated`` counts sub-jobs that ran twice, ``workers_lost`` workers that
    died or were silent. ``merge_s`` is the time spent on merging after the last sub-job, ``merge_stages`` what each
    stage of the merge has cost so far, on all machines. ``elements`` has one value for each storage element.
    ``errors`` are sentences on what stopped the train, and why wagons failed. ``updated`` is the time of this state
    (ISO 8601, UTC), ``process`` on ``host`` the job.

    Of a submitted train: ``tasks`` that wait or run, the reasons why some wait (``waiting``), nodes that get no more
    tasks (``excluded_nodes``), and why the state of its tasks is not known (``silence``).

    It is a value and raises nothing. ``seconds`` and what ends with ``_s`` are seconds.

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
    excluded_nodes: list[str] = field(default_factory=list)
    silence: str = ""
    status_version: int = STATUS_VERSION

    @property
    def is_over(self) -> bool:
        """Whether nothing of the train waits or runs any more."""
        return self.status != RUNNING and not self.tasks and not self.silence

    @property
    def ended(self) -> str | None:
        """The status in job.json, once the job wrote its end there."""
        return None if self.status in (RUNNING, DIED, STOPPED) else self.status

    @property
    def is_good(self) -> bool:
        """Whether all results are there, or may still come."""
        return self.status in (RUNNING, FINISHED) and not self.failed

    def as_dict(self) -> dict[str, object]:
        """What `branchline status --json` prints: dicts, lists, numbers and texts."""
        plain: dict[str, object] = to_plain(self)
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, object]) -> TrainStatus:
        """The state in what ``as_dict`` gave. Raises ValueError for anything else, and for a later version."""
        version = plain.get("status_version")
        if not isinstance(version, int) or version > STATUS_VERSION:
            what = f"the state has version {version!r}, and this Branchline reads versions up to {STATUS_VERSION}"
            raise ValueError(what)
        status: TrainStatus = from_plain(cls, {**plain, "status_version": STATUS_VERSION})
        return status


def part_done(now: TrainStatus) -> float:
    """The part of a train that is done, from 0 to 1: of its bytes, else of its sub-jobs."""
    if now.fraction_done is not None:
        return now.fraction_done
    return now.done / now.subjobs if now.subjobs else 0.0


def progress_text(now: TrainStatus) -> str:
    """The state of a train in a few words."""
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
