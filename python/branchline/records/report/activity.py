"""The report's sections on a job's activity.

The sections show machines, restarted tasks, failed sub-jobs, and the reads of each site from
each storage element. The table of sites follows figure 5 of L Betev et al., "Performance optimisations for distributed
analysis in ALICE" (2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from branchline.base.quantities import count, counted, duration, percent, rate
from branchline.records.sensors.record import FailureGroup, JobRecord, MergeStage, SiteReading

#: Maximum number of files listed in the sentence on a group of failed sub-jobs.
FILES_NAMED_MAX = 3
#: Maximum numbers of rows and columns in the table of sites.
SITES_SHOWN_MAX = 40
ELEMENTS_SHOWN_MAX = 8
#: Values of ``SiteReading.nearness`` that count as local.
LOCAL = ("host", "site")
#: Phases in which a worker waits for data or for work.
_WAITING = ("wait", "idle")


class NodeRow(NamedTuple):
    """A row of the table of machines: the machine's processes, and how long they worked."""

    name: str
    processes: str
    at_work: str
    merges: str
    lost: str


def node_rows(job: JobRecord) -> list[NodeRow]:
    """Return a row for each machine, the busiest machine first; empty if the job ran on a single machine."""
    hosts = ({one.host for one in job.activity} | {one.host for one in job.workers_lost}) - {""}
    if len(hosts) < 2:
        return []
    seconds = {host: sum(one.end_s - one.begin_s for one in job.activity if one.host == host) for host in hosts}
    return [
        NodeRow(
            host,
            count(sum(one.host == host and not one.stage for one in job.activity)),
            duration(seconds[host]),
            count(sum(one.host == host and one.stage > 0 for one in job.activity)),
            count(sum(one.host == host for one in job.workers_lost)),
        )
        for host in sorted(hosts, key=lambda host: (-seconds[host], host))
    ]


def merging_sentence(job: JobRecord) -> str:
    """Return a sentence that compares the merge time with the processing time."""
    processing_s = merging_s = 0.0
    for one in job.activity:
        if one.stage > 0:
            merging_s += one.end_s - one.begin_s
        else:
            processing_s += one.end_s - one.begin_s
    if not processing_s:
        return ""
    total = f"Time of all processes together: {duration(processing_s)} of processing, {duration(merging_s)} of merging."
    stages = merge_stages_text(job.merge_stages)
    return f"{total} Merging by stage, on all machines: {stages}." if stages else total


def merge_stages_text(stages: Iterable[MergeStage]) -> str:
    """Describe what each stage merged and how long it took; empty without stages."""
    return "; ".join(
        f"stage {one.stage}: {counted(one.results, 'result')} into {count(one.nodes)} in {duration(one.seconds)}"
        for one in stages
    )


def restarted_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each task that started more than once."""
    return [
        f"Task {one.task} started {len(one.hosts)} times, on {', '.join(one.hosts)}; its finished results were kept."
        for one in job.restarted
    ]


def retry_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each resubmission of sub-jobs, with its causes."""
    sentences = []
    for one in job.retries:
        causes = "; ".join(f"{counted(number, 'sub-job')}: {cause}" for cause, number in one.causes.items())
        nodes = f", without {', '.join(one.excluded_nodes)}" if one.excluded_nodes else ""
        who = "by branchline resume" if one.is_by_user else "by the last job"
        sentences.append(f"{counted(one.subjobs, 'sub-job')} after {one.sent_s:.0f} s {who}{nodes} ({causes})")
    return sentences


def failure_sentence(group: FailureGroup) -> str:
    """Return a sentence on how many sub-jobs failed in the same way, and on which files."""
    more = len(group.files) - FILES_NAMED_MAX
    files = ", ".join(group.files[:FILES_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{counted(len(group.subjobs), 'sub-job')}: {group.message} ({files})."


# --- sites and storage elements ---------------------------------------------------------------------------------------


class SiteTable(NamedTuple):
    """A table of reads with a row per site and a column per storage element, both with the most bytes first.

    The table is empty if all data was local. Sites and storage elements beyond the maximum numbers are only in
    job.json.
    """

    elements: list[str]
    rows: list[SiteRow]
    sites_hidden: int = 0
    elements_hidden: int = 0


class SiteRow(NamedTuple):
    """The reads of a site's workers; ``by_element`` has a cell for each storage element of the table."""

    name: str
    workers: str
    efficiency: str
    every: ReadCell
    local: ReadCell
    remote: ReadCell
    by_element: list[ReadCell]


class ReadCell(NamedTuple):
    """A cell of the table of sites: the number of files read, their share of the site's files, and the read speed.

    All fields are empty if no files were read.
    """

    files: str = ""
    share: str = ""
    speed: str = ""


def site_table(job: JobRecord) -> SiteTable:
    """Return the table of sites, which is empty if every file was on the worker's own machine."""
    if all(one.nearness == "host" for one in job.sites) and len({one.site for one in job.sites}) < 2:
        return SiteTable([], [])
    elements, sites = _most_read(job.sites, "storage_element"), _most_read(job.sites, "site")
    shown = elements[:ELEMENTS_SHOWN_MAX]
    efficiencies = site_efficiencies(job)
    rows = []
    for site in sites[:SITES_SHOWN_MAX]:
        read = [one for one in job.sites if one.site == site]
        workers = [one for one in job.worker_phases if one.site == site]
        files_count = sum(one.files for one in read)
        row = SiteRow(
            site or "unknown site",
            counted(len(workers), "worker"),
            percent(efficiencies[site], 1.0) if site in efficiencies else "-",
            _cell(read, files_count),
            _cell([one for one in read if one.nearness in LOCAL], files_count),
            _cell([one for one in read if one.nearness not in LOCAL], files_count),
            [_cell([one for one in read if one.storage_element == element], files_count) for element in shown],
        )
        rows.append(row)
    return SiteTable(shown, rows, len(sites) - len(rows), len(elements) - len(shown))


def site_efficiencies(job: JobRecord) -> dict[str, float]:
    """Return the fraction of the time in which the workers at each site waited neither for data nor for work."""
    wall_s: dict[str, float] = {}
    waiting_s: dict[str, float] = {}
    for one in job.worker_phases:
        wall_s[one.site] = wall_s.get(one.site, 0.0) + one.wall_s
        waiting_s[one.site] = waiting_s.get(one.site, 0.0) + sum(getattr(one, phase) for phase in _WAITING)
    return {site: max(0.0, 1 - waiting_s[site] / whole) for site, whole in wall_s.items() if whole > 0}


def _most_read(readings: Iterable[SiteReading], name: str) -> list[str]:
    """Return the distinct values of a field, ordered by the number of bytes read, largest first."""
    size_bytes: dict[str, int] = {}
    for one in readings:
        key = getattr(one, name)
        size_bytes[key] = size_bytes.get(key, 0) + one.bytes_read
    return sorted(size_bytes, key=lambda key: (-size_bytes[key], key))


def _cell(read: Sequence[SiteReading], files_count: int) -> ReadCell:
    files = sum(one.files for one in read)
    if not files:
        return ReadCell()
    speed = rate(sum(one.bytes_read for one in read), sum(one.wall_s for one in read))
    return ReadCell(counted(files, "file"), percent(files, files_count), speed)
