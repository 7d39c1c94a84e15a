"""What an error is to who asked: a request that is wrong, a trouble of the control room, or a fault of Branchline."""

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
#: Addresses of scripts, which get what went wrong as JSON.
_API = "/api/"
FAULT_SENTENCE = "This is a fault of Branchline: please report it, with what the server printed."
_OF_ROOM = (
    "This is a trouble of the control room, and nothing is wrong with what you asked for. Try again later; those who"
    " run it have to mend it. Jobs keep their reports until then, and send them again."
)


@dataclass(frozen=True)
class Failure:
    """An answer that is none: its status, the head and the sentence of its page. ``advice`` is what people may do."""

    status: int
    title: str
    sentence: str
    advice: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def for_people(self) -> str:
        """The sentence, with the advice."""
        return f"{self.sentence}. {self.advice}" if self.advice else self.sentence

    def plain(self, path: str) -> Response:
        """The answer to scripts, or to who is not known: JSON at addresses of scripts, text elsewhere."""
        if path.startswith(_API) or "json" in path:
            content = json.dumps({"error": self.sentence})
            return Response(content, self.status, self.headers, "application/json")
        return PlainTextResponse(f"{self.for_people}\n", self.status, self.headers)


def failure_of(error: BranchlineError, asked: str, folder: Path | None = None) -> Failure:
    """What an error is to who ``asked``. Errors of storages below ``folder`` are those of the control room's own disk.
    A fault of Branchline is printed, too.
    """
    if isinstance(error, InternalError):
        print_fault(error, asked)
        return Failure(_FAULT, "A fault", str(error))
    if isinstance(error, DatabaseError) or _is_below(error, folder):
        headers = {"Retry-After": str(RETRY_AFTER_S)}
        return Failure(_UNAVAILABLE, "The control room cannot do this now", str(error), _OF_ROOM, headers)
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), _WRONG)
    return failure_with(status, str(error))


def failure_with(status: int, sentence: str) -> Failure:
    """One with a status that is known."""
    return Failure(status, "This did not work" if status < _FAULT else "A fault", sentence)


def _is_below(error: BranchlineError, folder: Path | None) -> bool:
    is_of_disk = folder is not None and isinstance(error, StorageError) and error.path is not None
    return is_of_disk and Path(str(error.path)).is_relative_to(str(folder))
