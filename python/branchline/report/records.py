"""What the sentence and the page both take from the record of a job, so that they say the same."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from branchline.report.quantities import count, counted, shares, size

Job = Mapping[str, Any]


def phase_s(job: Job, phase: str) -> float:
    """Return the seconds of the wall time that went into a phase."""
    return float((job.get("phases") or {}).get(phase) or 0.0)


def phase_shares(job: Job) -> dict[str, int]:
    """Return the share of every phase in tenths of a per cent; together they are 1000."""
    phases = {str(name): float(seconds or 0.0) for name, seconds in (job.get("phases") or {}).items()}
    return dict(zip(phases, shares(list(phases.values())), strict=True))


def number(job: Job, name: str) -> float:
    """Return a number of the job, 0 where it was not measured."""
    return float(job.get(name) or 0)


def total(job: Job, name: str) -> float:
    """Return what adds up over the files of the job, 0 where it was not measured."""
    return float((job.get("totals") or {}).get(name) or 0)


def partial_note(job: Job, wagon: str) -> str:
    """Return on how many of all events the output of a wagon stands, where it is not all of them; else nothing."""
    for row in job.get("wagons") or []:
        if row.get("name") == wagon and (row.get("status") or "finished") != "finished":
            events, expected = number(row, "events"), number(job, "events_expected")
            of_all = f" of {count(expected)}" if expected > events else ""
            return f"partial: {count(events)}{of_all} events"
    return ""


def unwanted_bytes(job: Job) -> float:
    """Return how many of the bytes read are not of baskets of the branches read: other branches and metadata."""
    return max(0.0, total(job, "bytes_read") + total(job, "cached_bytes") - total(job, "compressed_bytes"))


def local_copies(job: Job) -> str:
    """Say how much of the bytes came from copies on this machine; nothing where none did."""
    cached, read = total(job, "cached_bytes"), total(job, "bytes_read")
    return f"{size(cached)} came from copies on this machine, {size(read)} from storage" if cached else ""


def remarks(job: Job) -> list[str]:
    """Return what storage had to remark, each with the number of the files that it is about."""
    found = job.get("storage_remarks") or []
    return [f"{one.get('text') or ''} ({counted(int(number(one, 'files')), 'file')})" for one in found]
