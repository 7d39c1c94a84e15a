"""The route by which jobs report."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from branchline.base.limits import REPORT_WAIT_S, RETRY_AFTER_S
from branchline.control.room import ControlRoom
from branchline.control.web.bodies import plain_body
from branchline.records.sending.message import ReportBatch
from branchline.records.sensors.job_measures import MEASURES_FIELD


async def take_report(request: Request) -> Response:
    """Takes one batch of a job: ``{"taken": true}``, or false if it was taken before; and what the job is to obey."""
    content = await request.body()
    turns: asyncio.Semaphore = request.app.state.report_turns
    try:
        async with asyncio.timeout(REPORT_WAIT_S):
            await turns.acquire()
    except TimeoutError:
        return JSONResponse({"error": "too many jobs report at once"}, 429, {"Retry-After": str(RETRY_AFTER_S)})
    try:
        answer = await run_in_threadpool(_taken, request, content)
    except ValueError as error:
        return JSONResponse({"error": str(error)}, 400)
    finally:
        turns.release()
    return JSONResponse(answer)


def _taken(request: Request, content: bytes) -> Mapping[str, object]:
    try:
        plain = json.loads(plain_body(content, request.headers))
    except RecursionError:
        raise ValueError("the batch is nested too deeply") from None
    if not isinstance(plain, dict):
        raise ValueError("a batch is an object of JSON")
    room: ControlRoom = request.app.state.room
    reporter = request.state.person.name if request.app.state.is_shared else ""
    batch = ReportBatch.from_dict(plain)
    taken = room.take(batch, reporter)
    told = room.measures.told(batch.identity.job)
    return {"taken": taken, MEASURES_FIELD: told.as_dict()} if told.in_force else {"taken": taken}
