"""Pages of jobs: the job list, one job, a job's files, and a job's report.

The report is rendered from the record that the job has sent.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from branchline.base.limits import FILES_PAGE_MAX, JOBS_PAGE_MAX
from branchline.control.reference_comparison import beside_reference
from branchline.control.reports.jobs import ORDERS, SILENT, FilesPage, JobDetails, JobQuery, JobRow
from branchline.control.reports.periods import FAR, NEAR
from branchline.control.room import ControlRoom
from branchline.control.web.pages.page import Ask, Page
from branchline.control.web.pages.trains import STRANGER_POLICY
from branchline.errors import OptionError
from branchline.records.charts.chart import Chart
from branchline.records.charts.job_charts import throughput_charts
from branchline.records.diagnosis.job_advice import advise_job
from branchline.records.report.charts import charts_over_time
from branchline.records.report.job_summary import summary
from branchline.records.report.report_page import page_html
from branchline.records.sensors.record import FAILED, FINISHED, PARTIAL, RUNNING

ROWS = 50
STATES = (RUNNING, SILENT, FINISHED, PARTIAL, FAILED)


@dataclass(frozen=True)
class JobsListed:
    """A page of the jobs that match a query. ``total`` is the total number of matching jobs."""

    query: JobQuery
    rows: list[JobRow]
    total: int


@dataclass(frozen=True)
class JobFilesPage:
    """A page of the files that a job has read, starting at index ``first``."""

    job: str
    first: int
    count: int
    files: FilesPage


def jobs(ask: Ask) -> Page:
    """The job list, with search, filters, sort order and paging."""
    names = ("search", "status", "user", "site", "element", "distance", "wagon", "host", "since", "until")
    given = {name: ask.text(name) for name in names}
    query = JobQuery(
        order=ask.text("order", "started"),
        first=ask.number("first"),
        count=min(ask.number("count", ROWS), JOBS_PAGE_MAX),
        **given,
    )
    try:
        found = ask.room.jobs(query)
    except OptionError as error:
        raise HTTPException(400, str(error)) from None
    listed = JobsListed(query, found.rows, found.total)
    asked = given | {"order": query.order}
    return Page(
        "jobs.html",
        "Jobs",
        listed,
        {
            "asked": asked,
            "states": STATES,
            "orders": list(ORDERS),
            "distances": (NEAR, FAR),
            "is_empty": not found.total and not any(given.values()),
            "address": ask.address,
            "token_file": ask.token_file,
        },
    )


def job(ask: Ask) -> Page:
    """One job, with its status, progress over time, reads, and the costs of its wagons."""
    found = _job(ask.room, ask.path("job"))
    lines, compared = [], []
    if found.record is not None:
        lines = summary(found.record, advise_job(found.record))
        compared = beside_reference(found.record, ask.room.watched())
    extra = {"charts": job_charts(found), "summary": lines, "compared": compared}
    return Page("job.html", found.row.identity.name or "job", found, extra)


def job_charts(found: JobDetails) -> list[Chart]:
    """Return the charts of a job over time. Only the record of an ended job says when its processes were at work."""
    if found.record is None:
        return throughput_charts(found.points, found.points[-1].t_s if found.points else 0.0)
    return charts_over_time(replace(found.record, timeline=found.record.timeline or found.points))


def job_files(ask: Ask) -> Page:
    """The files that a job has read, with paging."""
    found = _job(ask.room, ask.path("job"))
    first, count = ask.number("first"), min(ask.number("count", ROWS), FILES_PAGE_MAX)
    files = ask.room.files(found.row.identity.job, first, count)
    listed = JobFilesPage(found.row.identity.job, first, count, files)
    return Page("job_files.html", f"Files of {found.row.identity.name or 'a job'}", listed)


async def job_report(request: Request) -> Response:
    """Return a job's report. The report has no plots of results, because the control room only has the job's record."""
    ask = Ask(request)
    html = await run_in_threadpool(_report_html, ask.room, ask.path("job"))
    return HTMLResponse(html, headers={"Content-Security-Policy": STRANGER_POLICY})


def _report_html(room: ControlRoom, job: str) -> str:
    found = _job(room, job)
    if found.record is None:
        raise HTTPException(404, "the job has not ended yet; its report will be available then")
    results = [replace(one, picture=None) for one in found.record.results]
    record = replace(found.record, files=room.files(job).files, results=results)
    return page_html(record, Path(), advise_job(record))


def _job(room: ControlRoom, job: str) -> JobDetails:
    found = room.job(job)
    if found is None:
        raise HTTPException(404, "no job with this name has reported")
    return found
