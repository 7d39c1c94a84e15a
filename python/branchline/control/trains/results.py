"""The files of a train's results. Code of users wrote them, so nothing of them is believed."""

from __future__ import annotations

from pathlib import Path

from branchline.records.sensors.record import JobRecord


def files_of(record: JobRecord | None) -> list[str]:
    """The names of the files that a run wrote, relative to its directory."""
    if record is None:
        return []
    tables = [name for one in record.tables for name in one.files]
    return list(dict.fromkeys([*record.written, *tables]))


def result_file(out: Path, record: JobRecord | None, name: str) -> Path | None:
    """Where a file of the results is: only what the record lists and what lies in the directory, whatever else is
    there; None for anything else.
    """
    if name not in files_of(record):
        return None
    try:
        path = (out / name).resolve()
        return path if path.is_relative_to(out.resolve()) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):
        return None
