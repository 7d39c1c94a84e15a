"""The summary of a job: the lines that the terminal prints at its end, with the figures and the sentence of its page;
and its conditions (command, data, machine, settings and versions) as rows of the report.
"""

from __future__ import annotations

from collections.abc import Sequence

from branchline.base.quantities import count, counted, duration, rate, significant, size
from branchline.records.diagnosis.advice import Advice
from branchline.records.diagnosis.diagnosis import diagnosis
from branchline.records.diagnosis.figures import first_only, local_copies, remarks, sample_sentences
from branchline.records.report.outcomes import left_out_sentences, reuse_sentences, table_sentences
from branchline.records.report.troubles import (
    lost_sentences,
    measure_sentences,
    memory_sentences,
    repeated_sentences,
    trouble_sentences,
    warning_sentences,
)
from branchline.records.sensors.record import JobRecord, LinkRecord, MissingCompanion
from branchline.records.sensors.record_parts import SampleRecord

#: Largest setting of reading that is a count; larger ones are bytes.
SETTING_COUNT_MAX = 1024


def summary(job: JobRecord, advice: Sequence[Advice] = ()) -> list[str]:
    """Return lines on the end of the job, its events, time and rates, what limits it and what would help most, reused
    results, failures, and events that companions lack.
    """
    events, expected, wall_s = job.events, (job.events_expected or 0), job.wall_s
    of_all = f" of {count(expected)}" if expected > events else ""
    ended = f"{job.status}: {count(events)}{of_all} events in {duration(wall_s)}"
    if wall_s > 0:
        ended += f", {significant(events / wall_s)} events/s, {rate(job.totals.bytes_read, wall_s)} read from storage"
    lines = [ended, diagnosis(job)] if events else [ended]
    lines += [_most_helpful(advice)] if advice else []
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
    ]


def _most_helpful(advice: Sequence[Advice]) -> str:
    """Return the first advice in a line, and how many there are on the page."""
    first, others = advice[0], len(advice) - 1
    more = f" {counted(others, 'other change')} would help too." if others else ""
    return f"What would help most: {first.change}, since {first.what}; it {first.gain_words()}.{more}"


def _missing_in(companion: MissingCompanion) -> str:
    """Return the sentence on the events that a companion lacks."""
    missing, first = companion.events_missing, companion.first or []
    more = ", ..." if missing > len(first) else ""
    return f"{companion.name} lacks {counted(missing, 'event')}: {', '.join(first)}{more}"


# --- conditions -------------------------------------------------------------------------------------------------------


def conditions(job: JobRecord) -> list[tuple[str, str]]:
    """Return what the job ran with, as names and texts."""
    files = job.dataset
    dataset = f"{counted(len(files), 'file')}, {size(sum(file.size_bytes or 0 for file in files))}"
    trees = sorted({str(file.tree) for file in files if file.tree})
    if trees:
        dataset += f", tree {', '.join(trees[:3])}"
    cores = f"{counted(job.cpu_count or 1, 'core')}"
    workers, threads = job.workers or 1, job.threads or 1
    rows = [
        ("Command", str(job.command or "")),
        ("Dataset", dataset),
        ("Part of it", first_only(job)),
        ("Parameters", _parameters(job)),
        ("Samples", "; ".join(map(_sample, job.samples))),
        ("First file", str(files[0].path) if files else ""),
        ("Host", " ".join(filter(None, (str(job.host or ""), f"({cores})")))),
        ("Workers", f"{counted(workers, 'process', 'processes')} of {counted(threads, 'decoding thread')}"),
        ("Sub-jobs", _subjobs(job)),
        ("Measures", " ".join(measure_sentences(job))),
        ("Earlier runs", "; ".join(reuse_sentences(job))),
        ("Memory", _memory(job)),
        ("Access", _access(job)),
        ("Local copies", local_copies(job)),
        ("Storage", "; ".join(remarks(job))),
        ("Started", str(job.started or "")),
        ("Versions", _versions(job)),
    ]
    return [(name, text) for name, text in rows if text]


def _subjobs(job: JobRecord) -> str:
    planned = job.subjobs
    return f"{count(job.subjobs_done)} of {count(planned)} finished" if planned else ""


def _access(job: JobRecord) -> str:
    """The way of reading, and the settings of it that are not the usual ones."""
    settings = [f"{name.replace('_', ' ')} {_setting(value)}" for name, value in job.access.chosen()]
    return ". ".join([", ".join([job.access.mode, *settings]), *map(_chosen, job.links)])


def _chosen(link: LinkRecord) -> str:
    """The link to a storage element, and the prefetching that was chosen for it."""
    speed = link.bytes_per_second
    bandwidth = f"bandwidth {size(speed)}/s" if speed else "bandwidth not measured (too few bytes)"
    found = f"{link.name}: round trip {duration(link.round_trip_s)}, {bandwidth}"
    requests = link.requests_in_flight
    if not requests:
        return f"{found}, no prefetching"
    return (
        f"{found}, prefetching of up to {counted(requests, 'request')} and {size(link.bytes_in_flight)}, "
        f"ranges joined over gaps of {size(link.gap_bytes)}"
    )


def _setting(value: int | str) -> str:
    return size(value) if isinstance(value, int) and value > SETTING_COUNT_MAX else str(value)


def _memory(job: JobRecord) -> str:
    text = f"{size(job.memory_peak_bytes)} at the peak"
    return (
        f"{text}, limit {size(job.memory_limit_bytes)} for the reading of each worker"
        if job.memory_limit_bytes
        else text
    )


def _versions(job: JobRecord) -> str:
    known = {"Branchline": job.branchline, **job.versions}
    return ", ".join(f"{name} {version}" for name, version in known.items() if version)


def _parameters(job: JobRecord) -> str:
    """The parameters that a caller has set."""
    return ", ".join(
        f"{wagon.name}.{one.name} = {one.value}" for wagon in job.wagons for one in wagon.parameters if one.is_set
    )


def _sample(sample: SampleRecord) -> str:
    """A sample, with what its results are multiplied with to be those of its luminosity."""
    text = f"{sample.name}: {counted(sample.events, 'event')}"
    if sample.sum_of_weights is not None:
        text += f", sum of weights {sample.sum_of_weights:.6g} ({sample.sum_of_weights_from})"
    if sample.factor is not None and not sample.is_data:
        text += f", factor {sample.factor:.4g} for {sample.luminosity_per_fb:g} / fb"
    return f"{text} ({sample.note})" if sample.note else text
