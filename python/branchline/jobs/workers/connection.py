"""The connection between a job and a worker: messages over a socket, at which the job never blocks.

What users define travels in them as ``Pickled``: only those who need it take it out.
"""

from __future__ import annotations

import pickle
import socket
import struct
from collections.abc import Iterator
from typing import Any

from branchline.base.trust import from_own_process, unpickle

# The length of each message in bytes stands before it.
LENGTH = struct.Struct("!Q")
# Bytes that are taken from the socket at a time.
RECEIVE_BYTES = 2**20


class WorkerConnection:
    """The worker's end. It blocks until a message is sent or received."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def send(self, content: Any) -> None:
        """Raises OSError if the job is gone."""
        message = pickle.dumps(content)
        self._socket.sendall(LENGTH.pack(len(message)))
        self._socket.sendall(message)

    def receive(self) -> Any:
        """Raises EOFError or OSError if the job is gone."""
        [length] = LENGTH.unpack(self._exactly(LENGTH.size))
        return unpickle(from_own_process(self._exactly(length)))

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            piece = self._socket.recv(min(length - len(found), RECEIVE_BYTES))
            if not piece:
                raise EOFError
            found += piece
        return bytes(found)


class JobConnection:
    """The job's end. It never blocks: what the worker does not take yet is queued, and a message is returned when all
    of it has come, since a worker may be stopped in the middle of one.
    """

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._socket.setblocking(False)
        self._to_send = bytearray()
        self._received = bytearray()

    def fileno(self) -> int:
        """The descriptor, to wait for."""
        return self._socket.fileno()

    @property
    def has_more_to_send(self) -> bool:
        """True while the worker has not taken all."""
        return bool(self._to_send)

    def send(self, content: Any) -> None:
        """Sends what the worker takes now, and queues the rest for ``send_more``."""
        message = pickle.dumps(content)
        self._to_send += LENGTH.pack(len(message))
        self._to_send += message
        self.send_more()

    def send_more(self) -> None:
        """Sends more of what is queued. A worker that has died is noticed by ``receive``."""
        try:
            while self._to_send:
                del self._to_send[: self._socket.send(memoryview(self._to_send)[:RECEIVE_BYTES].tobytes())]
        except BlockingIOError:
            pass
        except OSError:
            self._to_send.clear()

    def receive(self) -> Iterator[Any]:
        """The messages that are whole. Raises EOFError or OSError behind the last one if the worker is gone."""
        gone: Exception | None = None
        try:
            while piece := self._socket.recv(RECEIVE_BYTES):
                self._received += piece
                if len(piece) < RECEIVE_BYTES:
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
        while len(self._received) >= LENGTH.size:
            [length] = LENGTH.unpack_from(self._received)
            end = LENGTH.size + length
            if len(self._received) < end:
                return
            message = bytes(memoryview(self._received)[LENGTH.size : end])
            del self._received[:end]
            yield unpickle(from_own_process(message))

    def close(self) -> None:
        """Closes the socket; the worker notices at its next message."""
        self._socket.close()
