"""Sends reports to a control room over HTTP and returns the outcome of each report.

Every wait has a timeout. The token is sent only to the control room; if the URL starts with ``http://``, a proxy from
the environment can read it too.
"""

from __future__ import annotations

import enum
import ipaddress
import json
import os
import socket
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx

from branchline.base.environment import REPORT_TOKEN
from branchline.base.limits import (
    REPORT_ANSWER_BYTES,
    REPORT_ANSWER_S,
    REPORT_INTERVAL_S,
    REPORT_PAUSE_MAX_S,
    REPORT_RETRY_AFTER_MAX_S,
)
from branchline.records.sending.address import ReportTarget, TokenError
from branchline.records.sensors.this_process import branchline_version

_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_LARGE, _TOO_MANY = 200, 400, 401, 403, 404, 413, 429
_REDIRECTS, _SERVER_ERRORS = range(300, 400), range(500, 600)
_UNAVAILABLE = 503
#: Maximum number of characters of a server's error message that are shown.
_SENTENCE_MAX = 200


class Fate(enum.Enum):
    """The outcome of sending a report."""

    TAKEN = "taken"  # the server stored the report, from this or an earlier attempt
    REFUSED = "refused"  # the server rejects the report permanently
    FAILED = "failed"  # the server had an internal error (status 5xx) when it handled the report
    LATER = "later"  # no report can be sent at the moment


@dataclass(frozen=True)
class Outcome:
    """The outcome of sending a report.

    ``why`` is the reason as a sentence, ``pause_s`` the retry delay that the server requested, and ``answer`` the
    server's response to an accepted report.
    """

    fate: Fate
    why: str = ""
    pause_s: float | None = None
    answer: bytes = field(default=b"", repr=False)


class Sender:
    """Sends reports to one control room.

    After failures, the delay ``pause_s`` grows until a report is accepted. ``answered`` is called with the response to
    each accepted report.
    """

    def __init__(self, target: ReportTarget, answered: Callable[[bytes], None] | None = None) -> None:
        self.target = target
        self._answered = answered
        self.pause_s = 0.0
        self._connection = Connection(target)
        self._end_s = float("inf")

    def end_by(self, end_s: float) -> None:
        """Set the deadline (``time.monotonic``) of the current wait and all later waits."""
        self._end_s = end_s
        self._connection.end_by(end_s)

    def send(self, body: bytes) -> Outcome:
        """Send a report and wait for the response."""
        end_s = min(time.monotonic() + REPORT_ANSWER_S, self._end_s)
        try:
            answer = self._connection.post(body, self.target.authorization(), end_s)
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
        """Close the connection; the next report opens another one."""
        self._connection.close()


def _outcome(answer: Answer) -> Outcome:
    status = answer.status
    if status == _OK:
        return (
            Outcome(Fate.TAKEN, answer=answer.body)
            if _is_taken(answer)
            else Outcome(Fate.LATER, "the server is not a control room")
        )
    if status in (_BAD_REQUEST, _TOO_LARGE):
        return Outcome(Fate.REFUSED, _sentence(answer) or f"status {status}")
    if status in (_UNAUTHORIZED, _FORBIDDEN):
        return Outcome(Fate.LATER, f"it rejects the token (status {status}): check {REPORT_TOKEN}")
    if status in (_TOO_MANY, _UNAVAILABLE):
        sentence = _sentence(answer)
        why = f"it cannot accept reports now: {sentence}" if sentence else f"it is busy (status {status})"
        return Outcome(Fate.LATER, why, answer.retry_after_s)
    if status in _REDIRECTS:
        return Outcome(Fate.LATER, f"it redirects to another address (status {status}): use that address")
    if status in _SERVER_ERRORS:
        return Outcome(Fate.FAILED, f"it failed (status {status})", answer.retry_after_s)
    if status == _NOT_FOUND:
        return Outcome(Fate.LATER, "the server is not a control room (status 404)")
    return Outcome(Fate.LATER, f"it answered with status {status}")


def _is_taken(answer: Answer) -> bool:
    """Return whether a response comes from a control room rather than, for example, from a captive portal."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return False
    return isinstance(found, dict) and isinstance(found.get("taken"), bool)


def _sentence(answer: Answer) -> str:
    """Return the server's error message in a form that is safe to print to a terminal."""
    try:
        found = json.loads(answer.body)
    except (ValueError, RecursionError):
        return ""
    error = found.get("error") if isinstance(found, dict) else None
    return "".join(one for one in str(error or "") if one.isprintable())[:_SENTENCE_MAX]


# --- the connection ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """A server's response. ``retry_after_s`` is the retry delay that the server requested, or None."""

    status: int
    body: bytes
    retry_after_s: float | None = None


class UnreachableError(Exception):
    """Raised if there was no response; the message is the reason, as a sentence."""


class Connection:
    """Sends reports to a control room, one at a time, over a persistent connection.

    Requests run in a daemon thread so that their total duration can be limited: httpx only limits each read and write,
    and nothing interrupts the system's resolver, which may take minutes if a name server does not respond.
    """

    def __init__(self, target: ReportTarget) -> None:
        self._target = target
        self._client: httpx.Client | None = None
        self._request: _Request | None = None
        self._has_answered = False
        self._end_s = float("inf")
        #: Notified when a request has ended or when the deadline has changed.
        self._changed = threading.Condition()

    def end_by(self, end_s: float) -> None:
        """Set the deadline (``time.monotonic``) of the current wait and all later waits."""
        with self._changed:
            self._end_s = end_s
            self._changed.notify_all()

    def post(self, body: bytes, authorization: str | None, end_s: float) -> Answer:
        """Send a report and return the response. Redirects are not followed.

        ``end_s`` is the deadline (``time.monotonic``). Raises UnreachableError.
        """
        # Waiting for the previous request limits the number of threads to one, even if a name server never responds.
        if self._request is not None and not self._ends(self._request, end_s):
            raise UnreachableError(self._request.why_late())
        try:
            self._client = self._client or _client_for(self._target)
        except httpx.InvalidURL:
            # The exception's message may contain part of a password.
            raise UnreachableError("invalid proxy URL or no_proxy entry in the environment") from None
        except (OSError, ValueError, ImportError) as error:
            raise UnreachableError(_reason(error)) from None
        headers = {
            "User-Agent": f"branchline/{branchline_version()}",
            "Content-Type": "application/json",
            "Content-Encoding": "gzip",
            "Accept": "application/json",
            "Accept-Encoding": "identity",
            **({"Authorization": authorization} if authorization else {}),
        }
        url = f"{self._target.scheme}://{_in_url(self._target.host)}:{self._target.port}{self._target.path}"
        sent = self._client.build_request("POST", url, headers=headers, content=body)
        request = self._request = _Request(self._client, sent, self._changed)
        threading.Thread(target=request.run, name="branchline-report-request", daemon=True).start()
        if not self._ends(request, end_s):
            self.close()
            raise UnreachableError(request.why_late())
        if isinstance(request.outcome, Answer):
            self._has_answered = True
            return request.outcome
        has_answered, failure = self._has_answered, request.outcome
        self.close()
        # Servers close idle connections, so a report that fails on a reused connection is sent again on a new one.
        if has_answered and isinstance(failure, httpx.NetworkError | httpx.RemoteProtocolError):
            return self.post(body, authorization, end_s)
        raise UnreachableError(_reason(failure)) from None

    def close(self) -> None:
        """Close the connection; the next report opens another one."""
        if self._client is not None:
            self._client.close()
        self._client, self._has_answered = None, False

    def _ends(self, request: _Request, end_s: float) -> bool:
        """Wait for a request; return whether it ended before the deadline."""
        with self._changed:
            while not request.has_ended:
                left_s = min(end_s, self._end_s) - time.monotonic()
                if left_s <= 0:
                    return False
                self._changed.wait(left_s)
        return True


class _Request:
    """A request that runs in its own thread, so that the caller can stop waiting for it."""

    def __init__(self, client: httpx.Client, request: httpx.Request, changed: threading.Condition) -> None:
        self._client, self._request, self._changed = client, request, changed
        self.has_ended = False
        self.outcome: Answer | Exception = UnreachableError("the request was not sent")
        self._is_connecting = False
        request.extensions["trace"] = self._trace

    def run(self) -> None:
        """Send the request, and store its response or its error."""
        try:
            self.outcome = self._answer()
        except Exception as error:  # noqa: BLE001 - raised in the waiting thread
            self.outcome = error
        with self._changed:
            self.has_ended = True
            self._changed.notify_all()

    def why_late(self) -> str:
        """Return why the request has not ended yet, as a sentence."""
        if self._is_connecting:
            return f"no connection to {self._request.url.host} was made in time"
        return "it did not answer in time"

    def _answer(self) -> Answer:
        answer = self._client.send(self._request, stream=True)
        try:
            body = bytearray()
            for part in answer.iter_raw():
                body += part
                if len(body) >= REPORT_ANSWER_BYTES:
                    break
            return Answer(answer.status_code, bytes(body), _pause_s(answer.headers.get("Retry-After")))
        finally:
            answer.close()

    def _trace(self, event: str, _: object) -> None:
        if event.startswith("connection.connect_tcp."):
            self._is_connecting = event.endswith(".started")


def _client_for(target: ReportTarget) -> httpx.Client:
    """Return a client that uses the proxies from the environment, except for connections to this machine."""
    # Trust the certificate authorities of the system (or SSL_CERT_FILE and SSL_CERT_DIR) and those of the grid.
    context = ssl.create_default_context()
    grid = os.environ.get("X509_CERT_DIR", "")
    if grid:
        context.load_verify_locations(capath=grid)
    return httpx.Client(
        verify=context,
        trust_env=not _is_this_machine(target.host),
        timeout=REPORT_ANSWER_S,
        limits=httpx.Limits(keepalive_expiry=None),
    )


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _pause_s(text: str | None) -> float | None:
    """Return the seconds in a Retry-After header, or None if there is no header or it contains a date."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else None


def _reason(error: BaseException) -> str:
    if isinstance(error, httpx.ProxyError):
        return f"the proxy refuses to connect to it ({error})"
    # httpx chains the operating system's errors as causes.
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, OSError):
        cause = cause.__cause__ or cause.__context__
    if isinstance(cause, TimeoutError) or isinstance(error, httpx.TimeoutException):
        return "it did not answer in time"
    if isinstance(cause, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {cause.verify_message}"
    if isinstance(cause, socket.gaierror):
        return f"its host name cannot be resolved: {cause.strerror}"
    if isinstance(cause, OSError):
        return str(cause.strerror or cause)
    if isinstance(error, httpx.HTTPError):
        return f"its response was invalid ({type(error).__name__})"
    return str(error)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
