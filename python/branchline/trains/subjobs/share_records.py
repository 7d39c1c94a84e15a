"""Collects the records of a sub-job while it processes chunks, and adds up records of several sub-jobs."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields, replace
from functools import partial
from typing import Any, Generic, TypeVar

from branchline.base.limits import MISSING_NAMED
from branchline.base.plain import record_of
from branchline.reading.datasets.data_file import DataFile, storage_element
from branchline.reading.datasets.identity import is_other_version, opened_identity, version_of
from branchline.reading.locations import is_url
from branchline.reading.sources import FileReading, ReplicaReading, StreamRecords
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.record import (
    BranchRecord,
    FileRecord,
    SiteReading,
    SkippedFile,
    StorageRecord,
    StorageRemark,
    Totals,
)
from branchline.records.sensors.record_parts import JoinRecord, MissingCompanion
from branchline.records.sensors.storage_counts import take_troubles
from branchline.records.sensors.this_process import host
from branchline.trains.subjobs.locality import Locality
from branchline.trains.subjobs.share_result import ShareResult

# Fields that describe the file itself, and are therefore not added up when a file is read in several parts.
_OF_THE_FILE = ("entries", "size_bytes")

Record = TypeVar("Record", FileRecord, BranchRecord)


class RecordTable(Generic[Record]):
    """Records by name. Numbers in records with the same name are added up. ``key`` is the field that contains the
    name.
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._records: dict[str, Record] = {}

    def add(self, records: Iterable[Record]) -> None:
        """Add records, in order."""
        for record in records:
            name = getattr(record, self._key)
            known = self._records.get(name)
            if known is None:
                self._records[name] = replace(record)
                continue
            # Sub-jobs read different folders of a file, but parts of the same tree.
            is_by_folder = getattr(record, "folders", 0) > 0
            for one in fields(record):
                added = _sum if is_by_folder and one.name == "entries" else partial(_added, one.name)
                setattr(known, one.name, added(getattr(known, one.name), getattr(record, one.name)))

    def as_list(self) -> list[Record]:
        """Return all records, in the order in which their names were first added."""
        return list(self._records.values())


def _sum(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else first + second


def _added(field: str, first: Any, second: Any) -> object:
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
    """Return the totals over all files."""
    totals = Totals()
    for record in files:
        totals.add(record)
    return totals


def storage_elements(files: Iterable[FileRecord]) -> list[StorageRecord]:
    """Return the reads from each storage element, according to the records of the files."""
    elements: dict[str, StorageRecord] = {}
    for record in files:
        if record.subjobs_reused and not record.subjobs:
            continue
        element = elements.setdefault(record.storage_element, StorageRecord(record.storage_element))
        element.files += 1
        element.add_requests(record)
    return list(elements.values())


def added_sites(readings: Iterable[SiteReading]) -> list[SiteReading]:
    """Return one record per site and storage element, sorted by these."""
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
    """Return each remark of the storage layer once, with the number of files to which it applies."""
    remarks: dict[str, StorageRemark] = {}
    for record in files:
        for text in record.remarks:
            remarks.setdefault(text, StorageRemark(text)).files += 1
    return list(remarks.values())


def companions_missing(missing: Iterable[MissingCompanion]) -> list[MissingCompanion]:
    """Return one record for each companion that lacks entries for some events. The record has the number of these
    events, and names the first few.
    """
    companions: dict[str, MissingCompanion] = {}
    for record in missing:
        known = companions.setdefault(record.name, MissingCompanion(record.name))
        known.events_missing += record.events_missing
        known.first = [*known.first, *record.first][:MISSING_NAMED]
    return list(companions.values())


def added_joins(joins: Iterable[JoinRecord]) -> list[JoinRecord]:
    """Return one record for each join, with the sums of its rows."""
    added: dict[str, JoinRecord] = {}
    for record in joins:
        known = added.setdefault(record.name, JoinRecord(record.name))
        known.rows += record.rows
        known.negative += record.negative
    return list(added.values())


def skipped_files(skipped: Iterable[SkippedFile]) -> list[SkippedFile]:
    """Return one record per skipped file. The lost entries of a file's parts are added up; None if they are unknown for
    any part.
    """
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


def opening_of(tree: Tree) -> list[FileRecord]:
    """Return the records of the reads that were needed to open a tree."""
    with ChunkStream([tree.source(0, 0)], []) as stream:
        for _ in stream:
            pass
        read = stream.records()
    opened = [record_of(FileRecord, one) for one in read.files]
    return [replace(one, entries=None, host=host(), storage_element=storage_element(one.path)) for one in opened]


class ShareRecords:
    """The records of one sub-job, which reads ``files``: files, branches and skipped files."""

    def __init__(self, worker: int, locality: Locality, files: Iterable[DataFile] = ()) -> None:
        self._worker = worker
        self._locality = locality
        listed = tuple(files)
        self._listed = {one.path: one for one in listed}
        self._folders = Counter(one.path for one in listed if one.trees)
        self._replicas: dict[str, list[ReplicaReading]] = {}
        self._files = RecordTable[FileRecord]("path")
        self._branches = RecordTable[BranchRecord]("name")
        self._skipped: list[SkippedFile] = []
        self._missing: list[MissingCompanion] = []
        self._joins: list[JoinRecord] = []
        self._recovered: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._wall_s: dict[str, float] = {}
        # Numbers of entries by file and tree.
        self._entries: dict[str, dict[str, int]] = {}
        #: Descriptions, by path, of the files that were read although they are not in the dataset, or in a different
        #: version than in the dataset.
        self.other_versions: dict[str, str] = {}

    def chunk_done(self, chunk: Chunk, begin_s: float) -> None:
        """Record a processed chunk. ``begin_s`` is the time at which the wait for the chunk started, shifted so that
        the warm-up time does not count.
        """
        path = chunk.path
        self._entries.setdefault(path, {})[chunk.tree_name] = chunk.tree_entries
        if chunk.recovered_count:
            self._recovered[path] = chunk.recovered_count
        self._events[path] = self._events.get(path, 0) + len(chunk)
        self._wall_s[path] = self._wall_s.get(path, 0.0) + time.monotonic() - begin_s

    def stream_done(self, read: StreamRecords, skipped: Iterable[Any]) -> None:
        """Add the read records ``read`` of a finished stream, and the files that it skipped."""
        self._files.add(record_of(FileRecord, one) for one in read.files)
        for one in read.files:
            self._replicas.setdefault(one.path, []).extend(one.replicas)
            self._note_version(one)
        self._branches.add(record_of(BranchRecord, one) for one in read.branches)
        for one in skipped:
            self.skip(one.path, one.entries_lost, one.error)

    def _note_version(self, read: FileReading) -> None:
        listed = self._listed.get(read.path)
        if listed is None:
            # Baskets of a branch may be in another file (TBranch::fFileName), which no cache key covers.
            self.other_versions[read.path] = "which has branches of a file of the dataset"
            return
        if not is_url(read.path):
            # Find a file that was different only while it was opened. The identities before and after the sub-job are
            # equal in this case.
            if read.identity and not listed.replicas and read.identity != opened_identity(read.path):
                self.other_versions[read.path] = f"another file or version, which was opened as {read.identity}"
            return
        version = version_of(listed.location or listed.path, read.size_bytes, read.identity)
        is_other_size = listed.size_bytes not in (None, read.size_bytes)
        # A cache and other replicas have modification times of their own.
        is_first = not listed.cache and not any(one.bytes_read and one.path != read.path for one in read.replicas)
        if is_other_size or (is_first and is_other_version(listed.version, version)):
            self.other_versions[read.path] = f"{read.size_bytes} bytes, {version}"

    def companions_done(
        self, read: Iterable[FileRecord], missing: Iterable[MissingCompanion], joins: Iterable[JoinRecord]
    ) -> None:
        """Add the records of companion files and joined trees, the events without entries in them, and the joined
        rows.
        """
        self._files.add(read)
        self._missing += missing
        self._joins += joins

    def skip(self, path: str, entries_lost: int | None, error: str) -> None:
        """Record that events of a file were skipped."""
        self._skipped.append(SkippedFile(path, entries_lost, error))

    def write_into(self, result: ShareResult) -> None:
        """Move all records into the result of the sub-job."""
        result.files = self._files.as_list()
        sites: list[SiteReading] = []
        for record in result.files:
            path = record.path
            # A stream records only the entries that it had to read, so the tree's number comes from the chunks.
            record.entries = sum(self._entries[path].values()) if path in self._entries else record.entries
            record.folders = self._folders[path]
            record.events = self._events.get(path, 0)
            record.wall_s = self._wall_s.get(path, 0.0)
            record.host = host()
            record.worker = str(self._worker)
            record.site = self._locality.spot.site
            record.subjobs = 1
            sites += self._locality.read(record, self._listed.get(path), self._replicas.get(path, ()))
        result.sites = added_sites(sites)
        result.branches = self._branches.as_list()
        result.skipped = self._skipped
        result.companions_missing = self._missing
        result.joins = added_joins(self._joins)
        result.recovered = self._recovered
        result.troubles = take_troubles()
