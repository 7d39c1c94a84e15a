"""Files of a train's results, to be looked at and downloaded."""

from __future__ import annotations

from pathlib import Path

from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from branchline.control.room import ControlRoom
from branchline.running.standing import job_of
from branchline.sensors import JobRecord
from branchline.web.pages.page import Ask

#: Types that a browser shows; everything else is downloaded.
PICTURE_TYPES = {"svg": "image/svg+xml", "png": "image/png"}
_SHOWN = {**PICTURE_TYPES, "html": "text/html; charset=utf-8", "json": "application/json", "txt": "text/plain"}
#: What code of users wrote is shown as by a stranger: no script, no cookie, nothing from elsewhere.
STRANGER_POLICY = "sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def record_of(out: Path) -> JobRecord | None:
    """The record of the run; None as long as there is none."""
    return job_of(out)


def files_of(record: JobRecord | None) -> list[str]:
    """The names of the files that a run wrote, relative to its directory."""
    if record is None:
        return []
    tables = [name for one in record.tables for name in one.files]
    return list(dict.fromkeys([*record.written, *tables]))


async def train_file(request: Request) -> Response:
    """One file of a train: only what its record lists, whatever else lies there."""
    ask = Ask(request)
    return await run_in_threadpool(_answer, ask.room, ask.path_number("number"), ask.path("path"))


def _answer(room: ControlRoom, number: int, name: str) -> Response:
    out = room.trains.results(room.trains.train(number))
    path = (out / name).resolve()
    if name not in files_of(record_of(out)) or not path.is_relative_to(out.resolve()) or not path.is_file():
        raise HTTPException(404, "The train has no such file.")
    kind = _SHOWN.get(path.suffix.removeprefix("."))
    headers = {"Content-Security-Policy": STRANGER_POLICY}
    if kind is None:
        return FileResponse(path, media_type="application/octet-stream", filename=path.name, headers=headers)
    return FileResponse(path, media_type=kind, headers=headers)
