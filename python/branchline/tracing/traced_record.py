"""Converts the reads of a traced program to file records and a job record for a control room."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from branchline.base.quantities import NS_PER_S
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
from branchline.tracing.facts import Summary


@dataclass(frozen=True)
class TracedReads:
    """The files that a program read, their totals by storage element, and the record of its run.

    The record has no events, since it is unknown what the program did with the bytes.
    """

    files: list[FileRecord]
    sites: list[SiteReading]
    record: JobRecord

    @classmethod
    def of(cls, summary: Summary) -> TracedReads:
        """Create the records for a trace that was just recorded on this machine."""
        try:
            spot, sites = own_spot(), SiteMap.load()
        except BranchlineError:  # Keep the trace even if the site file is invalid.
            spot, sites = Spot(), SiteMap()
        files = [
            FileRecord(
                path=one.file,
                storage_element=server_of(one.file),
                host=summary.job.host,
                site=spot.site,
                subjobs=1,
                size_bytes=one.size_bytes,
                wall_s=one.reading_s,
                bytes_read=one.read_bytes,
                bytes_asked=one.distinct_bytes - one.unwanted_bytes,
                read_calls=one.read_calls,
                fetch_s=one.reading_s,
            )
            for one in summary.files
        ]
        readings = [_reading(one, spot, sites) for one in files]
        job, code = summary.job, summary.job.exit_code
        totals, elements = Totals(), dict[str, StorageRecord]()
        for one in files:
            totals.add(one)
            element = elements.setdefault(one.storage_element, StorageRecord(one.storage_element))
            element.files += 1
            element.add_requests(one)
        what = f"the program ended with exit code {code}"
        return cls(
            files,
            readings,
            JobRecord(
                branchline=branchline_version(),
                status=FAILED if code else FINISHED,
                command=job.command,
                started=datetime.fromtimestamp(job.started_unix_ns / NS_PER_S, UTC).isoformat(),
                host=job.host,
                wall_s=job.wall_ns / NS_PER_S,
                totals=totals,
                errors=[JobFault("ExitCode", what)] if code else [],
                storage_elements=list(elements.values()),
                sites=[replace(one) for one in readings],
            ),
        )


def _reading(file: FileRecord, spot: Spot, sites: SiteMap) -> SiteReading:
    nearness = nearness_of(spot, file.path, ElementSites(), sites).value
    return SiteReading(
        spot.site, file.storage_element, nearness, 1, file.bytes_read, wall_s=file.wall_s, fetch_s=file.fetch_s
    )
