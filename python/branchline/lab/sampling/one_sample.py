"""The jobs of a farm put together as one sample."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.sampling.sampler import Turn
from branchline.lab.sampling.samples import StudySample

#: A sample of which more than this part of the jobs failed is none.
FAILED_MOST = 0.5


def as_one(found: Sequence[StudySample | str | None], turn: Turn, at: str, place: str, error: str) -> StudySample:
    """The sample of all jobs, by number. A text says why a job has none. ``wall_s`` goes by the clocks of the machines,
    from the first begin to the last end.
    """
    jobs = [_outcome(number, one) for number, one in enumerate(found)]
    good = [one for one in jobs if not one.error]
    if not error and len(jobs) - len(good) > FAILED_MOST * len(jobs):
        failed = [one.error for one in jobs if one.error]
        error = f"{len(failed)} of {len(jobs)} jobs failed: {failed[0]}"
    samples = [one for one in found if isinstance(one, StudySample)]
    cached = [one.cached_bytes for one in samples if one.cached_bytes is not None]
    sizes = [one.file_bytes for one in good]
    return StudySample(
        turn.round,
        turn.position,
        turn.arm,
        turn.kind,
        at,
        max((one.begin_s + one.wall_s for one in good), default=0.0) - min((one.begin_s for one in good), default=0.0),
        jobs,
        None if None in sizes else sum(one for one in sizes if one is not None),
        sum(cached) if cached else None,
        next((one.cold_remark for one in samples if one.cold_remark), ""),
        _surroundings(samples),
        error=error,
        place=place,
    )


def _outcome(number: int, one: StudySample | str | None) -> JobOutcome:
    if isinstance(one, StudySample):
        outcome = one.jobs[0] if one.jobs else JobOutcome(number)
        return dataclasses.replace(outcome, number=number, error=one.error or outcome.error)
    return JobOutcome(number, error=one or "it did not run")


def _surroundings(samples: Sequence[StudySample]) -> Surroundings:
    """All notes, and what each machine received while jobs of the sample ran on it, counted once."""
    spans: dict[str, list[tuple[int, int]]] = {}
    for one in samples:
        beside = one.surroundings
        received = beside.network_bytes + beside.loopback_bytes
        for job in one.good_jobs:
            span = (beside.received_before_bytes, beside.received_before_bytes + received)
            spans.setdefault(job.host, []).append(span)
    received = sum(max(end for _, end in one) - min(begin for begin, _ in one) for one in spans.values())
    notes = dict.fromkeys(note for one in samples for note in one.surroundings.notes)
    most = max((one.surroundings.others_share for one in samples), default=0.0)
    return Surroundings(others_share=most, network_bytes=received, notes=tuple(notes))
