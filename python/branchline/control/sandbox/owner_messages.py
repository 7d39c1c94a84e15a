"""What the server and the process that works as a train's owner say to each other, as JSON through pipes.

Both are of one installed Branchline, and the process is a new one for each call: the forms need no version.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace

from branchline.base.plain import check_types, from_plain, to_plain
from branchline.records.sensors.status import TrainStatus


@dataclass(frozen=True)
class StartRequest:
    """The sources of a train by their names in its folder, and the words of its command."""

    sources: dict[str, str]
    command: list[str]

    def as_json(self) -> bytes:
        """As it is sent."""
        return json.dumps(to_plain(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> StartRequest:
        """Raises ValueError for anything else."""
        request: StartRequest = from_plain(cls, json.loads(content))
        check_types(request)
        return request


@dataclass(frozen=True)
class OwnerAnswer:
    """How a train stands, as its owner sees it, or a sentence on why something cannot be done (``error``). Of a train
    that has not begun all are empty.
    """

    status: TrainStatus | None = None
    log: str = ""
    is_alive: bool = False
    can_resume: bool = False
    error: str = field(default="", kw_only=True)

    def as_json(self) -> str:
        """As it is sent."""
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, content: bytes) -> OwnerAnswer:
        """Raises ValueError for anything else, which says what of it cannot be read: the process is another user's,
        who may have it say what they like.
        """
        try:
            plain = json.loads(content)
        except (ValueError, RecursionError):
            raise ValueError("it is no JSON") from None
        if not isinstance(plain, dict):
            raise ValueError("it is no object of JSON")
        status = plain.pop("status", None)
        try:
            found = None if status is None else TrainStatus.from_dict(status)
            if found is not None:
                check_types(found)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"its status cannot be read: {error}") from None
        answer: OwnerAnswer = from_plain(cls, plain)
        check_types(answer)
        return replace(answer, status=found)
