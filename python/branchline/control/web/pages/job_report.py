"""The report of a job, as it writes it beside its results: drawn from the record that it sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from branchline.control.room import ControlRoom
from branchline.control.web.pages.page import Ask
from branchline.control.web.pages.train_files import STRANGER_POLICY
from branchline.records.diagnosis.job_advice import advise_job
from branchline.records.report.report_page import page_html


async def job_report(request: Request) -> Response:
    """The page, without the pictures of results: they are with the job."""
    ask = Ask(request)
    html = await run_in_threadpool(_html, ask.room, ask.path("job"))
    return HTMLResponse(html, headers={"Content-Security-Policy": STRANGER_POLICY})


def _html(room: ControlRoom, job: str) -> str:
    found = room.job(job)
    if found is None:
        raise HTTPException(404, "No job with this name has reported.")
    if found.record is None:
        raise HTTPException(404, "The job has not ended: its report comes with its end.")
    results = [replace(one, picture=None) for one in found.record.results]
    record = replace(found.record, files=room.files(job).files, results=results)
    return page_html(record, Path(), advise_job(record))
