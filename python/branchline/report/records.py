"""Values from the record of a job that both the sentence and the page need, so that these agree."""

from __future__ import annotations

from branchline.quantities import count, counted, shares, size
from branchline.sensors.record import JobRecord


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


def delivered_bytes(job: JobRecord) -> float:
    """Return the bytes that reading got, from storage and from copies on this machine."""
    return float(job.totals.bytes_read + job.totals.cached_bytes)


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
