"""The records that one sub-job collects while its chunks go by."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from branchline.base.plain import record_of
from branchline.reading.datasets.data_file import DataFile, storage_element
from branchline.reading.datasets.identity import is_other_version, opened_identity, version_of
from branchline.reading.locations import is_url
from branchline.reading.sources import FileReading, ReplicaReading, StreamRecords
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.reading.trees.tree import Tree
from branchline.records.sensors.record import BranchRecord, FileRecord, MissingCompanion, SiteReading, SkippedFile
from branchline.records.sensors.storage_counts import take_troubles
from branchline.records.sensors.this_process import host
from branchline.trains.subjobs.locality import Locality
from branchline.trains.subjobs.record_sums import RecordTable, added_sites
from branchline.trains.subjobs.share_result import ShareResult


def opening_of(tree: Tree) -> list[FileRecord]:
    """The record of a tree that was only looked at: what its opening read."""
    with ChunkStream([tree.source(0, 0)], []) as stream:
        for _ in stream:
            pass
        read = stream.records()
    opened = [record_of(FileRecord, one) for one in read.files]
    return [replace(one, entries=None, host=host(), storage_element=storage_element(one.path)) for one in opened]


class ShareRecords:
    """Files, branches and skipped files of one sub-job, which reads ``files``."""

    def __init__(self, worker: int, locality: Locality, files: Iterable[DataFile] = ()) -> None:
        self._worker = worker
        self._locality = locality
        self._listed = {one.path: one for one in files}
        self._replicas: dict[str, list[ReplicaReading]] = {}
        self._files = RecordTable[FileRecord]("path")
        self._branches = RecordTable[BranchRecord]("name")
        self._skipped: list[SkippedFile] = []
        self._missing: list[MissingCompanion] = []
        self._recovered: dict[str, int] = {}
        self._events: dict[str, int] = {}
        self._wall_s: dict[str, float] = {}
        self._entries: dict[str, int] = {}
        #: By path, the versions of files at servers that are others than the dataset says.
        self.other_versions: dict[str, str] = {}

    def chunk_done(self, chunk: Chunk, begin_s: float) -> None:
        """A chunk was waited for since ``begin_s``, without what warming up took, and is worked through now."""
        path = chunk.path
        self._entries[path] = chunk.tree_entries
        if chunk.recovered_count:
            self._recovered[path] = chunk.recovered_count
        self._events[path] = self._events.get(path, 0) + len(chunk)
        self._wall_s[path] = self._wall_s.get(path, 0.0) + time.monotonic() - begin_s

    def stream_done(self, read: StreamRecords, skipped: Iterable[Any]) -> None:
        """A stream has come to its end; ``read`` is what it recorded."""
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
            # Baskets of a branch may be in another file (TBranch::fFileName), which no key describes.
            self.other_versions[read.path] = "with values of branches of a file of the dataset"
            return
        if not is_url(read.path):
            # Where the path led to another file only when it was opened, it has the same identity before and after.
            if read.identity and not listed.replicas and read.identity != opened_identity(read.path):
                self.other_versions[read.path] = f"another file or version, which was opened as {read.identity}"
            return
        version = version_of(listed.location or listed.path, read.size_bytes, read.identity)
        if read.size_bytes != listed.size_bytes or is_other_version(listed.version, version):
            self.other_versions[read.path] = f"{read.size_bytes} bytes, {version}"

    def companions_done(self, read: Iterable[FileRecord], missing: Iterable[MissingCompanion]) -> None:
        """Companion files were read, and lack some events."""
        self._files.add(read)
        self._missing += missing

    def skip(self, path: str, entries_lost: int | None, error: str) -> None:
        """Events of a file are left out."""
        self._skipped.append(SkippedFile(path, entries_lost, error))

    def write_into(self, result: ShareResult) -> None:
        """Puts everything into the result of the sub-job."""
        result.files = self._files.as_list()
        sites: list[SiteReading] = []
        for record in result.files:
            path = record.path
            # A stream knows the entries that it was to read, the chunks those of the tree.
            record.entries = self._entries.get(path, record.entries)
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
        result.recovered = self._recovered
        result.troubles = take_troubles()
