"""The summary of a job that the terminal prints at the end, with the numbers and the diagnosis of the report."""

from __future__ import annotations

from collections.abc import Sequence

from branchline.base.quantities import count, counted, duration, rate, significant
from branchline.records.diagnosis.advice import Advice
from branchline.records.diagnosis.diagnosis import diagnosis
from branchline.records.diagnosis.figures import first_only, local_copies, remarks, sample_sentences
from branchline.records.report.outcomes import join_sentences, left_out_sentences, reuse_sentences, table_sentences
from branchline.records.report.troubles import (
    lost_sentences,
    memory_sentences,
    repeated_sentences,
    trouble_sentences,
    warning_sentences,
)
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.record_parts import MissingCompanion


def summary(job: JobRecord, advice: Sequence[Advice] = ()) -> list[str]:
    """Return the lines of a job's summary.

    The lines show the events, the time and rates, the bottleneck and the best advice, reused results, failures, and
    events that are missing in companions.
    """
    events, expected, wall_s = job.events, (job.events_expected or 0), job.wall_s
    of_all = f" of {count(expected)}" if expected > events else ""
    ended = f"{job.status}: {count(events)}{of_all} events in {duration(wall_s)}"
    if wall_s > 0:
        ended += f", {significant(events / wall_s)} events/s, {rate(job.totals.bytes_read, wall_s)} read from storage"
    lines = [ended, diagnosis(job)] if events else [ended]
    if advice:
        first, others = advice[0], len(advice) - 1
        more = f" {counted(others, 'other change')} would help too." if others else ""
        lines.append(f"What would help most: {first.change}, since {first.what}; it {first.gain_words()}.{more}")
    lines += [f"{line}." for line in (local_copies(job), *remarks(job)) if line]
    only = first_only(job)
    return [
        *lines,
        *warning_sentences(job),
        *([f"Read: {only}."] if only else []),
        *sample_sentences(job),
        *table_sentences(job),
        *(f"{one}." for one in reuse_sentences(job)),
        *lost_sentences(job),
        *memory_sentences(job),
        *repeated_sentences(job),
        *trouble_sentences(job),
        *(f"{one}." for one in (*job.left_out, *left_out_sentences(job))),
        *map(_missing_in, job.companions_missing),
        *(f"{one}." for one in join_sentences(job)),
    ]


def _missing_in(companion: MissingCompanion) -> str:
    """Return a sentence on the events that are missing in a companion."""
    missing, first = companion.events_missing, companion.first or []
    more = ", ..." if missing > len(first) else ""
    return f"{companion.name} lacks {counted(missing, 'event')}: {', '.join(first)}{more}"
