"""Measures the round trip of a link like a ping, which includes the delay of the proxy on a busy machine."""

from __future__ import annotations

import socket
import statistics
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from branchline._core import Proxy

PINGS = 15
WAIT_S = 60.0
_PING = b"p"


def round_trip_seen(throttle: str) -> float:
    """Return the mean seconds of several round trips through a proxy with this throttle."""
    with _echo() as port:
        proxy = Proxy("127.0.0.1:0", f"127.0.0.1:{port}", throttle, None)
        try:
            with socket.create_connection(("127.0.0.1", proxy.port), timeout=WAIT_S) as client:
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                # The first round trip also waits for the proxy's connection.
                _ping(client)
                return statistics.fmean(_ping(client) for _ in range(PINGS))
        finally:
            proxy.close()


def _ping(client: socket.socket) -> float:
    begin_s = time.perf_counter()
    client.sendall(_PING)
    client.recv(1)
    return time.perf_counter() - begin_s


@contextmanager
def _echo() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(WAIT_S)
        thread = threading.Thread(target=_answer, args=(server,), daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(WAIT_S)


def _answer(server: socket.socket) -> None:
    connection, _ = server.accept()
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while asked := connection.recv(1):
            connection.sendall(asked)
