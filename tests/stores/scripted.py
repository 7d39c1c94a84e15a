"""Servers that do what no real one should: they answer as a test says, to show that nothing hangs or is believed."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

# Gets the number of the connection and the connection.
Script = Callable[[int, socket.socket], None]


class Scripted:
    """A server on a free port of the loopback that runs a script for each connection."""

    def __init__(self, script: Script) -> None:
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self.connections = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._closed.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            number = self.connections
            self.connections += 1
            threading.Thread(target=self._serve, args=(number, connection), daemon=True).start()

    def _serve(self, number: int, connection: socket.socket) -> None:
        connection.settimeout(30)
        # The client may go away, as it should.
        with connection, suppress(OSError):
            self._script(number, connection)

    def close(self) -> None:
        self._closed.set()
        self._listener.close()


@contextmanager
def scripted(script: Script) -> Iterator[Scripted]:
    server = Scripted(script)
    try:
        yield server
    finally:
        server.close()


@dataclass(frozen=True)
class HttpRequest:
    """A request without a body; the names of ``headers`` are in small letters."""

    method: str
    target: str
    headers: dict[str, str]

    def span(self) -> range | None:
        """The bytes that it asks for, if it asks for one range."""
        found = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("range", ""))
        return range(int(found[1]), int(found[2]) + 1) if found else None


def next_request(connection: socket.socket) -> HttpRequest | None:
    """The next request; None if there is none."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        if not more:
            return None
        received += more
    first, *lines = received.decode("latin-1").split("\r\n")[:-2]
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
    method, target, _ = first.split(" ")
    return HttpRequest(method, target, headers)


def http_request(connection: socket.socket) -> dict[str, str] | None:
    """The header lines of the next request, names in small letters; None if there is none."""
    request = next_request(connection)
    return None if request is None else request.headers


class HttpServer:
    """A script that answers each request by a function, and keeps the requests. With ``closes`` it closes the
    connection after each answer.
    """

    def __init__(self, answer: Callable[[HttpRequest], bytes], closes: bool = False) -> None:
        self._answer = answer
        self._closes = closes
        self.requests: list[HttpRequest] = []

    def __call__(self, _: int, connection: socket.socket) -> None:
        while (request := next_request(connection)) is not None:
            self.requests.append(request)
            connection.sendall(self._answer(request))
            if self._closes:
                return

    def count(self, method: str) -> int:
        """The number of requests of this method."""
        return sum(one.method == method for one in self.requests)


def http_answer(status: str, *headers: str, body: bytes = b"") -> bytes:
    """An answer with its length in the header, unless a line of ``headers`` says how long it is."""
    names = {line.split(":")[0].lower() for line in headers}
    length = [] if names & {"content-length", "transfer-encoding"} else [f"Content-Length: {len(body)}"]
    return "\r\n".join([f"HTTP/1.1 {status}", *headers, *length, "", ""]).encode("latin-1") + body
