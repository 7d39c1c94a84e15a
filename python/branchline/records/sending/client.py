"""Sends reports to a control room, and says what became of each."""

from __future__ import annotations

import enum
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from branchline.base.limits import REPORT_ANSWER_S, REPORT_INTERVAL_S, REPORT_PAUSE_MAX_S, REPORT_RETRY_AFTER_MAX_S
from branchline.records.sending.address import ReportTarget, TokenError
from branchline.records.sending.connection import Answer, Connection, Deadline, UnreachableError

_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_LARGE, _TOO_MANY = 200, 400, 401, 403, 404, 413, 429
_REDIRECTS, _SERVER_ERRORS = range(300, 400), range(500, 600)
_UNAVAILABLE = 503
#: What is shown of the sentence of a server.
_SENTENCE_MAX = 200


class Fate(enum.Enum):
    """What became of a report."""

    TAKEN = "taken"  # the server has it, now or from before
    REFUSED = "refused"  # it would be refused again
    FAILED = "failed"  # the server failed at it
    LATER = "later"  # it cannot be sent now, nor can others


@dataclass(frozen=True)
class Outcome:
    """What became of a report, and why in the words of a sentence. ``pause_s`` is a pause that the server asks for,
    ``answer`` what it said to a report that it took.
    """

    fate: Fate
    why: str = ""
    pause_s: float | None = None
    answer: bytes = field(default=b"", repr=False)


class Sender:
    """Sends to one control room. After a failure ``pause_s`` grows, until a report is taken. ``answered`` gets what the
    server says to each report that it takes.
    """

    def __init__(self, target: ReportTarget, answered: Callable[[bytes], None] | None = None) -> None:
        self.target = target
        self._answered = answered
        self.pause_s = 0.0
        self._connection = Connection(target)
        self._end_s = float("inf")
        self._deadline: Deadline | None = None

    def end_by(self, end_s: float) -> None:
        """No wait goes on after this time by ``time.monotonic``, from the next one on."""
        self._end_s = end_s
        if self._deadline is not None:
            self._deadline.end_s = min(self._deadline.end_s, end_s)

    def send(self, body: bytes) -> Outcome:
        """Sends a report, and waits for the answer."""
        deadline = self._deadline = Deadline(min(time.monotonic() + REPORT_ANSWER_S, self._end_s))
        try:
            answer = self._connection.post(body, self.target.authorization(), deadline)
            outcome = _outcome(answer)
        except (UnreachableError, TokenError) as error:
            outcome = Outcome(Fate.LATER, str(error))
        if outcome.fate is Fate.TAKEN:
            self.pause_s = 0.0
            if self._answered is not None:
                self._answered(outcome.answer)
        elif outcome.fate is not Fate.REFUSED:
            longer_s = min(max(REPORT_INTERVAL_S, 2 * self.pause_s), REPORT_PAUSE_MAX_S)
            self.pause_s = max(longer_s, min(outcome.pause_s or 0.0, REPORT_RETRY_AFTER_MAX_S))
        return outcome

    def close(self) -> None:
        """Closes the connection; the next report opens another one."""
        self._connection.close()


def _outcome(answer: Answer) -> Outcome:
    status = answer.status
    if status == _OK:
        return (
            Outcome(Fate.TAKEN, answer=answer.body)
            if _is_taken(answer)
            else Outcome(Fate.LATER, "what answers there is no control room")
        )
    if status in (_BAD_REQUEST, _TOO_LARGE):
        return Outcome(Fate.REFUSED, _sentence(answer) or f"status {status}")
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        return Outcome(Fate.LATER, f"it does not take the token (status {status}): look at BRANCHLINE_REPORT_TOKEN")
    if status in (_TOO_MANY, _UNAVAILABLE):
        sentence = _sentence(answer)
        why = f"it cannot take reports now: {sentence}" if sentence else f"it is busy (status {status})"
        return Outcome(Fate.LATER, why, answer.retry_after_s)
    if status in _REDIRECTS:
        return Outcome(Fate.LATER, f"it refers to another address (status {status}): give that one")
    if status in _SERVER_ERRORS:
        return Outcome(Fate.FAILED, f"it failed (status {status})", answer.retry_after_s)
    if status == _NOT_FOUND:
        return Outcome(Fate.LATER, "what answers there is no control room (status 404)")
    return Outcome(Fate.LATER, f"it answered with status {status}")


def _is_taken(answer: Answer) -> bool:
    """Whether the answer is that of a control room, and not a page of a portal that answers for it."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("taken"), bool)


def _sentence(answer: Answer) -> str:
    """The sentence of the server, as it may be shown in a terminal."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return ""
    error = found.get("error") if isinstance(found, dict) else None
    return "".join(one for one in str(error or "") if one.isprintable())[:_SENTENCE_MAX]
