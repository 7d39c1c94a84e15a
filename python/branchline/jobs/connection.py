"""The line between a job and a worker: whole messages over a socket, of which the job never waits for either half."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from typing import Any

import cloudpickle

# Before each message stands how many bytes it has.
LENGTH = struct.Struct("!Q")
# What is taken from the socket at a time.
PIECE_BYTES = 2**20


class WorkersEnd:
    """The worker's end, which waits until a message is gone or has come."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def send(self, content: Any) -> None:
        """Raises OSError if the job is gone."""
        message = cloudpickle.dumps(content)
        self._socket.sendall(LENGTH.pack(len(message)))
        self._socket.sendall(message)

    def receive(self) -> Any:
        """Raises EOFError or OSError if the job is gone."""
        [length] = LENGTH.unpack(self._exactly(LENGTH.size))
        return cloudpickle.loads(self._exactly(length))

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            piece = self._socket.recv(min(length - len(found), PIECE_BYTES))
            if not piece:
                raise EOFError
            found += piece
        return bytes(found)


class JobsEnd:
    """The job's end: what cannot be sent yet is kept, and what has come in part is no message yet, for a worker may be
    stopped in the middle of one.
    """

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._socket.setblocking(False)
        self._to_send = bytearray()
        self._come = bytearray()

    def fileno(self) -> int:
        """The descriptor, to wait for."""
        return self._socket.fileno()

    @property
    def has_more_to_send(self) -> bool:
        """True while the worker has not taken all."""
        return bool(self._to_send)

    def send(self, content: Any) -> None:
        """Sends what the worker takes, and keeps the rest for ``go_on``."""
        message = cloudpickle.dumps(content)
        self._to_send += LENGTH.pack(len(message))
        self._to_send += message
        self.go_on()

    def go_on(self) -> None:
        """Sends more of what is kept. That the worker has died is said by what is received next."""
        try:
            while self._to_send:
                del self._to_send[: self._socket.send(memoryview(self._to_send)[:PIECE_BYTES].tobytes())]
        except BlockingIOError:
            pass
        except OSError:
            self._to_send.clear()

    def receive(self) -> Iterator[Any]:
        """The messages that are whole. Raises EOFError or OSError behind the last one if the worker is gone."""
        gone: Exception | None = None
        try:
            while piece := self._socket.recv(PIECE_BYTES):
                self._come += piece
                if len(piece) < PIECE_BYTES:
                    break
            else:
                gone = EOFError()
        except BlockingIOError:
            pass
        except OSError as error:
            gone = error
        yield from self._whole()
        if gone is not None:
            raise gone

    def _whole(self) -> Iterator[Any]:
        while len(self._come) >= LENGTH.size:
            [length] = LENGTH.unpack_from(self._come)
            end = LENGTH.size + length
            if len(self._come) < end:
                return
            content = cloudpickle.loads(bytes(memoryview(self._come)[LENGTH.size : end]))
            del self._come[:end]
            yield content

    def close(self) -> None:
        """The worker finds that the job is gone."""
        self._socket.close()
