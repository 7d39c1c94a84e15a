"""The times and machines of the tasks of a submitted train, the tasks that started again, and what was sent again."""

from __future__ import annotations

import time
from collections.abc import Sequence

from branchline.records.sensors.record import ActivitySpan, RestartedTask, RetryRecord
from branchline.records.sensors.this_process import host
from branchline.trains.submitted.submission import JobsRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.units import UnitResult, joined_workers


def activity_of(submission: Submission, parts: Sequence[UnitResult], last_begin_s: float) -> list[ActivitySpan]:
    """The spans of workers, of jobs that folded results, and of the last job, which began at ``last_begin_s``."""
    zero_s = submission.submitted_s
    workers = joined_workers(list(parts))
    spans = [ActivitySpan(one.times.host, 0, one.begin_s - zero_s, one.until_s - zero_s) for one in workers]
    for part in parts:
        spans += [ActivitySpan(one.host, one.stage, one.begin_s - zero_s, one.end_s - zero_s) for one in part.merges]
    last = ActivitySpan(host(), submission.tree.stages, last_begin_s - zero_s, time.time() - zero_s, is_last=True)
    return [*sorted(spans, key=lambda one: (one.begin_s, one.end_s)), last]


def restarted_tasks(folder: BatchFolder) -> list[RestartedTask]:
    """The tasks that started more than once: each attempt leaves a file with its machine."""
    hosts: dict[str, list[tuple[float, str]]] = {}
    for path in folder.accounts.iterdir():
        task, _, attempt = path.name.rpartition(".")
        if attempt not in ("exit", "node"):
            try:
                hosts.setdefault(task, []).append((path.stat().st_mtime, path.read_text().partition(" ")[0]))
            except OSError:
                continue  # it was removed just now
    return [RestartedTask(task, [one for _, one in sorted(at)]) for task, at in sorted(hosts.items()) if len(at) > 1]


def retries_of(folder: BatchFolder, submission: Submission) -> list[RetryRecord]:
    """What was sent again, after the first submission."""
    return [
        RetryRecord(
            subjobs=sum(one.causes.values()),
            causes=dict(one.causes),
            excluded_nodes=list(one.excluded),
            sent_s=one.submitted_s - submission.submitted_s,
            is_by_user=not one.retry,
        )
        for one in JobsRecord.read_all(folder)[1:]
    ]
