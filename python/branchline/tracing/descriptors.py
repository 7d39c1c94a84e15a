"""Finds the file and the offset of each read of a program. To do so, it follows file descriptors and their positions
through forks and threads.

A descriptor refers to an open file description with its own position; `dup` and `fork` create more descriptors for the
same description, while opening the same path again creates a new one. Threads share a descriptor table; a forked
process gets a copy. Reads are stored in columns, since long jobs make too many of them for one object each.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from branchline.tracing.strace_lines import OPENS, Call, descriptor, flags
from branchline.tracing.trace import Codes, Numbers

#: Columns of `ReadTable`: the first tuple names the integer columns, the second the string columns.
_NUMBERS = ("thread", "process", "descriptor", "offset", "size_bytes", "got_bytes", "begin_ns", "end_ns")
_TEXTS = ("name", "path", "error")
#: Calls that read from a file.
_READS = frozenset({"read", "readv", "pread64", "preadv", "preadv2"})
#: Calls that copy between descriptors inside the kernel. The values are the indices of three arguments: the source
#: descriptor, the source offset, and the length.
_COPIES = {"sendfile": (1, 2, 3), "copy_file_range": (0, 1, 4), "splice": (0, 1, 4)}
_FORKS = frozenset({"clone", "clone3", "fork", "vfork"})
#: Calls that read only from sockets.
_RECEIVES = frozenset({"recv", "recvfrom", "recvmsg"})
_SOCKET = re.compile(r"<(socket:\[\d+\])>")
#: Matches the port and IP address of the server in the arguments of `connect`.
_SERVER = re.compile(r'sin6?_port=htons\((\d+)\).*?"([0-9a-fA-F.:]+)"')
#: Ports that never serve files: 0 (used to look up the local address), 53 (DNS) and 123 (NTP).
_NO_FILES = (0, 53, 123)


@dataclass(frozen=True)
class Read:
    """A call that read from a file, or mapped the file into memory. ``offset`` is None if unknown."""

    thread: int
    process: int
    name: str
    path: str
    descriptor: int
    offset: int | None
    size_bytes: int
    got_bytes: int
    begin_ns: int
    end_ns: int
    error: str | None


class ReadTable:
    """A list of reads, stored in columns that take 76 bytes per read."""

    def __init__(self) -> None:
        self._numbers = {name: array("q") for name in _NUMBERS}
        self._codes = {name: array("i") for name in _TEXTS}
        self._texts: dict[str, dict[str, int]] = {name: {} for name in _TEXTS}

    def __len__(self) -> int:
        return len(self._codes["name"])

    def __iter__(self) -> Iterator[Read]:
        texts = {name: [*known, None] for name, known in self._texts.items()}
        for number in range(len(self)):
            numbers = {name: column[number] for name, column in self._numbers.items()}
            offset = numbers.pop("offset")
            words = {name: texts[name][column[number]] for name, column in self._codes.items()}
            yield Read(offset=None if offset < 0 else offset, **numbers, **words)  # type: ignore[arg-type]

    def add(self, read: Read) -> None:
        """Append a read."""
        for name, column in self._numbers.items():
            value = getattr(read, name)
            column.append(-1 if value is None else value)
        for name, column in self._codes.items():
            text = getattr(read, name)
            known = self._texts[name]
            column.append(-1 if text is None else known.setdefault(text, len(known)))

    def sort(self) -> None:
        """Sort the reads by start time."""
        order = np.argsort(self.column("begin_ns"), kind="stable")
        for columns, code in ((self._numbers, "i8"), (self._codes, "i4")):
            for name, column in columns.items():
                columns[name] = array(column.typecode, np.frombuffer(column, code)[order].tobytes())

    def column(self, name: str) -> Numbers:
        """Return an integer column; unknown offsets are -1."""
        return np.frombuffer(self._numbers[name], "i8")

    def codes(self, name: str) -> Codes:
        """Return a string column."""
        return Codes(np.frombuffer(self._codes[name], "i4"), list(self._texts[name]))

    def paths(self) -> set[str]:
        """Return the paths of all files that were read."""
        found = self.codes("path")
        return {found.texts[number] for number in np.unique(found.indices)}


@dataclass
class Followed:
    """Result of a `Follower`: the reads of all processes, and possible sources of reads that it cannot see.

    ``programs`` is the program of each process; ``rings`` is the number of io_uring instances that were set up.
    """

    reads: ReadTable = field(default_factory=ReadTable)
    programs: dict[int, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    #: Bytes received from each server.
    servers: dict[str, int] = field(default_factory=dict)
    rings: int = 0
    threads: set[int] = field(default_factory=set)


class Follower:
    """Follows the calls of all threads in chronological order."""

    def __init__(self, wanted: Callable[[str], bool] = lambda _: True) -> None:
        """Create a follower that drops the reads of files for which ``wanted`` returns False."""
        self.found = Followed()
        self._wanted = wanted
        self._is_wanted: dict[str, bool] = {}
        self._sockets: dict[str, str] = {}
        self._tables: dict[int, _Table] = {}
        self._processes: dict[int, int] = {}

    def follow(self, calls: Iterable[Call]) -> Followed:
        """Return the reads of all calls, sorted by start time; the calls must be sorted by their `moment`."""
        for call in calls:
            self._step(call)
        self.found.reads.sort()
        return self.found

    def _step(self, call: Call) -> None:
        self.found.threads.add(call.thread)
        table = self._tables.setdefault(call.thread, _Table())
        name = call.name
        if name == "connect":
            # Most connections are non-blocking, so `connect` returns the error EINPROGRESS.
            self._connect(call)
        elif name in _FORKS:
            self._fork(call, table)
        elif name in _RECEIVES:
            self._receive(call)
        elif call.error is not None and name not in _READS:
            return
        elif name in _READS:
            self._read(call, table)
        elif name in _COPIES:
            self._copy(call, table)
        else:
            change = _CHANGES.get(name)
            if change is not None:
                change(self, call, table)

    def _file(self, table: _Table, argument: str) -> tuple[int, OpenFile | None]:
        """Return the open file of a descriptor. If it was opened before the trace started, its position is unknown."""
        number, path = descriptor(argument)
        known = table.files.get(number)
        if path is None:
            return number, None
        if known is None or known.path != path:
            known = table.files[number] = OpenFile(path, None)
        return number, known

    def _fork(self, call: Call, table: _Table) -> None:
        child = call.value
        if child <= 0:
            return
        shared = flags(call)
        is_thread = "CLONE_THREAD" in shared
        self._tables[child] = table if "CLONE_FILES" in shared else table.copy()
        parent = self._processes.get(call.thread, call.thread)
        self._processes[child] = parent if is_thread else child
        if not is_thread:
            self.found.programs.setdefault(child, self.found.programs.get(parent, ""))

    def _execve(self, call: Call, table: _Table) -> None:
        process = self._processes.get(call.thread, call.thread)
        texts = re.findall(r'"((?:[^"\\]|\\.)*)"', " ".join(call.arguments[:2]))
        self.found.programs[process] = texts[0] if texts else ""
        # The new program gets its own descriptor table.
        own = table.copy()
        for number in own.closes:
            own.files.pop(number, None)
        own.closes.clear()
        self._tables[call.thread] = own

    def _open(self, call: Call, table: _Table) -> None:
        number, path = descriptor(call.result or "")
        requested = flags(call)
        if number < 0 or path is None:
            return
        table.files[number] = OpenFile(path, 0)
        _mark(table, number, closes="O_CLOEXEC" in requested)
        if requested & {"O_WRONLY", "O_RDWR"} or call.name == "creat":
            self.found.written.add(path)

    def _close(self, call: Call, table: _Table) -> None:
        number, _ = descriptor(call.arguments[0])
        table.files.pop(number, None)
        table.closes.discard(number)

    def _close_range(self, call: Call, table: _Table) -> None:
        first, last = (int(text) for text in call.arguments[:2])
        for number in [number for number in table.files if first <= number <= last]:
            if "CLOSE_RANGE_CLOEXEC" in flags(call):
                table.closes.add(number)
            else:
                table.files.pop(number)

    def _dup(self, call: Call, table: _Table) -> None:
        if call.name == "fcntl" and call.arguments[1] not in ("F_DUPFD", "F_DUPFD_CLOEXEC"):
            if call.arguments[1] == "F_SETFD":
                _mark(table, descriptor(call.arguments[0])[0], closes="FD_CLOEXEC" in call.arguments[-1])
            return
        _, file = self._file(table, call.arguments[0])
        made, _ = descriptor(call.result or "")
        table.files.pop(made, None)
        if file is not None:
            table.files[made] = file
        _mark(table, made, closes="F_DUPFD_CLOEXEC" in call.arguments or "O_CLOEXEC" in call.arguments)

    def _lseek(self, call: Call, table: _Table) -> None:
        _, file = self._file(table, call.arguments[0])
        if file is not None and call.value >= 0:
            file.position = call.value

    def _write(self, call: Call, table: _Table) -> None:
        """Advance the position of the file, because a write moves it like a read."""
        _, file = self._file(table, call.arguments[0])
        if file is not None and file.position is not None:
            file.position += max(call.value, 0)

    def _read(self, call: Call, table: _Table) -> None:
        number, file = self._file(table, call.arguments[0])
        if file is None:
            self._receive(call)
            return
        got = max(call.value, 0)
        at = {"pread64": 3, "preadv": 3, "preadv2": 3}.get(call.name)
        offset = int(call.arguments[at]) if at is not None and len(call.arguments) > at else file.position
        # With the offset -1, preadv2 reads at the current position.
        if offset == -1:
            offset = file.position
            at = None
        if call.name in ("read", "pread64"):
            size = int(call.arguments[2])
        else:
            lengths = re.findall(r"iov_len=(\d+)", call.arguments[1])
            size = sum(int(length) for length in lengths) or got
        if at is None and file.position is not None:
            file.position += got
        self._add(call, number, file.path, offset, size, got)

    def _copy(self, call: Call, table: _Table) -> None:
        source, where, length = _COPIES[call.name]
        number, file = self._file(table, call.arguments[source])
        if file is None:
            return
        got = max(call.value, 0)
        stated = re.match(r"\[(\d+)\]|\[(\d+) =>", call.arguments[where])
        offset = int(stated[1] or stated[2]) if stated else file.position
        if not stated and file.position is not None:
            file.position += got
        requested = min(int(call.arguments[length]), got or int(call.arguments[length]))
        self._add(call, number, file.path, offset, requested, got)

    def _mmap(self, call: Call, table: _Table) -> None:
        if len(call.arguments) < 6 or "PROT_EXEC" in call.arguments[2]:
            return
        number, file = self._file(table, call.arguments[4])
        if file is not None:
            self._add(call, number, file.path, int(call.arguments[5], 0), int(call.arguments[1]), 0)

    def _connect(self, call: Call) -> None:
        """Record the server of a connection, unless the port is one of ``_NO_FILES``."""
        found = _SERVER.search(" ".join(call.arguments[1:]))
        if found is not None and int(found[1]) not in _NO_FILES:
            host = found[2] if ":" not in found[2] else f"[{found[2]}]"
            server = f"{host}:{found[1]}"
            self.found.servers.setdefault(server, 0)
            socket = _SOCKET.search(call.arguments[0])
            if socket is not None:
                self._sockets[socket[1]] = server

    def _receive(self, call: Call) -> None:
        """Add the received bytes to the total of their server.

        The kernel's inode number identifies an open socket in all processes.
        """
        socket = _SOCKET.search(call.arguments[0]) if call.arguments else None
        server = self._sockets.get(socket[1]) if socket is not None else None
        if server is not None:
            self.found.servers[server] += max(call.value, 0)

    def _ring(self, *_: object) -> None:
        self.found.rings += 1

    def _add(self, call: Call, number: int, path: str, offset: int | None, size: int, got: int) -> None:
        if path not in self._is_wanted:
            self._is_wanted[path] = self._wanted(path)
        if not self._is_wanted[path]:
            return
        process = self._processes.get(call.thread, call.thread)
        self.found.reads.add(
            Read(
                call.thread, process, call.name, path, number, offset, size, got, call.begin_ns, call.end_ns, call.error
            )
        )  # fmt: skip


_CHANGES: dict[str, Callable[[Follower, Call, _Table], None]] = {
    **dict.fromkeys(OPENS, Follower._open),
    **dict.fromkeys(("dup", "dup2", "dup3", "fcntl"), Follower._dup),
    "close": Follower._close,
    "close_range": Follower._close_range,
    "execve": Follower._execve,
    "execveat": Follower._execve,
    "lseek": Follower._lseek,
    "mmap": Follower._mmap,
    "write": Follower._write,
    "io_uring_setup": Follower._ring,
}


@dataclass
class OpenFile:
    """An open file with its path and position; the position is None if unknown."""

    path: str
    position: int | None


@dataclass
class _Table:
    """A process's descriptors, and which descriptors are closed on exec."""

    files: dict[int, OpenFile] = field(default_factory=dict)
    closes: set[int] = field(default_factory=set)

    def copy(self) -> _Table:
        return _Table(dict(self.files), set(self.closes))


def _mark(table: _Table, number: int, *, closes: bool) -> None:
    if closes:
        table.closes.add(number)
    else:
        table.closes.discard(number)
