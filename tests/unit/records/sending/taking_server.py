"""A server for reports in this process, that answers as a test wants it to, and keeps what it took."""

from __future__ import annotations

import gzip
import json
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from branchline.records.sending.address import REPORTS_PATH
from branchline.records.sending.message import ReportBatch


@dataclass
class Reply:
    """What is answered: nothing for so long, then this. ``is_closing``: the connection is closed instead."""

    status: int = 200
    body: bytes | None = None
    headers: dict[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    is_closing: bool = False


@dataclass(eq=False)
class TakingServer:
    """Takes each number of a source once, as a control room does. ``reply`` is called with the number of the request
    and the batch; None: it is taken. ``held`` is a socket of a `closed_port` at which it serves from now on.
    """

    reply: Callable[[int, ReportBatch], Reply | None] = lambda number, batch: None
    tls: ssl.SSLContext | None = None
    held: socket.socket | None = None
    batches: list[ReportBatch] = field(default_factory=list)
    authorizations: list[str | None] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    requests: int = 0
    connections: int = 0
    _open: list[socket.socket] = field(default_factory=list)

    def __enter__(self) -> TakingServer:
        outer, lock, known = self, threading.Lock(), set[tuple[str, str, int]]()

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def setup(self) -> None:
                super().setup()
                with lock:
                    outer.connections += 1
                    outer._open.append(self.connection)

            def do_POST(self) -> None:
                batch = ReportBatch.from_dict(
                    json.loads(gzip.decompress(self.rfile.read(int(self.headers["Content-Length"]))))
                )
                with lock:
                    number, outer.requests = outer.requests, outer.requests + 1
                    outer.authorizations.append(self.headers["Authorization"])
                    outer.paths.append(self.path)
                assert self.headers["Content-Encoding"] == "gzip"
                reply = outer.reply(number, batch)
                if reply is None:
                    key = (batch.identity.job, batch.source, batch.number)
                    with lock:
                        is_new = key not in known
                        known.add(key)
                        if is_new:
                            outer.batches.append(batch)
                    reply = Reply(body=json.dumps({"taken": is_new}).encode())
                time.sleep(reply.wait_s)
                if reply.is_closing:
                    self.close_connection = True
                    return
                self.send_response(reply.status)
                for name, value in reply.headers.items():
                    self.send_header(name, value)
                body = b'{"error": "no"}' if reply.body is None else reply.body
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: object, client_address: object) -> None:
                """Clients of these tests go away."""

        if self.held is None:
            self._server = Server(("127.0.0.1", 0), Handler)
        else:
            # Its port is never free, or another connection might take it: even one of a job to itself.
            self._server = Server(self.held.getsockname(), Handler, bind_and_activate=False)
            self._server.socket.close()
            self._server.socket = self.held
            self._server.server_activate()
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self.port: int = self._server.socket.getsockname()[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def close_connections(self) -> None:
        """Close the connections that clients hold."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    @property
    def url(self) -> str:
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    @property
    def path(self) -> str:
        return REPORTS_PATH


@contextmanager
def closed_port() -> Iterator[tuple[socket.socket, str]]:
    """A socket that holds a port at which nobody listens and that nobody else gets meanwhile, and its address."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield held, f"http://127.0.0.1:{held.getsockname()[1]}"


def until(is_so: Callable[[], object], within_s: float = 60.0) -> None:
    """Waits until something is so."""
    end_s = time.monotonic() + within_s
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.01)
