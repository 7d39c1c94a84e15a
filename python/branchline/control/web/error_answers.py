"""HTTP responses for errors: an invalid request, a problem of the control room, or an internal error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from starlette.responses import PlainTextResponse, Response

from branchline.base.limits import RETRY_AFTER_S
from branchline.control.background_errors import print_fault
from branchline.control.room_errors import ConflictError, DatabaseError, NoSuchEntryError, RefusedError
from branchline.errors import BranchlineError, InternalError, StorageError

_STATUS: dict[type[BranchlineError], int] = {
    RefusedError: 403,
    NoSuchEntryError: 404,
    ConflictError: 409,
}
_WRONG, _FAULT, _UNAVAILABLE = 400, 500, 503
#: Prefix of paths for scripts, whose error responses are JSON.
_API = "/api/"
FAULT_SENTENCE = "This is an internal error in Branchline: please report it, with the output of the server."
_OF_ROOM = (
    "This is a problem of the control room, not of your request. Its administrator has to fix it. Try again later. Jobs"
    " keep their reports until then and send them again."
)


@dataclass(frozen=True)
class ErrorResponse:
    """An error response: the HTTP status, the title and sentence of the error page, and ``advice`` on what to do."""

    status: int
    title: str
    sentence: str
    advice: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def for_people(self) -> str:
        """The sentence, followed by the advice."""
        return f"{self.sentence}. {self.advice}" if self.advice else self.sentence

    def plain(self, path: str) -> Response:
        """Return the response without an error page: as JSON if the path is for scripts, otherwise as plain text."""
        if path.startswith(_API) or "json" in path:
            content = json.dumps({"error": self.sentence})
            return Response(content, self.status, self.headers, "application/json")
        return PlainTextResponse(f"{self.for_people}\n", self.status, self.headers)


def failure_of(error: BranchlineError, asked: str, folder: Path | None = None) -> ErrorResponse:
    """Return the response for an error. ``asked`` is the request's name in the log of internal errors.

    A storage error below ``folder`` is a problem of the control room's own disk and not of the request.
    """
    if isinstance(error, InternalError):
        print_fault(error, asked)
        return ErrorResponse(_FAULT, "A fault", str(error))
    if isinstance(error, DatabaseError) or _is_below(error, folder):
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return ErrorResponse(_UNAVAILABLE, "The control room cannot do this now", str(error), _OF_ROOM, headers)
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), _WRONG)
    return failure_with(status, str(error))


def failure_with(status: int, sentence: str) -> ErrorResponse:
    """Return the error response with a given HTTP status and sentence."""
    return ErrorResponse(status, "This did not work" if status < _FAULT else "A fault", sentence)


def _is_below(error: BranchlineError, folder: Path | None) -> bool:
    is_of_disk = folder is not None and isinstance(error, StorageError) and error.path is not None
    return is_of_disk and Path(str(error.path)).is_relative_to(str(folder))
