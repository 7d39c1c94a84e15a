"""Values from the record of a job that both the sentence and the page need, so that these agree."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from branchline.base.quantities import count, counted, shares, significant, size
from branchline.records.sensors.record import FileRecord, JobRecord

#: Other programs are named if they use this share of the cores, and this share of the cores is busy.
OTHERS_SHARE, FULL_SHARE = 0.2, 0.85
#: Chunks of fewer events cost more for being called than for their content.
SMALL_CHUNK_EVENTS = 500


def phase_s(job: JobRecord, phase: str) -> float:
    """Return the seconds of the wall time that went into a phase."""
    return job.phases.get(phase, 0.0)


def phase_shares(job: JobRecord) -> dict[str, int]:
    """Return the share of every phase in tenths of a per cent; together they are 1000."""
    phases = {str(name): float(seconds or 0.0) for name, seconds in job.phases.items()}
    return dict(zip(phases, shares(list(phases.values())), strict=True))


def partial_note(job: JobRecord, wagon: str) -> str:
    """Return how many events the output of a wagon is from, if it is not from all; else an empty text."""
    for row in job.wagons:
        if row.name == wagon and (row.status or "finished") != "finished":
            events, expected = row.events, (job.events_expected or 0)
            of_all = f" of {count(expected)}" if expected > events else ""
            return f"partial: {count(events)}{of_all} events"
    return ""


def events_note(job: JobRecord, wagon: str, key: Sequence[str]) -> str:
    """Return how many events a histogram is from: those of its dataset, where the wagon keeps datasets apart; an empty
    text if files of that are in other datasets, too, as their events are counted for all of them.
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
    """Return what of each dataset was to be read; an empty text if all of it was."""
    parts = [counted(number, noun) for number, noun in ((job.max_files, "file"), (job.max_events, "event")) if number]
    return f"the first {' and '.join(parts)} of each dataset, as asked for" if parts else ""


def sample_sentences(job: JobRecord) -> list[str]:
    """Return a sentence on each simulated sample whose factor is not known, or only nearly."""
    return [f"Sample {one.name}: {one.note}." for one in job.samples if one.note]


def delivered_bytes(job: JobRecord) -> float:
    """Return the bytes that reading got, from storage and from copies on this machine."""
    return float(job.totals.bytes_read + job.totals.cached_bytes)


def files_read(job: JobRecord) -> list[FileRecord]:
    """Return the files that were read, without those of which all results were reused."""
    return [one for one in job.files if one.subjobs or not one.subjobs_reused]


def unwanted_bytes(job: JobRecord) -> float:
    """Return how many of the delivered bytes are not baskets of the branches that were read."""
    return max(0.0, delivered_bytes(job) - job.totals.compressed_bytes)


def local_copies(job: JobRecord) -> str:
    """Return how many bytes came from copies on this machine; an empty text if none did."""
    cached, read = job.totals.cached_bytes, job.totals.bytes_read
    return f"{size(cached)} came from copies on this machine, {size(read)} from storage" if cached else ""


def remarks(job: JobRecord) -> list[str]:
    """Return the remarks of storage, each with the number of its files."""
    found = job.storage_remarks
    return [f"{one.text or ''} ({counted(one.files, 'file')})" for one in found]


def others_cores(job: JobRecord) -> float:
    """Return how many cores other programs used while the job ran; 0 if some cores were free."""
    wall_s, machine_s, cores = job.wall_s, (job.machine_cpu_s or 0), (job.machine_cpu_count or 0)
    if wall_s <= 0 or cores <= 0 or machine_s < FULL_SHARE * cores * wall_s:
        return 0.0
    others = (machine_s - job.cpu_s) / wall_s
    return others if others > OTHERS_SHARE * cores else 0.0


def other_programs(job: JobRecord) -> str:
    """Return how many cores other programs used, if that slowed the job."""
    cores = others_cores(job)
    if not cores:
        return ""
    return f"other programs used {significant(cores, 2)} of the {count(job.machine_cpu_count or 0)} cores"


def small_chunks(job: JobRecord) -> str:
    """Return the number and size of chunks, if these are so small that calls cost more than events."""
    chunks = sum(wagon.chunks for wagon in job.wagons)
    events = sum(wagon.events for wagon in job.wagons)
    if chunks < 100 or events / chunks > SMALL_CHUNK_EVENTS:
        return ""
    return f"{counted(int(chunks), 'chunk')} of only {counted(round(events / chunks), 'event')} each"


def codec_name(codec: Any) -> str:
    """Return a codec, or several separated by commas, in their usual spelling; "none" is empty."""
    written = {"zlib": "zlib", "lzma": "LZMA", "lz4": "LZ4", "zstd": "zstd", "cs": "CS", "none": ""}
    parts = [part.strip() for part in str(codec or "").split(",")]
    return ", ".join(filter(None, (written.get(part.lower(), part) for part in parts)))
