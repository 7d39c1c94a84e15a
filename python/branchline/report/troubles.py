"""What went wrong at the storage elements, and with workers, in plain sentences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from branchline.report.quantities import counted, duration

Job = Mapping[str, Any]

#: What is counted, with its words for one and for many.
_FAILURES = (
    ("timeouts", "request was not answered in time", "requests were not answered in time"),
    ("resets", "connection was refused or lost", "connections were refused or lost"),
    ("wrong_answers", "answer was wrong", "answers were wrong"),
    ("other_errors", "request failed", "requests failed"),
)
_CURES = (
    ("retries", "request was made again", "requests were made again"),
    ("replicas_left", "file was read on from another replica", "files were read on from another replica"),
    ("replicas_refused", "replica was not used because it differs", "replicas were not used because they differ"),
)


def trouble_sentences(job: Job) -> list[str]:
    """Return a sentence for each storage element that gave trouble, the one that cost most time first."""
    troubles = sorted(job.get("troubles") or [], key=lambda one: -float(one.get("lost_s") or 0.0))
    return [_sentence(one) for one in troubles]


def lost_sentences(job: Job) -> list[str]:
    """Return a sentence for each worker that was silent and has been ended."""
    return [_lost(one) for one in job.get("workers_lost") or []]


def _lost(worker: Mapping[str, Any]) -> str:
    told = (
        f"Worker {worker['worker']} (process {worker['pid']}) was ended after {duration(worker['seconds'])} of silence "
        f"({worker['how']}) at: {worker['doing']}"
    )
    subjobs = worker["subjobs"]
    return f"{told}; another worker was given {' and '.join(subjobs)}." if subjobs else f"{told}."


def _sentence(trouble: Mapping[str, Any]) -> str:
    failed, cured = _listed(trouble, _FAILURES), _listed(trouble, _CURES)
    told = f"At {trouble['name']} {failed or 'nothing failed'}"
    if cured:
        told += f"; {cured}"
    lost_s = float(trouble.get("lost_s") or 0.0)
    return f"{told}; {duration(lost_s)} of waiting lost." if lost_s > 0 else f"{told}."


def _listed(trouble: Mapping[str, Any], kinds: tuple[tuple[str, str, str], ...]) -> str:
    parts = [counted(trouble[name], one, many) for name, one, many in kinds if trouble.get(name)]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
