"""The route by which jobs report."""

from __future__ import annotations

import json

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from branchline.control.room import ControlRoom
from branchline.sensors.batch import ReportBatch
from branchline.web.bodies import body_of


async def take_report(request: Request) -> Response:
    """Takes one batch of a job: ``{"taken": true}``, or false if it was taken before."""
    content = await body_of(request)
    room: ControlRoom = request.app.state.room
    try:
        taken = await run_in_threadpool(_taken, room, content)
    except ValueError as error:
        return JSONResponse({"error": str(error)}, 400)
    return JSONResponse({"taken": taken})


def _taken(room: ControlRoom, content: bytes) -> bool:
    try:
        plain = json.loads(content)
    except RecursionError:
        raise ValueError("the batch is nested too deeply") from None
    if not isinstance(plain, dict):
        raise ValueError("a batch is an object of JSON")
    return room.take(ReportBatch.from_dict(plain))
