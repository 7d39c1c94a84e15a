"""Files of a train's results, to be looked at and downloaded."""

from __future__ import annotations

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from branchline.control.room import ControlRoom
from branchline.control.trains.bundle import bundle
from branchline.control.trains.results import result_file
from branchline.control.web.pages.page import Ask
from branchline.trains.out_folder.state import job_of

#: Types that a browser shows; everything else is downloaded.
PICTURE_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
_SHOWN = {**PICTURE_TYPES, "html": "text/html; charset=utf-8", "json": "application/json", "txt": "text/plain"}
#: What code of users wrote is shown as by a stranger: no script, no cookie, nothing from elsewhere.
STRANGER_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"


async def train_bundle(request: Request) -> Response:
    """The train for other machines, as an archive."""
    ask = Ask(request)
    return await run_in_threadpool(_bundle, ask.room, ask.path_number("number"))


def _bundle(room: ControlRoom, number: int) -> Response:
    train = room.trains.train(number)
    content = bundle(train, room.trains.folder(number), job_of(room.trains.results(train)))
    name = f"train-{number}.zip"
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Content-Security-Policy": STRANGER_POLICY}
    return Response(content, media_type="application/zip", headers=headers)


async def train_file(request: Request) -> Response:
    """One file of a train: only what its record lists, whatever else lies there."""
    ask = Ask(request)
    return await run_in_threadpool(_answer, ask.room, ask.path_number("number"), ask.path("path"))


def _answer(room: ControlRoom, number: int, name: str) -> Response:
    out = room.trains.results(room.trains.train(number))
    path = result_file(out, job_of(out), name)
    if path is None:
        raise HTTPException(404, "The train has no such file.")
    kind = _SHOWN.get(path.suffix.removeprefix("."))
    headers = {"Content-Security-Policy": STRANGER_POLICY}
    if kind is None:
        return FileResponse(path, media_type="application/octet-stream", filename=path.name, headers=headers)
    return FileResponse(path, media_type=kind, headers=headers)
