"""The bare network: bytes over a socket from a host of ours, with no protocol and no disk."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from urllib.parse import urlsplit

from branchline.errors import OptionError
from branchline.lab.sampling.job import Counts, JobRequest

#: Sent and taken at a time: as much as fits well into the kernel's buffers.
_PIECE_BYTES = 2**20
#: Both ends are on this machine: who connects later never does.
_CONNECT_S = 30.0


def bare_socket(request: JobRequest) -> Callable[[list[str]], Counts]:
    """Client socket: ``bytes`` of zeros from address ``host``, which is one of this machine's."""
    host, wanted = str(request.options.get("host", "")), int(request.options.get("bytes", 0))
    if not own_address(host):
        raise OptionError(f"{host!r:.60} is no address of this machine")

    def read(_: list[str]) -> Counts:
        server = socket.create_server((host, 0))
        server.settimeout(_CONNECT_S)
        sender = threading.Thread(target=_send, args=(server, wanted), daemon=True)
        sender.start()
        moved, buffer = 0, bytearray(_PIECE_BYTES)
        with closing(socket.create_connection(server.getsockname()[:2], _CONNECT_S)) as taker:
            while got := taker.recv_into(buffer):
                moved += got
        sender.join()
        return Counts(None, moved)

    return read


def _send(server: socket.socket, wanted: int) -> None:
    piece = memoryview(bytes(_PIECE_BYTES))
    with closing(server), closing(server.accept()[0]) as giver, suppress(OSError):
        for begin in range(0, wanted, _PIECE_BYTES):
            giver.sendall(piece[: min(_PIECE_BYTES, wanted - begin)])


def own_address(host: str) -> bool:
    """Whether a host's name is an address of this machine, where a server can be started."""
    if not host:
        return False
    try:
        with closing(socket.create_server((host, 0))):
            return True
    except OSError:
        return False


def host_of(location: str) -> str:
    """The host of a URL; empty where it has none."""
    return urlsplit(location).hostname or ""
