"""Servers that do what no real one should: they answer as a test says, to show that nothing hangs or is believed."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

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


def http_request(connection: socket.socket) -> dict[str, str] | None:
    """The header lines of the next request, names in small letters; None if there is none."""
    received = b""
    while b"\r\n\r\n" not in received:
        more = connection.recv(65536)
        if not more:
            return None
        received += more
    lines = received.decode("latin-1").split("\r\n")[1:-2]
    return {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
