"""Sentences on the results that a job reused from earlier runs."""

from __future__ import annotations

from branchline.base.quantities import count, counted
from branchline.records.sensors.record import JobRecord

# Wagons that are named; the others are counted.
NAMES_SHOWN_MAX = 5


def reuse_sentences(job: JobRecord) -> list[str]:
    """Return how many sub-jobs were reused, which wagons ran, and why some results could not be reused."""
    sentences = []
    if any(one.subjobs_reused for one in job.wagons):
        taken = f"{count(job.subjobs_reused)} of {counted(job.subjobs, 'sub-job')} taken from earlier runs"
        ran = [(one.name, job.subjobs_done - one.subjobs_reused) for one in job.wagons]
        ran = [(name, subjobs) for name, subjobs in ran if subjobs > 0]
        named = ", ".join(f"{name} in {count(subjobs)}" for name, subjobs in ran[:NAMES_SHOWN_MAX])
        more = f" and {len(ran) - NAMES_SHOWN_MAX} more" if len(ran) > NAMES_SHOWN_MAX else ""
        sentences.append(f"{taken}; {f'wagons that ran: {named}{more}' if ran else 'nothing had to run'}")
    unknown = [one for one in job.wagons if one.not_reusable]
    sentences += [
        f"wagon {one.name} runs each time: its results cannot be reused, since {one.not_reusable}"
        for one in unknown[:NAMES_SHOWN_MAX]
    ]
    if len(unknown) > NAMES_SHOWN_MAX:
        sentences.append(f"results of {len(unknown) - NAMES_SHOWN_MAX} more wagons cannot be reused")
    return [*sentences, *job.reuse_notes]
