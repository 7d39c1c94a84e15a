"""Sends reports to a control room over HTTP, and says what became of each.

Every wait on the connection has an end, and the token goes to no other server.
"""

from __future__ import annotations

import base64
import enum
import http.client
import io
import ipaddress
import json
import os
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from branchline.base.limits import (
    REPORT_ANSWER_BYTES,
    REPORT_ANSWER_S,
    REPORT_INTERVAL_S,
    REPORT_PAUSE_MAX_S,
    REPORT_RETRY_AFTER_MAX_S,
)
from branchline.records.sending.address import ReportTarget, TokenError
from branchline.records.sensors.this_process import branchline_version

#: One address, as the resolver of the system returns it.
_Address = tuple[socket.AddressFamily, socket.SocketKind, int, str, Any]
_OK, _BAD_REQUEST, _UNAUTHORIZED, _FORBIDDEN, _NOT_FOUND, _TOO_LARGE, _TOO_MANY = 200, 400, 401, 403, 404, 413, 429
_REDIRECTS, _SERVER_ERRORS = range(300, 400), range(500, 600)
_UNAVAILABLE = 503
#: Letters of a server's sentence that are shown.
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


# --- the connection ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """What the server answered. ``retry_after_s`` is the pause that it asks for, None where it asks for none."""

    status: int
    body: bytes
    retry_after_s: float | None = None


class UnreachableError(Exception):
    """There is no answer; the message says why, in the words of a sentence."""


class Deadline:
    """The end of all waits of a request, by ``time.monotonic``; it may come nearer while one waits."""

    def __init__(self, end_s: float) -> None:
        self.end_s = end_s

    def left_s(self) -> float:
        """The seconds that are left. Raises TimeoutError after the end."""
        left_s = self.end_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError("there was no answer in time")
        return left_s


class Connection:
    """Sends reports to a control room, one after the other over one connection while the server holds it."""

    def __init__(self, target: ReportTarget) -> None:
        self._target = target
        self._names = _Names()
        self._socket: _BoundedSocket | None = None

    def post(self, body: bytes, authorization: str | None, deadline: Deadline) -> Answer:
        """Sends a report. No redirect is followed. Raises UnreachableError."""
        is_used = self._socket is not None
        try:
            return self._post(body, authorization, deadline)
        except _NameTimeoutError as error:
            self.close()
            raise UnreachableError(str(error)) from None
        except TimeoutError:
            self.close()
            raise UnreachableError("it did not answer in time") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            self.close()
            # Servers close connections that wait: not an error of this request, which may be sent again.
            if is_used and not isinstance(error, ssl.SSLError):
                return self.post(body, authorization, deadline)
            raise UnreachableError(_reason(error)) from None

    def close(self) -> None:
        """Closes the connection; the next report opens another one."""
        if self._socket is not None:
            with suppress(OSError):
                self._socket.close()
            self._socket = None

    def _post(self, body: bytes, authorization: str | None, deadline: Deadline) -> Answer:
        if self._socket is None:
            self._socket = self._connected(deadline)
        self._socket.deadline = deadline
        lines = [
            f"POST {self._target.path} HTTP/1.1",
            f"Host: {_in_url(self._target.host)}:{self._target.port}",
            f"User-Agent: branchline/{branchline_version()}",
            "Content-Type: application/json",
            "Content-Encoding: gzip",
            f"Content-Length: {len(body)}",
            "Accept: application/json",
            *([f"Authorization: {authorization}"] if authorization else []),
        ]
        # A server may answer before it has read all, as with 413, and close: what it said counts.
        refusal: OSError | None = None
        try:
            self._socket.sendall(_head(lines) + body)
        except TimeoutError:
            raise
        except OSError as error:
            refusal = error
        try:
            answer, holds = _answer(self._socket, "POST")
        except (OSError, http.client.HTTPException):
            if refusal is None:
                raise
            raise refusal from None
        if refusal is not None or not holds:
            self.close()
        return answer

    def _connected(self, deadline: Deadline) -> _BoundedSocket:
        target = self._target
        proxy = _proxy_for(target)
        host, port = (target.host, target.port) if proxy is None else (proxy.host, proxy.port)
        bounded = _BoundedSocket(_open(self._names.addresses(host, port, deadline), deadline), deadline)
        try:
            if proxy is not None:
                _connect_through(bounded, target, proxy)
            if target.scheme == "https":
                bounded.raw.settimeout(deadline.left_s())
                bounded.raw = _context().wrap_socket(bounded.raw, server_hostname=target.host)
        except BaseException:
            bounded.close()
            raise
        return bounded


def _head(lines: list[str]) -> bytes:
    return "\r\n".join([*lines, "", ""]).encode("ascii", errors="replace")


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _answer(bounded: _BoundedSocket, method: str) -> tuple[Answer, bool]:
    """An answer, and whether the connection may be used again."""
    response = http.client.HTTPResponse(bounded, method=method)  # type: ignore[arg-type]  # it needs makefile alone
    response.begin()
    if method == "CONNECT" and response.status == _OK:
        return Answer(response.status, b""), True
    body = response.read(REPORT_ANSWER_BYTES)
    holds = not response.will_close and response.isclosed()
    return Answer(response.status, body, _pause_s(response.getheader("Retry-After"))), holds


def _pause_s(text: str | None) -> float | None:
    """Seconds of a Retry-After. One with a date asks for a pause, too; the usual one will do."""
    return float(text) if text is not None and text.isascii() and text.isdecimal() and len(text) < 10 else None


def _reason(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, socket.gaierror):
        return f"its name is not known: {error.strerror}"
    if isinstance(error, http.client.HTTPException):
        return f"it did not answer as a control room does ({type(error).__name__})"
    if isinstance(error, OSError):
        return str(error.strerror or error)
    return str(error)


class _NameTimeoutError(TimeoutError):
    """The name of a host was not looked up in time."""


class _Names:
    """Addresses of hosts. The resolver of the system may take minutes where a server of names is silent, and nothing
    can interrupt it: it works in a thread, which is one at a time however often it is asked.
    """

    def __init__(self) -> None:
        self._asked: tuple[str, int] | None = None
        self._found: queue.SimpleQueue[Sequence[_Address] | OSError] = queue.SimpleQueue()

    def addresses(self, host: str, port: int, deadline: Deadline) -> Sequence[_Address]:
        """Those of a host. Raises OSError if it has none, TimeoutError if that is not known before the end."""
        with suppress(socket.gaierror):
            return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
        if self._asked != (host, port):
            self._asked, self._found = (host, port), queue.SimpleQueue()
            work = partial(_resolve, host, port, self._found)
            threading.Thread(target=work, name="branchline-report-names", daemon=True).start()
        try:
            found = self._found.get(timeout=deadline.left_s())
        except (queue.Empty, TimeoutError):
            raise _NameTimeoutError(f"the name {host} was not looked up in time") from None
        self._asked = None
        if isinstance(found, OSError):
            raise found
        return found


def _resolve(host: str, port: int, found: queue.SimpleQueue[Sequence[_Address] | OSError]) -> None:
    try:
        found.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
    except OSError as error:
        found.put(error)


class _BoundedSocket(io.RawIOBase):
    """A socket of which all waits together end at the deadline. A timeout of the system is for each of them."""

    def __init__(self, raw: socket.socket, deadline: Deadline) -> None:
        self.raw, self.deadline = raw, deadline

    def sendall(self, content: bytes) -> None:
        """Sends all."""
        left = memoryview(content).cast("B")
        while left:
            self.raw.settimeout(self.deadline.left_s())
            left = left[self.raw.send(left) :]

    def makefile(self, *_: object, **__: object) -> io.BufferedReader:
        """A reader for an answer."""
        return io.BufferedReader(_Incoming(self))

    def close(self) -> None:
        """Closes the connection."""
        self.raw.close()


class _Incoming(io.RawIOBase):
    """What comes in."""

    def __init__(self, connection: _BoundedSocket) -> None:
        self._connection = connection

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Waits for some bytes."""
        self._connection.raw.settimeout(self._connection.deadline.left_s())
        return self._connection.raw.recv_into(buffer)


def _open(addresses: Sequence[_Address], deadline: Deadline) -> socket.socket:
    """A connection to the first address that accepts one."""
    failed: OSError | None = None
    for family, kind, protocol, _, address in addresses:
        raw = socket.socket(family, kind, protocol)
        try:
            raw.settimeout(deadline.left_s())
            raw.connect(address)
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        except OSError as error:
            raw.close()
            failed = error
        else:
            return raw
    raise failed or OSError("it has no address")


def _context() -> ssl.SSLContext:
    """Trusts the authorities of the system, or those of SSL_CERT_FILE and SSL_CERT_DIR, and those of the grid."""
    context = ssl.create_default_context()
    grid = os.environ.get("X509_CERT_DIR", "")
    if grid:
        context.load_verify_locations(capath=grid)
    return context


# --- proxies ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Proxy:
    host: str
    port: int
    authorization: str | None


def _proxy_for(target: ReportTarget) -> _Proxy | None:
    """The proxy that the environment names for an address; none for this machine."""
    if _is_this_machine(target.host) or proxy_bypass(f"{target.host}:{target.port}"):
        return None
    proxies = getproxies()
    url = proxies.get(target.scheme) or proxies.get("all")
    if not url:
        return None
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("the proxy of the environment is none that is known: write it like http://host:3128")
    credentials = None
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}".encode()
        credentials = f"Basic {base64.b64encode(pair).decode()}"
    return _Proxy(parts.hostname, parts.port or 80, credentials)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _connect_through(bounded: _BoundedSocket, target: ReportTarget, proxy: _Proxy) -> None:
    """Has a proxy connect to the server, also for http: it does not see the token of https, and does not cache."""
    place = f"{_in_url(target.host)}:{target.port}"
    own = [f"Proxy-Authorization: {proxy.authorization}"] if proxy.authorization else []
    bounded.sendall(_head([f"CONNECT {place} HTTP/1.1", f"Host: {place}", *own]))
    answer, _ = _answer(bounded, "CONNECT")
    if answer.status != _OK:
        raise OSError(f"the proxy {proxy.host}:{proxy.port} refuses to connect to it (status {answer.status})")
