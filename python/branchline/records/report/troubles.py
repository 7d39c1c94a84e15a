"""Errors of a job, and failures of storage elements, workers and sub-jobs, described in sentences."""

from __future__ import annotations

from branchline.base.quantities import count, counted, duration
from branchline.records.sensors.job_measures import AVOID, STAGE
from branchline.records.sensors.record import JobRecord, TroubleRecord

#: Kinds of failures of a storage element: the field of the count, and its text in the singular and plural.
_FAILURES = (
    ("timeouts", "request was not answered in time", "requests were not answered in time"),
    ("resets", "connection was refused or lost", "connections were refused or lost"),
    ("wrong_answers", "answer was wrong", "answers were wrong"),
    ("other_errors", "request failed", "requests failed"),
)
_CURES = (
    ("retries", "request was repeated", "requests were repeated"),
    ("waits", "wait was requested by the server", "waits were requested by the server"),
    ("replicas_left", "file switched to another replica", "files switched to another replica"),
    ("replicas_refused", "replica was not used because it differs", "replicas were not used because they differ"),
)

# Maximum number of sub-jobs or files that a sentence lists individually.
LABELS_MAX = 4


def errors_of(record: JobRecord) -> list[str]:
    """Return a sentence for each error of a job."""
    sentences = [error.message for error in record.errors]
    sentences += [wagon.error.sentence(wagon.name) for wagon in record.wagons if wagon.error is not None]
    for skipped in record.skipped:
        lost = skipped.entries_lost
        events = "an unknown number of events" if lost is None else f"{count(lost)} events"
        sentences.append(f"skipped {skipped.path}, {events} lost: {skipped.error}")
    return sentences


def trouble_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each storage element with failures, the element with the most lost time first."""
    sentences = []
    for trouble in sorted(job.troubles, key=lambda one: -float(one.lost_s)):
        failed, cured = _listed(trouble, _FAILURES), _listed(trouble, _CURES)
        sentence = f"At {trouble.name} {failed or 'nothing failed'}"
        if cured:
            sentence += f"; {cured}"
        waited_s = float(trouble.lost_s or 0.0) + float(trouble.waited_s or 0.0)
        if waited_s > 0:
            sentence += f"; {duration(waited_s)} lost by waiting"
        sentences.append(f"{sentence}.")
    return sentences


def warning_sentences(job: JobRecord) -> list[str]:
    """Return the reasons why wagons' results may be wrong although the wagons did not fail."""
    return [f"Warning: wagon {one.name}: {what}." for one in job.wagons for what in one.warnings]


def lost_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each worker that died or was killed."""
    sentences = []
    for worker in job.workers_lost:
        host = f" on {worker.host}" if worker.host else ""
        who = "A worker" if worker.worker < 0 else f"Worker {worker.worker} (process {worker.pid}{host})"
        subjobs = worker.subjobs
        were = "was" if len(subjobs) == 1 else "were"
        if worker.is_dead:
            sentence = f"{who} {worker.how} at: {worker.doing}" if worker.doing else f"{who} {worker.how}"
            again = f"{were} retried"
        else:
            silent = f"{who} was killed after {duration(worker.seconds)} without progress"
            sentence = f"{silent} ({worker.how}) at: {worker.doing}"
            again = f"{were} reassigned"
        if len(subjobs) > LABELS_MAX:
            sentence += f"; {len(subjobs)} sub-jobs, from {subjobs[0]} to {subjobs[-1]}, {again}"
        elif subjobs:
            sentence += f"; {' and '.join(subjobs)} {again}"
        sentences.append(f"{sentence}.")
    return sentences


def memory_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each sub-job that ran out of memory and then succeeded with less memory."""
    sentences = []
    for retry in job.memory_retries:
        less = "with less memory for reading"
        if retry.chunk_divisor > 1:
            less += f" and chunks of 1/{retry.chunk_divisor} of the entries"
        inexact = f"; sums of {', '.join(retry.inexact)} may differ in their last bits" if retry.inexact else ""
        sentences.append(f"{retry.subjob} ran out of memory and finished {less}{inexact}.")
    return sentences


def repeated_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each sub-job that ran twice."""
    return [
        f"{one.subjob} ran twice, since {one.why}; the result of {one.kept} counts, {one.dropped} was stopped."
        for one in job.repeated
    ]


def measure_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each measure (corrective action) that the job received from a control room."""
    sentences = []
    for one in job.measures:
        wanted = {AVOID: "avoid", STAGE: "copy files before reading from"}.get(one.kind, one.kind)
        at = f" for workers at {one.site}" if one.site else ""
        done = [f"{counted(one.files, 'file')} {'read elsewhere' if one.kind == AVOID else 'copied'}"]
        if one.without_other:
            done.append(f"{counted(one.without_other, 'file')} read there anyway, since there is no other replica")
        if one.refused:
            done = [f"not followed, because {one.refused}"]
        elif not (one.files or one.without_other):
            done = ["nothing to do"]
        when = f" (from {one.first} to {one.last})" if one.first else ""
        sentences.append(f"Measure {one.number}, {wanted} {one.storage_element}{at}: {', '.join(done)}{when}.")
    if job.measures_ignored:
        were = "was" if job.measures_ignored == 1 else "were"
        sentences.append(f"{counted(job.measures_ignored, 'measure')} of the control room {were} not understood.")
    return sentences


def missing_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each sub-job without a result."""
    sentences = []
    for one in job.missing:
        files = "; ".join(f"{file.path}, {file.words()}" for file in one.files[:LABELS_MAX])
        more = f" and {len(one.files) - LABELS_MAX} more files" if len(one.files) > LABELS_MAX else ""
        at = f", at: {one.doing}" if one.doing else ""
        attempts = counted(one.attempts, "attempt")
        sentences.append(f"Sub-job {one.index} ({files}{more}): {one.cause}{at}; {attempts}.")
    return sentences


def _listed(trouble: TroubleRecord, kinds: tuple[tuple[str, str, str], ...]) -> str:
    parts = [counted(getattr(trouble, name), one, many) for name, one, many in kinds if getattr(trouble, name)]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
