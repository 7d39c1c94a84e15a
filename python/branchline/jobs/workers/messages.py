"""The messages that a worker process sends to its job, and the connection between the two.

User-defined values are sent as ``Pickled``, so that only the receiver unpickles them. The response to a DrawRequest is
a SubJob, WAIT, or None if there are no more sub-jobs. Messages are sent over a socket, on which the job never blocks.
"""

from __future__ import annotations

import pickle
import socket
import struct
import traceback
from collections.abc import Iterator
from dataclasses import dataclass

from branchline.base.checks import instance_of
from branchline.base.quantities import MIB
from branchline.base.texts import message_of
from branchline.base.trust import from_own_process, unpickle
from branchline.errors import BranchlineError
from branchline.jobs.installation import installation_change
from branchline.jobs.package_versions import OtherVersionsError
from branchline.jobs.subjob import Finished, Folded, Held, Message, Note, Pickled

#: Format of a message's length prefix.
LENGTH = struct.Struct("!Q")
#: Maximum number of bytes per read from the socket.
RECEIVE_BYTES = MIB


@dataclass(frozen=True)
class DrawRequest:
    """A message: the worker requests the next sub-job. ``waits`` is True if the worker has nothing else to do."""

    waits: bool


@dataclass(frozen=True)
class SentResult:
    """A message: a sub-job is done, with this result."""

    index: int
    value: Pickled


@dataclass(frozen=True)
class SentFold:
    """A message: neighbouring sub-jobs are done, with this combined result."""

    indices: range
    value: Pickled


@dataclass(frozen=True)
class SentNote:
    """A message: an intermediate value. ``kind`` is the name of its type. A pool forwards only the last note of each
    kind.
    """

    kind: str
    value: Pickled


@dataclass(frozen=True)
class SentError:
    """The exception that ended the worker, and its traceback as a string."""

    error: Pickled
    traceback: str
    #: Whether the worker rejected the job before starting it. Other workers may accept the job.
    is_refusal: bool = False

    @classmethod
    def of(cls, error: BaseException) -> SentError:
        """Wrap the exception that is currently handled.

        If the exception cannot be pickled, or would end the job instead of being reported (such as SystemExit), a
        RuntimeError with the same text replaces it.
        """
        text = traceback.format_exc()
        as_text = Pickled.of(RuntimeError(f"{type(error).__name__}: {message_of(error)}"))
        try:
            pickled = Pickled.of(error) if isinstance(error, Exception) else as_text
            pickled.value()
        except Exception:  # noqa: BLE001 - pickling may fail with any exception
            pickled = as_text
        return cls(pickled, text, isinstance(error, OtherVersionsError))

    def in_job(self) -> BaseException:
        """Return the exception to raise in the job.

        If the exception is not Branchline's own, the worker's traceback is added as a note. If Branchline was
        reinstalled while the job ran, an InstallationChangedError is returned, with the exception as its cause.
        """
        error = instance_of(self.error.value(), BaseException)
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
    """A message: the worker exits normally and has sent everything."""


WorkerMessage = DrawRequest | SentResult | Held | SentFold | SentNote | SentError | Farewell


def sent(message: Message) -> SentResult | Held | SentFold | SentNote:
    """Return the form in which a message yielded by a callable is sent to the job."""
    if isinstance(message, Finished):
        return SentResult(message.index, Pickled.of(message.value))
    if isinstance(message, Folded):
        return SentFold(message.indices, Pickled.of(message.value))
    if isinstance(message, Note):
        return SentNote(type(message.value).__name__, Pickled.of(message.value))
    return message


# --- the connection ---------------------------------------------------------------------------------------------------


class WorkerConnection:
    """The worker's end of the connection. Blocks until a message is sent or received."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)

    def send(self, content: object) -> None:
        """Send a message. Raises OSError if the job is gone."""
        message = pickle.dumps(content)
        self._socket.sendall(LENGTH.pack(len(message)))
        self._socket.sendall(message)

    def receive(self) -> object:
        """Receive a message. Raises EOFError or OSError if the job is gone."""
        [length] = LENGTH.unpack(self._exactly(LENGTH.size))
        return unpickle(from_own_process(self._exactly(length)), object)

    def _exactly(self, length: int) -> bytes:
        found = bytearray()
        while len(found) < length:
            piece = self._socket.recv(min(length - len(found), RECEIVE_BYTES))
            if not piece:
                raise EOFError
            found += piece
        return bytes(found)


class JobConnection:
    """The job's end of the connection, which never blocks.

    Data that the worker does not accept yet is queued. Messages are only returned when they are complete, because a
    worker may be stopped in the middle of a message.
    """

    def __init__(self, own: socket.socket) -> None:
        self._socket = own
        self._socket.setblocking(False)
        self._to_send = bytearray()
        self._received = bytearray()

    def fileno(self) -> int:
        """The descriptor, for selectors."""
        return self._socket.fileno()

    @property
    def has_more_to_send(self) -> bool:
        """Whether queued data has to be sent."""
        return bool(self._to_send)

    def send(self, content: object) -> None:
        """Send as much data as the worker accepts now, and queue the rest for ``send_more``."""
        message = pickle.dumps(content)
        self._to_send += LENGTH.pack(len(message))
        self._to_send += message
        self.send_more()

    def send_more(self) -> None:
        """Send as much queued data as the worker accepts now. Does not detect a dead worker; ``receive`` does."""
        try:
            while self._to_send:
                del self._to_send[: self._socket.send(memoryview(self._to_send)[:RECEIVE_BYTES].tobytes())]
        except BlockingIOError:
            pass
        except OSError:
            self._to_send.clear()

    def receive(self) -> Iterator[WorkerMessage]:
        """Yield the messages that have arrived completely. If the worker is gone, raises EOFError or OSError after the
        last message.
        """
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

    def _whole(self) -> Iterator[WorkerMessage]:
        while len(self._received) >= LENGTH.size:
            [length] = LENGTH.unpack_from(self._received)
            end = LENGTH.size + length
            if len(self._received) < end:
                return
            message = bytes(memoryview(self._received)[LENGTH.size : end])
            del self._received[:end]
            content = unpickle(from_own_process(message), object)
            assert isinstance(content, WorkerMessage)
            yield content

    def close(self) -> None:
        """Close the socket; the worker notices when it sends its next message."""
        self._socket.close()
