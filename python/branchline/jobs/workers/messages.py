"""The messages that a worker process sends to its job, and the connection between the two.

Values that users define travel as ``Pickled``: only their receiver unpickles them. The answer to a DrawRequest is a
SubJob, WAIT, or None where there are no more. Messages pass over a socket, on which the job never blocks.
"""

from __future__ import annotations

import pickle
import socket
import struct
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from branchline.base.texts import message_of
from branchline.base.trust import from_own_process, unpickle
from branchline.errors import BranchlineError
from branchline.jobs.package_versions import OtherVersionsError
from branchline.jobs.program import installation_change
from branchline.jobs.subjob import Finished, Folded, Held, Message, Note, Pickled

#: The length of a message in bytes, which stands before it.
LENGTH = struct.Struct("!Q")
#: Bytes that are taken from the socket at a time.
RECEIVE_BYTES = 2**20


@dataclass(frozen=True)
class DrawRequest:
    """It wants its next sub-job; ``waits`` says whether it has nothing else to do until there is one."""

    waits: bool


@dataclass(frozen=True)
class SentResult:
    """A sub-job is done and this came out."""

    index: int
    value: Pickled


@dataclass(frozen=True)
class SentFold:
    """Neighbours are done, and this came out of them as one."""

    indices: range
    value: Pickled


@dataclass(frozen=True)
class SentNote:
    """Something in between. Of each ``kind``, which is the name of a type, a pool passes on the last one only."""

    kind: str
    value: Pickled


@dataclass(frozen=True)
class SentError:
    """What ended the worker, and where it was raised, as Python prints it."""

    error: Pickled
    traceback: str
    #: The process refused the job before it began: other workers may take it.
    is_refusal: bool = False

    @classmethod
    def of(cls, error: BaseException) -> SentError:
        """Of an error that is being handled. One that cannot travel goes as a RuntimeError with its text, and so does
        one that would end the job in place of being reported, as SystemExit.
        """
        text = traceback.format_exc()
        as_text = Pickled.of(RuntimeError(f"{type(error).__name__}: {message_of(error)}"))
        try:
            pickled = Pickled.of(error) if isinstance(error, Exception) else as_text
            pickled.value()
        except Exception:  # noqa: BLE001 - not every exception can travel, and each says so in its own way
            pickled = as_text
        return cls(pickled, text, isinstance(error, OtherVersionsError))

    def in_job(self) -> BaseException:
        """The error, to be raised in the job. One that is not Branchline's gets its traceback in the worker as a note,
        and where Branchline was installed anew, it becomes the cause of an error that says so.
        """
        error: BaseException = self.error.value()
        if isinstance(error, BranchlineError):
            return error
        error.add_note(f"In the worker:\n{self.traceback}")
        change = installation_change()
        if change is None:
            return error
        change.__cause__ = error
        return change


@dataclass(frozen=True)
class Farewell:
    """It ends in good order: all that it had has been sent."""


WorkerMessage = DrawRequest | SentResult | Held | SentFold | SentNote | SentError | Farewell


def sent(message: Message) -> SentResult | Held | SentFold | SentNote:
    """What a callable yields, as it travels."""
    if isinstance(message, Finished):
        return SentResult(message.index, Pickled.of(message.value))
    if isinstance(message, Folded):
        return SentFold(message.indices, Pickled.of(message.value))
    if isinstance(message, Note):
        return SentNote(type(message.value).__name__, Pickled.of(message.value))
    return message


# --- the connection ---------------------------------------------------------------------------------------------------


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
