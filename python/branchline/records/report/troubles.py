"""Failures of storage elements, workers and sub-jobs, in plain sentences."""

from __future__ import annotations

from branchline.base.quantities import counted, duration
from branchline.records.sensors.job_measures import AVOID, STAGE, MeasureRecord
from branchline.records.sensors.record import JobRecord, LostWorker, MemoryRetry, MissingSubJob, TroubleRecord

#: Counted failures, each with its words in the singular and in the plural.
_FAILURES = (
    ("timeouts", "request was not answered in time", "requests were not answered in time"),
    ("resets", "connection was refused or lost", "connections were refused or lost"),
    ("wrong_answers", "answer was wrong", "answers were wrong"),
    ("other_errors", "request failed", "requests failed"),
)
_CURES = (
    ("retries", "request was repeated", "requests were repeated"),
    ("waits", "wait was requested by the server", "waits were requested by the server"),
    ("replicas_left", "file was read on from another replica", "files were read on from another replica"),
    ("replicas_refused", "replica was not used because it differs", "replicas were not used because they differ"),
)

# Of more sub-jobs than these only the first and the last are named.
LABELS_MAX = 4


def trouble_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each storage element with failures, the one with most lost time first."""
    troubles = sorted(job.troubles, key=lambda one: -float(one.lost_s))
    return [_sentence(one) for one in troubles]


def warning_sentences(job: JobRecord) -> list[str]:
    """Return why results of wagons may be wrong, though they did not fail."""
    return [f"Warning: wagon {one.name}: {what}." for one in job.wagons for what in one.warnings]


def lost_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each worker that died or was ended."""
    return [_lost(one) for one in job.workers_lost]


def memory_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each sub-job that ran out of memory and finished with less."""
    return [_memory(one) for one in job.memory_retries]


def repeated_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each sub-job that ran twice."""
    return [
        f"{one.subjob} ran twice, since {one.why}; the result of {one.kept} counts, {one.dropped} was stopped."
        for one in job.repeated
    ]


def measure_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each measure of a control room of which the job was told."""
    sentences = [_measure(one) for one in job.measures]
    if job.measures_ignored:
        sentences.append(f"{counted(job.measures_ignored, 'measure')} of the control room were not understood.")
    return sentences


def _measure(measure: MeasureRecord) -> str:
    wanted = {AVOID: "avoid", STAGE: "copy files before reading from"}.get(measure.kind, measure.kind)
    at = f" for workers at {measure.site}" if measure.site else ""
    done = [f"{counted(measure.files, 'file')} {'read elsewhere' if measure.kind == AVOID else 'copied'}"]
    if measure.without_other:
        done.append(f"{counted(measure.without_other, 'file')} read there anyway, since there is no other replica")
    if measure.refused:
        done = [f"not obeyed, since {measure.refused}"]
    elif not (measure.files or measure.without_other):
        done = ["nothing to do"]
    when = f" (from {measure.first} to {measure.last})" if measure.first else ""
    return f"Measure {measure.number}, {wanted} {measure.storage_element}{at}: {', '.join(done)}{when}."


def missing_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each sub-job without a result."""
    return [_missing(one) for one in job.missing]


def _memory(retry: MemoryRetry) -> str:
    less = "with less memory for reading"
    if retry.chunk_divisor > 1:
        less += f" and chunks of 1/{retry.chunk_divisor} of the entries"
    inexact = f"; sums of {', '.join(retry.inexact)} may differ in their last bits" if retry.inexact else ""
    return f"{retry.subjob} ran out of memory and finished {less}{inexact}."


def _missing(one: MissingSubJob) -> str:
    files = "; ".join(f"{file.path}, {file.words()}" for file in one.files[:LABELS_MAX])
    more = f" and {len(one.files) - LABELS_MAX} more files" if len(one.files) > LABELS_MAX else ""
    at = f", at: {one.doing}" if one.doing else ""
    return f"Sub-job {one.index} ({files}{more}): {one.cause}{at}; {counted(one.attempts, 'attempt')}."


def _lost(worker: LostWorker) -> str:
    host = f" on {worker.host}" if worker.host else ""
    who = "A worker" if worker.worker < 0 else f"Worker {worker.worker} (process {worker.pid}{host})"
    if worker.is_dead:
        sentence = f"{who} {worker.how} at: {worker.doing}" if worker.doing else f"{who} {worker.how}"
        again = "was tried again" if len(worker.subjobs) == 1 else "were tried again"
    else:
        sentence = (
            f"{who} was ended after {duration(worker.seconds)} without a message ({worker.how}) at: {worker.doing}"
        )
        again = "was given to another worker" if len(worker.subjobs) == 1 else "were given to another worker"
    return f"{sentence}; {_labels(worker.subjobs)} {again}." if worker.subjobs else f"{sentence}."


def _labels(subjobs: list[str]) -> str:
    """The names of sub-jobs; of many only the first and the last."""
    if len(subjobs) > LABELS_MAX:
        return f"{len(subjobs)} sub-jobs, from {subjobs[0]} to {subjobs[-1]},"
    return " and ".join(subjobs)


def _sentence(trouble: TroubleRecord) -> str:
    failed, cured = _listed(trouble, _FAILURES), _listed(trouble, _CURES)
    sentence = f"At {trouble.name} {failed or 'nothing failed'}"
    if cured:
        sentence += f"; {cured}"
    waited_s = float(trouble.lost_s or 0.0) + float(trouble.waited_s or 0.0)
    return f"{sentence}; {duration(waited_s)} lost by waiting." if waited_s > 0 else f"{sentence}."


def _listed(trouble: TroubleRecord, kinds: tuple[tuple[str, str, str], ...]) -> str:
    parts = [counted(getattr(trouble, name), one, many) for name, one, many in kinds if getattr(trouble, name)]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
