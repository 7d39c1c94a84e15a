"""Who worked on a job and when: processes over time, machines, tasks that started again, sub-jobs that failed; and what
the workers at each site read from each storage element, local and remote.

The table of sites has the form of figure 5 of L Betev et al., "Performance optimisations for distributed analysis in
ALICE" (2014).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from branchline.base.quantities import count, counted, duration, percent, rate
from branchline.records.report.charts import Chart, Spans, at_work_chart
from branchline.records.report.outcomes import merge_stages_text
from branchline.records.sensors.record import ActivitySpan, FailureGroup, JobRecord, SiteReading, WorkerPhases

#: Colours as in the profiles of the ALICE study: processing, stages of merging, the last merge.
_PROCESSING, _STAGES, _LAST = "#4a9273", ("#4f7cac", "#7a9cc6", "#2f5d8a"), "#d9822b"
#: Files that the sentence on a failure names.
FILES_NAMED_MAX = 3
#: Rows and columns of the table of sites.
SITES_SHOWN_MAX = 40
ELEMENTS_SHOWN_MAX = 8
#: Values of ``nearness`` that count as local.
LOCAL = ("host", "site")
#: Phases in which a worker waits: for data, or for work.
_WAITING = ("wait", "idle")


class NodeRow(NamedTuple):
    """A machine: its processes, and for how long they worked."""

    name: str
    processes: str
    at_work: str
    merges: str
    lost: str


def profile_chart(job: JobRecord) -> Chart | None:
    """Return how many processes were at work along the job, by processing and stages of merging."""
    processing = [one for one in job.activity if not one.stage]
    if not processing:
        return None
    kinds = [Spans("processing", _PROCESSING, _ends(processing))]
    for stage in sorted({one.stage for one in job.activity if one.stage and not one.is_last}):
        merging = [one for one in job.activity if one.stage == stage and not one.is_last]
        kinds.append(Spans(f"merging, stage {stage}", _STAGES[(stage - 1) % len(_STAGES)], _ends(merging)))
    last = [one for one in job.activity if one.is_last]
    kinds += [Spans("last merge", _LAST, _ends(last))] if last else []
    return at_work_chart("At work", "processes", kinds, job.wall_s)


def node_rows(job: JobRecord) -> list[NodeRow]:
    """Return the machines, the busiest first; none if the job ran on one only."""
    hosts = sorted({one.host for one in job.activity if one.host} | {one.host for one in job.workers_lost if one.host})
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
    """Return the time of merging next to that of processing."""
    processing_s = _seconds(job, merging=False)
    merging_s = _seconds(job, merging=True)
    if not processing_s:
        return ""
    total = f"Time of all processes together: {duration(processing_s)} of processing, {duration(merging_s)} of merging."
    stages = merge_stages_text(job.merge_stages)
    return f"{total} Merging by stage, on all machines: {stages}." if stages else total


def restarted_sentences(job: JobRecord) -> list[str]:
    """Return a sentence for each task that started more than once."""
    return [
        f"Task {one.task} started {len(one.hosts)} times, on {', '.join(one.hosts)}; its finished results were kept."
        for one in job.restarted
    ]


def retry_sentences(job: JobRecord) -> list[str]:
    """What was sent again, and why."""
    sentences = []
    for one in job.retries:
        causes = "; ".join(f"{counted(number, 'sub-job')}: {cause}" for cause, number in one.causes.items())
        nodes = f", without {', '.join(one.excluded_nodes)}" if one.excluded_nodes else ""
        who = "by branchline resume" if one.is_by_user else "by the last job"
        sentences.append(f"{counted(one.subjobs, 'sub-job')} after {one.sent_s:.0f} s {who}{nodes} ({causes})")
    return sentences


def failure_sentence(group: FailureGroup) -> str:
    """Return how many sub-jobs failed in the same way, and their files."""
    more = len(group.files) - FILES_NAMED_MAX
    files = ", ".join(group.files[:FILES_NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
    return f"{counted(len(group.subjobs), 'sub-job')}: {group.message} ({files})."


def _ends(spans: list[ActivitySpan]) -> list[tuple[float, float]]:
    return [(one.begin_s, one.end_s) for one in spans]


def _seconds(job: JobRecord, *, merging: bool) -> float:
    return sum(one.end_s - one.begin_s for one in job.activity if (one.stage > 0) == merging)


# --- sites and storage elements ---------------------------------------------------------------------------------------


class SiteTable(NamedTuple):
    """Sites by storage elements, those with most bytes first. There are no rows if all data was local.

    The hidden ones are not shown; job.json has them.
    """

    elements: list[str]
    rows: list[SiteRow]
    sites_hidden: int = 0
    elements_hidden: int = 0


class SiteRow(NamedTuple):
    """What the workers at a site did; ``by_element`` is in the order of the table's elements."""

    name: str
    workers: str
    efficiency: str
    every: ReadCell
    local: ReadCell
    remote: ReadCell
    by_element: list[ReadCell]


class ReadCell(NamedTuple):
    """Some of the files that a site read: how many, their share of the site's, and their speed; empty if none."""

    files: str = ""
    share: str = ""
    speed: str = ""


def site_table(job: JobRecord) -> SiteTable:
    """Return the table; it has no rows where every file was on the worker's own machine."""
    if all(one.nearness == "host" for one in job.sites) and len({one.site for one in job.sites}) < 2:
        return SiteTable([], [])
    elements, sites = _most_read(job.sites, "storage_element"), _most_read(job.sites, "site")
    shown = elements[:ELEMENTS_SHOWN_MAX]
    rows = [_site_row(site, job, shown) for site in sites[:SITES_SHOWN_MAX]]
    return SiteTable(shown, rows, len(sites) - len(rows), len(elements) - len(shown))


def _most_read(readings: Iterable[SiteReading], name: str) -> list[str]:
    """Return the different values of a field, the one with most bytes first."""
    size_bytes: dict[str, int] = {}
    for one in readings:
        key = getattr(one, name)
        size_bytes[key] = size_bytes.get(key, 0) + one.bytes_read
    return sorted(size_bytes, key=lambda key: (-size_bytes[key], key))


def _site_row(site: str, job: JobRecord, elements: Sequence[str]) -> SiteRow:
    read = [one for one in job.sites if one.site == site]
    workers = [one for one in job.worker_phases if one.site == site]
    files_count = sum(one.files for one in read)
    return SiteRow(
        site or "unknown site",
        counted(len(workers), "worker"),
        _efficiency(workers),
        _cell(read, files_count),
        _cell([one for one in read if one.nearness in LOCAL], files_count),
        _cell([one for one in read if one.nearness not in LOCAL], files_count),
        [_cell([one for one in read if one.storage_element == element], files_count) for element in elements],
    )


def _efficiency(workers: Sequence[WorkerPhases]) -> str:
    """Return the share of the workers' time in which they waited neither for data nor for work."""
    wall_s = sum(one.wall_s for one in workers)
    waiting_s = sum(getattr(one, phase) for one in workers for phase in _WAITING)
    return percent(max(0.0, wall_s - waiting_s), wall_s) if wall_s > 0 else "-"


def _cell(read: Sequence[SiteReading], files_count: int) -> ReadCell:
    files = sum(one.files for one in read)
    if not files:
        return ReadCell()
    speed = rate(sum(one.bytes_read for one in read), sum(one.wall_s for one in read))
    return ReadCell(counted(files, "file"), percent(files, files_count), speed)
