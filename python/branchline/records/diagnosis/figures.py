"""Values from a job's record that both the diagnosis and the report show, computed in one place so that they agree."""

from __future__ import annotations

from collections.abc import Sequence

from branchline.base.codecs import codec_named
from branchline.base.quantities import count, counted, shares, significant, size
from branchline.records.sensors.record import FINISHED, FileRecord, JobRecord

#: Maximum number of ranges of luminosity sections without a luminosity that a sentence lists.
SECTIONS_SHOWN_MAX = 10

#: Other programs are reported if they use at least OTHERS_SHARE of the cores while FULL_SHARE of the cores are busy.
OTHERS_SHARE, FULL_SHARE = 0.2, 0.85
#: Chunks with fewer events than this count as small: the fixed cost of a call dominates.
SMALL_CHUNK_EVENTS = 500


def phase_s(job: JobRecord, phase: str) -> float:
    """Return the wall time of the phase in seconds."""
    return job.phases.get(phase, 0.0)


def phase_shares(job: JobRecord) -> dict[str, int]:
    """Return the share of every phase in tenths of a per cent; the sum is 1000."""
    phases = {str(name): float(seconds or 0.0) for name, seconds in job.phases.items()}
    return dict(zip(phases, shares(list(phases.values())), strict=True))


def partial_note(job: JobRecord, wagon: str) -> str:
    """Return how many events a wagon's output contains, if some are missing; otherwise an empty string."""
    for row in job.wagons:
        if row.name == wagon and (row.status or FINISHED) != FINISHED:
            events, expected = row.events, (job.events_expected or 0)
            of_all = f" of {count(expected)}" if expected > events else ""
            return f"partial: {count(events)}{of_all} events"
    return ""


def events_note(job: JobRecord, wagon: str, key: Sequence[str]) -> str:
    """Return a note with the number of events in a histogram.

    If the wagon fills a separate histogram for each dataset, only events of that dataset are counted. Returns an empty
    string if a file belongs to several datasets, because its events are counted once for each of them.
    """
    partial = partial_note(job, wagon)
    by_dataset: dict[str, set[str]] = {}
    for one in job.dataset:
        by_dataset.setdefault(one.dataset, set()).add(one.path)
    name = next((one for one in key if one and one in by_dataset), None)
    if partial or name is None:
        return partial or counted(job.events, "event")
    own = by_dataset.pop(name)
    if any(own & other for other in by_dataset.values()):
        return ""
    return counted(sum(one.events for one in job.files if one.path in own), "event")


def first_only(job: JobRecord) -> str:
    """Describe which part of each dataset was requested; empty if the full datasets were requested."""
    parts = [counted(number, noun) for number, noun in ((job.max_files, "file"), (job.max_events, "event")) if number]
    return f"the first {' and '.join(parts)} of each dataset, as requested" if parts else ""


def sample_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each simulated sample whose scale factor is unknown or approximate."""
    return [f"Sample {one.name}: {one.note}." for one in job.samples if one.note]


def luminosity_sentences(job: JobRecord) -> list[str]:
    """Return a sentence with the processed luminosity for each wagon and dataset."""
    sentences = []
    for one in job.luminosities:
        text = f"{one.wagon} of {one.dataset}" if one.dataset else one.wagon
        text += f": {counted(one.sections, 'luminosity section')}"
        if one.luminosity_per_pb is not None:
            text += f", {luminosity(one.luminosity_per_pb)}"
        if one.missing_count:
            ranges = [f"{first}-{last} of run {run}" for run, found in one.missing.items() for first, last in found]
            more = ", ..." if len(ranges) > SECTIONS_SHOWN_MAX else ""
            named = ", ".join(ranges[:SECTIONS_SHOWN_MAX]) + more
            text += f", without {count(one.missing_count)} that are not in {one.source}: {named}"
        sentences.append(f"{text} ({one.note})" if one.note else text)
    return sentences


def luminosity(per_pb: float) -> str:
    """Return an integrated luminosity with its unit."""
    return f"{per_pb / 1000:.4g} / fb" if per_pb >= 1000 else f"{per_pb:.4g} / pb"


def delivered_bytes(job: JobRecord) -> float:
    """Return the number of bytes read from storage and from local copies."""
    return float(job.totals.bytes_read + job.totals.cached_bytes)


def files_read(job: JobRecord) -> list[FileRecord]:
    """Return the files that were read, except those whose results were all reused."""
    return [one for one in job.files if one.subjobs or not one.subjobs_reused]


def unwanted_bytes(job: JobRecord) -> float:
    """Return the number of delivered bytes that do not belong to baskets of the requested branches."""
    return max(0.0, delivered_bytes(job) - job.totals.compressed_bytes)


def local_copies(job: JobRecord) -> str:
    """Describe how many bytes were read from local copies; empty if none were."""
    cached, read = job.totals.cached_bytes, job.totals.bytes_read
    return f"{size(cached)} came from copies on this machine, {size(read)} from storage" if cached else ""


def remarks(job: JobRecord) -> list[str]:
    """Return the remarks of the storage layer, each with the number of affected files."""
    return [f"{one.text or ''} ({counted(one.files, 'file')})" for one in job.storage_remarks]


def others_cores(job: JobRecord) -> float:
    """Return the number of cores that other programs used while the job ran; 0 if some cores were idle."""
    wall_s, machine_s, cores = job.wall_s, (job.machine_cpu_s or 0), (job.machine_cpu_count or 0)
    if wall_s <= 0 or cores <= 0 or machine_s < FULL_SHARE * cores * wall_s:
        return 0.0
    others = (machine_s - job.cpu_s) / wall_s
    return others if others > OTHERS_SHARE * cores else 0.0


def other_programs(job: JobRecord) -> str:
    """Describe how many cores other programs used; empty if they did not slow down the job."""
    cores = others_cores(job)
    if not cores:
        return ""
    return f"other programs used {significant(cores, 2)} of the {count(job.machine_cpu_count or 0)} cores"


def small_chunks(job: JobRecord) -> str:
    """Describe the number and size of the chunks if they are so small that the fixed cost of calls dominates."""
    chunks = sum(wagon.chunks for wagon in job.wagons)
    events = sum(wagon.events for wagon in job.wagons)
    if chunks < 100 or events / chunks > SMALL_CHUNK_EVENTS:
        return ""
    return f"{counted(int(chunks), 'chunk')} of only {counted(round(events / chunks), 'event')} each"


def codec_name(codec: str | None) -> str:
    """Return the usual spelling of a codec, or of several codecs separated by commas; empty for "none"."""
    titles = [codec_named(part.strip()).title for part in str(codec or "").split(",")]
    return ", ".join(filter(None, titles))
