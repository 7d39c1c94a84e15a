"""How a run in this process or on Dask stands, by the record in its directory."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from branchline.limits import MB
from branchline.quantities import count, counted
from branchline.report.job_files import JOB
from branchline.sensors import FINISHED, RUNNING, JobRecord


@dataclass(frozen=True)
class Standing:
    """How a run stands, in lines for people. ``is_good`` is False if its results are not whole."""

    lines: list[str]
    is_good: bool


def standing_of(out: Path) -> Standing | None:
    """That of the run in a directory; None if there is no record that can be read."""
    try:
        job = JobRecord.from_dict(json.loads((out / JOB).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return Standing(list(_lines(job, out)), job.status in (RUNNING, FINISHED))


def _lines(job: JobRecord, out: Path) -> Iterator[str]:
    if job.status == RUNNING:
        yield f"running since {job.started}: process {job.process} on {job.host}, if it lives"
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
    for error in job.errors:
        yield f"error: {error.message}"
    for wagon in job.wagons:
        if wagon.error is not None:
            yield f"wagon {wagon.name} failed: {wagon.error.message}"
    yield f"it ended: {job.status}, look at {out}"
