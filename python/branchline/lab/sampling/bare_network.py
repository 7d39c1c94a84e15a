"""Measure the bare network: bytes over a socket of this machine, without a storage protocol and a disk."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from urllib.parse import urlsplit

from branchline.base.quantities import MIB
from branchline.errors import OptionError
from branchline.lab.sampling.job import Counts, JobRequest

#: Number of bytes sent or received at a time, which fit well into the kernel's buffers.
_PIECE_BYTES = MIB
#: Timeout in seconds for connecting. Both ends are on this machine, so connecting takes almost no time.
_CONNECT_S = 30.0


def bare_socket(request: JobRequest) -> Callable[[list[str]], Counts]:
    """Create the client ``socket``, which receives ``bytes`` zeros from the address ``host`` of this machine."""
    host, wanted = str(request.options.get("host", "")), int(request.options.get("bytes", 0))
    if not own_address(host):
        raise OptionError(f"{host!r:.60} is not an address of this machine")

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
    """Return whether a host name is an address of this machine, on which a server can listen."""
    if not host:
        return False
    try:
        with closing(socket.create_server((host, 0))):
            return True
    except OSError:
        return False


def host_of(location: str) -> str:
    """Return the host of a URL, or an empty string."""
    return urlsplit(location).hostname or ""
