"""The conditions of a job: its command, data, machine, settings and versions, as rows of the report."""

from __future__ import annotations

from branchline.base.quantities import count, counted, duration, size
from branchline.records.diagnosis.figures import first_only, local_copies, remarks
from branchline.records.report.reused import reuse_sentences
from branchline.records.report.troubles import measure_sentences
from branchline.records.sensors.record import JobRecord, LinkRecord
from branchline.records.sensors.sample_record import SampleRecord

# Settings of reading up to this are counts, above they are bytes.
SETTING_COUNT_MAX = 1024


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
    rate = link.bytes_per_second
    bandwidth = f"bandwidth {size(rate)}/s" if rate else "bandwidth not measured (too few bytes)"
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
