"""The network between a job and a control room: it relays real connections, and resets them, swallows what is sent, or
loses the answers to what arrived, when a test says so.
"""

from __future__ import annotations

import enum
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tests.patience import HANG_S

_RESET = struct.pack("ii", 1, 0)
_PIECE_BYTES = 65536


class State(enum.Enum):
    """What the network does with what is sent through it."""

    WORKS = "works"
    CUT = "cut"  # connections are reset, also new ones
    SWALLOWS = "swallows"  # nothing arrives and nobody is told
    LOSES_ANSWERS = "loses answers"  # requests arrive; the connection is reset instead of the answer


class Network:
    """Relays connections of its own port to another one of this machine."""

    def __init__(self, to_port: int) -> None:
        self._to_port = to_port
        self.state = State.WORKS
        # Of answers that never came back.
        self.lost_answers = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def turn(self, state: State) -> None:
        """From now on it is so, for connections that are open too."""
        self.state = state
        if state is State.CUT:
            self._reset_all()

    def close(self) -> None:
        """Ends all."""
        self.turn(State.CUT)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            try:
                far = socket.create_connection(("127.0.0.1", self._to_port), timeout=HANG_S)
            except OSError:
                _reset(near)
                continue
            with self._lock:
                self._open |= {near, far}
            if self.state is State.CUT:
                self._reset_all()
            for source, target, is_answer in ((near, far, False), (far, near, True)):
                threading.Thread(target=self._relay, args=(source, target, is_answer), daemon=True).start()

    def _relay(self, source: socket.socket, target: socket.socket, is_answer: bool) -> None:
        with suppress(OSError):
            while piece := source.recv(_PIECE_BYTES):
                if self.state is State.SWALLOWS:
                    continue
                if is_answer and self.state is State.LOSES_ANSWERS:
                    self.lost_answers += 1
                    break
                target.sendall(piece)
        for one in (source, target):
            with self._lock:
                self._open.discard(one)
            _reset(one)

    def _reset_all(self) -> None:
        with self._lock:
            ended, self._open = self._open, set()
        for one in ended:
            _reset(one)


def _reset(connection: socket.socket) -> None:
    """Ends a connection at once, also for a thread that waits in it; the other side is told by a reset."""
    with suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()


@contextmanager
def network(to_port: int) -> Iterator[Network]:
    """A network that works, to this port."""
    made = Network(to_port)
    try:
        yield made
    finally:
        made.close()
