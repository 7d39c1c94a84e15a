"""The profile of a trial, to be downloaded."""

from __future__ import annotations

import json

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from branchline.control.room import ControlRoom
from branchline.control.trials.profiles import is_whole, speedscope
from branchline.control.web.pages.page import Ask


async def trial_profile(request: Request) -> Response:
    """The profiles of the wagons of a trial, in speedscope's format."""
    ask = Ask(request)
    content = await run_in_threadpool(_content, ask.room, ask.path_number("number"))
    name = f'attachment; filename="trial-{ask.path("number")}.speedscope.json"'
    return Response(content, media_type="application/json", headers={"Content-Disposition": name})


def _content(room: ControlRoom, number: int) -> bytes:
    trial = room.trials.trial(number)
    wagons = [one for one in (trial.outcome.wagons if trial.outcome else []) if one.profile and is_whole(one.profile)]
    if not wagons:
        raise HTTPException(404, "This trial has no profile.")
    return json.dumps(speedscope(f"{trial.wagon} on {trial.dataset}", wagons)).encode()
