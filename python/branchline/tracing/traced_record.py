"""What a traced program read, as records of files and of a job, for a control room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from branchline.errors import BranchlineError
from branchline.jobs.sites import SiteMap, Spot, nearness_of, own_spot
from branchline.reading.datasets.elements import ElementSites, server_of
from branchline.records.sensors.record import (
    FAILED,
    FINISHED,
    FileRecord,
    JobFault,
    JobRecord,
    SiteReading,
    StorageRecord,
    Totals,
)
from branchline.records.sensors.this_process import branchline_version
from branchline.tracing.facts import FileRow, Summary


@dataclass(frozen=True)
class TracedReads:
    """The files that a program read, the same by storage element, and the record of its run, without events: what it
    made of the bytes is not known.
    """

    files: list[FileRecord]
    sites: list[SiteReading]
    record: JobRecord

    @classmethod
    def of(cls, summary: Summary) -> TracedReads:
        """From a trace that was just recorded on this machine."""
        spot, sites = _here()
        files = [_file(one, summary.job.host, spot.site) for one in summary.files]
        readings = [_reading(one, spot, sites) for one in files]
        return cls(files, readings, _record(summary, files, readings))


def _here() -> tuple[Spot, SiteMap]:
    try:
        return own_spot(), SiteMap.load()
    except BranchlineError:  # A site's file that is wrong is no reason to lose a trace.
        return Spot(), SiteMap()


def _file(row: FileRow, host: str, site: str) -> FileRecord:
    return FileRecord(
        path=row.file,
        storage_element=server_of(row.file),
        host=host,
        site=site,
        subjobs=1,
        size_bytes=row.size_bytes,
        wall_s=row.reading_s,
        bytes_read=row.read_bytes,
        bytes_asked=row.distinct_bytes - row.unwanted_bytes,
        read_calls=row.read_calls,
        fetch_s=row.reading_s,
    )


def _reading(file: FileRecord, spot: Spot, sites: SiteMap) -> SiteReading:
    nearness = nearness_of(spot, file.path, ElementSites(), sites).value
    return SiteReading(
        spot.site, file.storage_element, nearness, 1, file.bytes_read, wall_s=file.wall_s, fetch_s=file.fetch_s
    )


def _record(summary: Summary, files: list[FileRecord], readings: list[SiteReading]) -> JobRecord:
    job, code = summary.job, summary.job.exit_code
    totals, elements = Totals(), dict[str, StorageRecord]()
    for one in files:
        totals.add(one)
        element = elements.setdefault(one.storage_element, StorageRecord(one.storage_element))
        element.files += 1
        element.add_requests(one)
    what = f"the program ended with exit code {code}"
    return JobRecord(
        branchline=branchline_version(),
        status=FAILED if code else FINISHED,
        command=job.command,
        started=datetime.fromtimestamp(job.started_unix_ns / 1e9, UTC).isoformat(),
        host=job.host,
        wall_s=job.wall_ns / 1e9,
        totals=totals,
        errors=[JobFault("ExitCode", what)] if code else [],
        storage_elements=list(elements.values()),
        sites=[replace(one) for one in readings],
    )
