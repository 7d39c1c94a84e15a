"""Reads the state of a run from the files in its directory, and formats the state of any train as text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.limits import JOB_FILE_MAX_BYTES, STATUS_OLD_S
from branchline.base.processes import process_lives
from branchline.base.quantities import MB, count, counted
from branchline.base.whole_files import read_plain
from branchline.records.report.activity import merge_stages_text
from branchline.records.report.troubles import errors_of
from branchline.records.result_files.job_files import JOB
from branchline.records.sensors.record import RUNNING, JobRecord
from branchline.records.sensors.status import DIED, STOPPED, ElementReads, TrainStatus
from branchline.records.sensors.this_process import host
from branchline.trains.out_folder.claim import STATUS

#: Maximum number of errors shown; job.json has all of them.
ERRORS_SHOWN_MAX = 20


def job_of(out: Path) -> JobRecord | None:
    """Return the job record in a directory; None if the record cannot be read."""
    try:
        return JobRecord.from_dict(json.loads(read_plain(out / JOB, JOB_FILE_MAX_BYTES)))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def status_of(out: Path) -> TrainStatus | None:
    """Return the state of a run on this machine or on Dask workers; None if the directory has no readable job
    record.
    """
    job = job_of(out)
    if job is None:
        return None
    status = _at_work(out)
    process = job.process if status is None else status.process or job.process
    is_dead = job.host == host() and bool(process) and not process_lives(process or 0)
    # Check the state file too: while a run writes its results, the record may still belong to an earlier, finished run.
    if job.status != RUNNING and (status is None or is_dead):
        return status_at_end(job)
    state = DIED if is_dead else RUNNING
    return replace(status or TrainStatus(), status=state, started=job.started, host=job.host, process=process)


def _at_work(out: Path) -> TrainStatus | None:
    """Return the last state written by a run in progress; None if the state cannot be read."""
    try:
        return TrainStatus.from_dict(json.loads(read_plain(out / STATUS, JOB_FILE_MAX_BYTES)))
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None


def status_at_end(job: JobRecord) -> TrainStatus:
    """Return the final state of a run, from its job record."""
    reads = ElementReads()
    reads.add(job.sites)
    return TrainStatus(
        seconds=job.wall_s,
        events=job.events,
        bytes_read=job.totals.bytes_read,
        plain_bytes=job.totals.plain_bytes,
        fraction_done=job.subjobs_done / job.subjobs if job.subjobs else None,
        status=job.status,
        phase="write",
        subjobs=job.subjobs,
        done=job.subjobs_done,
        failed=job.subjobs - job.subjobs_done,
        reused=job.subjobs_reused,
        repeated=len(job.repeated),
        workers=job.workers,
        workers_lost=len(job.workers_lost),
        merge_s=job.phases.get("merge", 0.0),
        merge_stages=job.merge_stages,
        causes={group.message: len(group.subjobs) for group in job.failures},
        elements=reads.all(),
        errors=errors_of(job),
        started=job.started,
        updated=datetime.now(UTC).isoformat(timespec="seconds"),
        host=job.host,
        process=job.process,
    )


def status_lines(status: TrainStatus, out: Path) -> Iterator[str]:
    """Format the state of a train that runs locally, on a cluster or in a batch system."""
    yield from _begin_lines(status, out)
    yield _counts_line(status)
    if status.seconds and status.events:
        yield f"{count(status.events)} events after {status.seconds:.0f} s; {rates(status)}"
    yield from element_lines(status)
    if status.status == RUNNING and status.slowest:
        yield f"longest running sub-job ({status.slowest_s:.0f} s): {status.slowest}"
    if status.reused:
        yield f"reused from earlier runs: {counted(status.reused, 'sub-job')}"
    if status.repeated:
        yield f"ran twice because the first worker was slow: {counted(status.repeated, 'sub-job')}"
    if status.workers_lost:
        yield f"lost: {counted(status.workers_lost, 'worker')}"
    yield from (f"waiting ({counted(number, 'task')}): {reason}" for reason, number in status.waiting.items())
    if status.release:
        yield f"release the held tasks: {status.release}"
    yield from (f"{node} is excluded because all tasks failed there" for node in status.excluded_nodes)
    yield from (f"failed ({counted(number, 'sub-job')}): {cause}" for cause, number in status.causes.items())
    yield from (f"error: {error}" for error in status.errors[:ERRORS_SHOWN_MAX])
    if len(status.errors) > ERRORS_SHOWN_MAX:
        yield f"and {len(status.errors) - ERRORS_SHOWN_MAX} more errors; job.json has all"
    if status.merge_stages:
        yield f"merging: {merge_stages_text(status.merge_stages)}"
    if status.phase == "merge" and status.status == RUNNING:
        yield f"merging results{f', for {status.merge_s:.0f} s' if status.merge_s else ''}"
    if status.status == STOPPED:
        yield f"no job of this train is waiting or running; its results were not written: run branchline resume {out}"
    elif status.ended:
        yield f"{status.ended}; see {out}"


def _begin_lines(status: TrainStatus, out: Path) -> Iterator[str]:
    if status.silence:
        yield status.silence
    if status.status == DIED:
        yield f"process {status.process} on {status.host} died without results; it was started at {status.started}"
        yield f"run it again with -o {out}: finished sub-jobs are reused"
    elif status.status == RUNNING and status.process:
        yield f"running since {status.started}: process {status.process} on {status.host}"
        old_s = _seconds_since(status.updated)
        if old_s > STATUS_OLD_S:
            yield f"no report for {old_s:.0f} s"


def _counts_line(status: TrainStatus) -> str:
    counts = {"done": status.done, "running": status.running, "queued": status.queued, "failed": status.failed}
    if status.silence:
        del counts["failed"]
        counts["unknown"] = status.subjobs - status.done
    if status.not_started:
        counts["not started"] = status.not_started
    shown = ", ".join(f"{number} {name}" for name, number in counts.items())
    return f"{counted(status.subjobs, 'sub-job')}: {shown}; {counted(status.events, 'event')} done"


def rates(status: TrainStatus) -> str:
    """Format the rates since the start: events per second and compressed megabytes per second."""
    seconds = max(status.seconds, 1e-9)
    return f"{count(status.events / seconds)} events/s, {status.bytes_read / MB / seconds:.1f} MB/s read"


def element_lines(status: TrainStatus) -> Iterator[str]:
    """Format the reads of finished sub-jobs by storage element. Yields nothing unless there are several elements or
    failed replicas.
    """
    if len(status.elements) < 2 and not any(one.failures for one in status.elements):
        return
    seconds = max(status.seconds, 1e-9)
    for one in status.elements:
        near = f", {100 * one.bytes_near / one.bytes_read:.0f} % by workers near it" if one.bytes_read else ""
        failures = f", {one.failures} failures" if one.failures else ""
        rate = f"{one.bytes_read / MB / seconds:.1f} MB/s"
        yield f"{one.storage_element}: {counted(one.files, 'file')}, {rate}{near}{failures}"


def _seconds_since(moment: str) -> float:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    except (ValueError, TypeError):
        return 0.0
