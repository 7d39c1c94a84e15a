"""An XRootD server of one file that a test can make answer wrongly: it knows just what reading needs."""

from __future__ import annotations

import socket
import ssl
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.stores.scripted import Scripted, scripted

OK, OK_SO_FAR, ATTENTION, ERROR, REDIRECT, WAIT, WAIT_FOR_ANSWER, STATUS = 0, *range(4000, 4002), *range(4003, 4008)
AUTH, QUERY, CLOSE, PROTOCOL, LOGIN, OPEN, READ, READV, PGREAD = 3000, 3001, 3003, 3006, 3007, 3010, 3013, 3025, 3030
BIND = 3024
LATE_ANSWER = 5008
PAGES = 0x00200000
TLS_THERE_AND_NOW = 0xC0000000
HANDLE = b"hand"

# Gets the number of the connection, the stream, the code of the request, its 16 bytes of arguments and its payload;
# gives the bytes to answer with, or None for what a good server does.
Hook = Callable[[int, bytes, int, bytes, bytes], bytes | None]


def crc32c(data: bytes) -> int:
    remainder = 0xFFFFFFFF
    for byte in data:
        remainder ^= byte
        for _ in range(8):
            remainder = remainder >> 1 ^ (0x82F63B78 if remainder & 1 else 0)
    return remainder ^ 0xFFFFFFFF


def answer(stream: bytes, status: int, body: bytes = b"") -> bytes:
    return stream + struct.pack(">HI", status, len(body)) + body


def error(stream: bytes, code: int, words: str) -> bytes:
    return answer(stream, ERROR, struct.pack(">I", code) + words.encode() + b"\0")


def late(stream: bytes, status: int, body: bytes) -> bytes:
    return answer(b"\0\0", ATTENTION, struct.pack(">II", LATE_ANSWER, 0) + answer(stream, status, body))


def pages(stream: bytes, offset: int, data: bytes, *, last: bool = True, spoil: bool = False) -> bytes:
    """An answer with checksums; ``spoil`` changes a byte on its way."""
    body = b""
    at = 0
    while at < len(data):
        page = data[at : at + 4096 - (offset + at) % 4096]
        body += struct.pack(">I", crc32c(page)) + page
        at += len(page)
    if spoil:
        body = body[:-1] + bytes([body[-1] ^ 1])
    about = stream + struct.pack(">BBIIQ", PGREAD - 3000, 0 if last else 1, 0, len(body), offset)
    return stream + struct.pack(">HII", STATUS, 24, crc32c(about)) + about + body


class XrootdScript:
    """Speaks the protocol over one file with this content."""

    def __init__(
        self, content: bytes, hook: Hook | None = None, flags: int = PAGES, tls: ssl.SSLContext | None = None
    ) -> None:
        self.content = content
        self.hook = hook or (lambda *_: None)
        self.flags = flags | (TLS_THERE_AND_NOW if tls else 0)
        self.tls = tls
        self.open_handles = 0
        # By the numbers of the connections.
        self.connections: dict[int, socket.socket] = {}
        self.requests: list[int] = []

    def __call__(self, number: int, connection: socket.socket) -> None:
        self.connections[number] = connection
        # As the real one: an answer does not wait until that before it is acknowledged.
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if len(receive(connection, 20)) < 20:
            return
        connection.sendall(answer(b"\0\0", OK, struct.pack(">II", 0x520, 1)))
        self.serve(number, connection)

    def serve(self, number: int, connection: socket.socket) -> None:
        while len(head := receive(connection, 24)) == 24:
            stream, code, arguments, length = head[:2], *struct.unpack(">H16sI", head[2:])
            payload = receive(connection, length)
            self.requests.append(code)
            made = self.hook(number, stream, code, arguments, payload)
            if made == b"hang up":
                return
            connection.sendall(self.good(stream, code, arguments, payload) if made is None else made)
            if code == PROTOCOL and self.tls:
                with self.tls.wrap_socket(connection, server_side=True) as secure:
                    self.serve(number, secure)
                return

    def good(self, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes:
        if code == PROTOCOL:
            return answer(stream, OK, struct.pack(">II", 0x520, 1 | self.flags))
        if code == LOGIN:
            return answer(stream, OK, bytes(16))
        if code == QUERY:
            return answer(stream, OK, b"1024\n2097136\n\0")
        if code == OPEN:
            self.open_handles += 1
            return answer(stream, OK, HANDLE + bytes(8) + b"7 %d 48 1700000000\0" % len(self.content))
        if code == CLOSE:
            self.open_handles -= 1
            return answer(stream, OK)
        if code == READV:
            return answer(stream, OK, self.segments(payload))
        offset, length = struct.unpack(">QI", arguments[4:])
        data = self.content[offset : offset + length]
        return pages(stream, offset, data) if code == PGREAD else answer(stream, OK, data)

    def segments(self, payload: bytes) -> bytes:
        asked = struct.iter_unpack(">4sIQ", payload)
        return b"".join(struct.pack(">4sIQ", h, n, at) + self.content[at : at + n] for h, n, at in asked)


def held(content: bytes, first: int, then: int, since: int = 0) -> tuple[Hook, list[bytes]]:
    """Answers the request `first` only when `then` has come too, as from connection `since`; who waits between them
    waits in vain. Also gives what was held.
    """
    due: list[bytes] = []

    def hook(number: int, stream: bytes, code: int, arguments: bytes, payload: bytes) -> bytes | None:
        if number < since or code not in (first, then):
            return None
        due.append(XrootdScript(content).good(stream, code, arguments, payload))
        return b"" if code == first else b"".join(due)

    return hook, due


def receive(connection: socket.socket, count: int) -> bytes:
    """So many bytes, or fewer at the end."""
    received = b""
    while len(received) < count and (more := connection.recv(count - len(received))):
        received += more
    return received


@contextmanager
def xrootd_script(
    content: bytes, hook: Hook | None = None, flags: int = PAGES, tls: ssl.SSLContext | None = None
) -> Iterator[tuple[str, XrootdScript, Scripted]]:
    """The URL of the file at such a server, its script and the server."""
    script = XrootdScript(content, hook, flags, tls)
    with scripted(script) as server:
        yield f"root://127.0.0.1:{server.port}//f", script, server
