"""The state of a run on this machine or on Dask, by the record in its directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from branchline.limits import MB
from branchline.quantities import count, counted
from branchline.report.job_files import JOB
from branchline.running.claim import process_lives
from branchline.sensors import FINISHED, RUNNING, JobRecord, host


@dataclass(frozen=True)
class Standing:
    """The state of a run, in lines for people. ``is_good`` is False if its results are not and will not be complete."""

    lines: list[str]
    is_good: bool


def standing_of(out: Path) -> Standing | None:
    """The state of the run in a directory; None if there is no record that can be read."""
    try:
        job = JobRecord.from_dict(json.loads((out / JOB).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    is_dead = job.status == RUNNING and _is_dead(job)
    return Standing(list(_lines(job, out, is_dead=is_dead)), job.status in (RUNNING, FINISHED) and not is_dead)


def _is_dead(job: JobRecord) -> bool:
    """Whether the process of a run is known to have ended: those of other machines are not seen."""
    return job.host == host() and bool(job.process) and not process_lives(job.process or 0)


def _lines(job: JobRecord, out: Path, *, is_dead: bool) -> Iterator[str]:
    if job.status == RUNNING:
        if is_dead:
            yield f"process {job.process} on {job.host} died without results; it began at {job.started}"
            yield f"run it again with -o {out}: finished sub-jobs are reused"
        else:
            yield f"running since {job.started}: process {job.process} on {job.host}"
        if job.timeline:
            now = job.timeline[-1]
            seconds = max(now.t_s, 1e-9)
            rates = f"{count(now.events / seconds)} events/s, {now.bytes_read / MB / seconds:.1f} MB/s read"
            yield f"{count(now.events)} events after {now.t_s:.0f} s; {rates}"
        return
    left = job.subjobs - job.subjobs_done
    counts = f"{job.subjobs_done} done, {left} without a result; {count(job.events)} events done"
    yield f"{counted(job.subjobs, 'sub-job')}: {counts}"
    if job.subjobs_reused:
        yield f"taken from earlier runs: {counted(job.subjobs_reused, 'sub-job')}"
    for group in job.failures:
        yield f"failed ({counted(len(group.subjobs), 'sub-job')}): {group.message}"
    if job.skipped:
        yield f"skipped: {counted(len(job.skipped), 'file')}"
    for error in job.errors:
        yield f"error: {error.message}"
    for wagon in job.wagons:
        if wagon.error is not None:
            yield f"wagon {wagon.name} failed: {wagon.error.message}"
    yield f"{job.status}; look at {out}"
