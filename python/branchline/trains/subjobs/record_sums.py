"""Adding up the records of sub-jobs: one record per file and per branch, however many sub-jobs read of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any, Generic, TypeVar

from branchline.base.limits import MISSING_NAMED
from branchline.records.sensors.record import (
    BranchRecord,
    FileRecord,
    MissingCompanion,
    SiteReading,
    SkippedFile,
    StorageRecord,
    StorageRemark,
    Totals,
)

# Numbers that describe a file and must not be added when it was read in several parts.
_OF_THE_FILE = ("entries", "size_bytes")

Record = TypeVar("Record", FileRecord, BranchRecord)


class RecordTable(Generic[Record]):
    """Records by name; adding one that is there already adds its numbers. ``key`` is the field with the name."""

    def __init__(self, key: str) -> None:
        self._key = key
        self._records: dict[str, Record] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Adds records, in their order."""
        for record in records:
            name = getattr(record, self._key)
            known = self._records.get(name)
            if known is None:
                self._records[name] = replace(record)
                continue
            for one in fields(record):
                setattr(known, one.name, _added(one.name, getattr(known, one.name), getattr(record, one.name)))

    def as_list(self) -> list[Record]:
        """All records, in the order in which their names came first."""
        return list(self._records.values())


def _added(field: str, first: Any, second: Any) -> Any:
    if first is None or second is None:
        return second if first is None else first
    if field in _OF_THE_FILE:
        return max(first, second)
    if isinstance(first, (int, float)) and isinstance(second, (int, float)) and not isinstance(first, bool):
        return first + second
    if isinstance(first, list):
        return [*first, *(one for one in second if one not in first)]
    if isinstance(first, str) and isinstance(second, str) and first != second:
        return first if not second or second in first.split(", ") else f"{first}, {second}" if first else second
    return first


def totals_of(files: Iterable[FileRecord]) -> Totals:
    """The sums over all files."""
    totals = Totals()
    for record in files:
        totals.add(record)
    return totals


def storage_elements(files: Iterable[FileRecord]) -> list[StorageRecord]:
    """What was read from each storage element, from the records of the files."""
    elements: dict[str, StorageRecord] = {}
    for record in files:
        if record.subjobs_reused and not record.subjobs:
            continue
        element = elements.setdefault(record.storage_element, StorageRecord(record.storage_element))
        element.files += 1
        element.add_requests(record)
    return list(elements.values())


def added_sites(readings: Iterable[SiteReading]) -> list[SiteReading]:
    """One record for each site and storage element, sorted by them."""
    added: dict[tuple[str, str], SiteReading] = {}
    for one in readings:
        known = added.setdefault((one.site, one.storage_element), SiteReading(one.site, one.storage_element))
        known.nearness = one.nearness
        known.files += one.files
        known.bytes_read += one.bytes_read
        known.failures += one.failures
        known.wall_s += one.wall_s
        known.fetch_s += one.fetch_s
    return [added[key] for key in sorted(added)]


def storage_remarks(files: Iterable[FileRecord]) -> list[StorageRemark]:
    """The remarks of storage: each sentence once, with the number of the files that it is about."""
    remarks: dict[str, StorageRemark] = {}
    for record in files:
        for text in record.remarks:
            remarks.setdefault(text, StorageRemark(text)).files += 1
    return list(remarks.values())


def companions_missing(missing: Iterable[MissingCompanion]) -> list[MissingCompanion]:
    """One record for each companion that had nothing for some events: their number, and the first of them."""
    companions: dict[str, MissingCompanion] = {}
    for record in missing:
        known = companions.setdefault(record.name, MissingCompanion(record.name))
        known.events_missing += record.events_missing
        known.first = [*known.first, *record.first][:MISSING_NAMED]
    return list(companions.values())


def skipped_files(skipped: Iterable[SkippedFile]) -> list[SkippedFile]:
    """One record for each skipped file; the events lost in its parts are added, None as soon as one is unknown."""
    files: dict[str, SkippedFile] = {}
    for record in skipped:
        known = files.get(record.path)
        if known is None:
            files[record.path] = replace(record)
        elif known.entries_lost is None or record.entries_lost is None:
            known.entries_lost = None
        else:
            known.entries_lost += record.entries_lost
    return list(files.values())
