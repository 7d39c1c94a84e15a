"""The file and the offset of each read of a program: follows descriptors, their positions, forks and threads.

A descriptor leads to an open file, which has a position of its own; `dup` and `fork` make more descriptors of the
same open file, a second `open` of the same path makes another one. Threads share their table of descriptors, a forked
process gets a copy of it. Reads are kept as columns, since a long job has too many of them for objects in memory.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np

from branchline.tracing.strace_lines import OPENS, Call, descriptor, flags
from branchline.tracing.trace import Codes, Numbers

#: The columns of `Reads`.
_NUMBERS = ("thread", "process", "descriptor", "offset", "size_bytes", "got_bytes", "begin_ns", "end_ns")
_TEXTS = ("name", "path", "error")
#: Calls that read from a file.
_READS = frozenset({"read", "readv", "pread64", "preadv", "preadv2"})
#: Calls that copy from one descriptor to another inside the kernel: which of the arguments are the source, the offset
#: in it, and the length.
_COPIES = {"sendfile": (1, 2, 3), "copy_file_range": (0, 1, 4), "splice": (0, 1, 4)}
_FORKS = frozenset({"clone", "clone3", "fork", "vfork"})
#: Calls that read only from sockets.
_RECEIVES = frozenset({"recv", "recvfrom", "recvmsg"})
_SOCKET = re.compile(r"<(socket:\[\d+\])>")
#: The port and the address that a connection goes to.
_SERVER = re.compile(r'sin6?_port=htons\((\d+)\).*?"([0-9a-fA-F.:]+)"')
#: Ports of DNS and NTP, and 0: a socket that looks up its own address.
_NO_FILES = (0, 53, 123)


@dataclass(frozen=True)
class Read:
    """A call that read from a file, or mapped it into memory. ``offset`` is None where it is not known."""

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


class Reads:
    """Any number of reads, 76 bytes each."""

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
        """Adds a read at the end."""
        for name, column in self._numbers.items():
            value = getattr(read, name)
            column.append(-1 if value is None else value)
        for name, column in self._codes.items():
            text = getattr(read, name)
            known = self._texts[name]
            column.append(-1 if text is None else known.setdefault(text, len(known)))

    def sort(self) -> None:
        """Puts them in the order in which they began."""
        order = np.argsort(self.column("begin_ns"), kind="stable")
        for columns, code in ((self._numbers, "i8"), (self._codes, "i4")):
            for name, column in columns.items():
                columns[name] = array(column.typecode, np.frombuffer(column, code)[order].tobytes())

    def column(self, name: str) -> Numbers:
        """One of the numbers of all reads; -1 where an offset is not known."""
        return np.frombuffer(self._numbers[name], "i8")

    def codes(self, name: str) -> Codes:
        """One of the texts of all reads."""
        return Codes(np.frombuffer(self._codes[name], "i4"), list(self._texts[name]))

    def paths(self) -> set[str]:
        """The files that were read."""
        found = self.codes("path")
        return {found.texts[number] for number in np.unique(found.indices)}


@dataclass
class Followed:
    """The reads, the programs that processes ran, and counts of what could not be followed."""

    reads: Reads = field(default_factory=Reads)
    programs: dict[int, str] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)
    #: Bytes that came over the connections to each server.
    servers: dict[str, int] = field(default_factory=dict)
    rings: int = 0
    threads: set[int] = field(default_factory=set)


class Follower:
    """Follows the calls of all threads in the order of time."""

    def __init__(self, wanted: Callable[[str], bool] = lambda _: True) -> None:
        """Reads of files that are not ``wanted`` are not kept."""
        self.found = Followed()
        self._wanted = wanted
        self._is_wanted: dict[str, bool] = {}
        self._sockets: dict[str, str] = {}
        self._tables: dict[int, _Table] = {}
        self._processes: dict[int, int] = {}

    def follow(self, calls: Iterable[Call]) -> Followed:
        """The reads of all calls, in the order in which they began; the calls come in that of their `moment`."""
        for call in calls:
            self._step(call)
        self.found.reads.sort()
        return self.found

    def _step(self, call: Call) -> None:
        self.found.threads.add(call.thread)
        table = self._tables.setdefault(call.thread, _Table())
        name = call.name
        if name == "connect":
            # Most connections are non-blocking, and return the error EINPROGRESS.
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
        """The open file of a descriptor; one that was opened before the trace began has an unknown position."""
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
        # The new program has a table of its own.
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
        """Moves the position, as a write does too."""
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
        # preadv2 with the offset -1 reads at the current position.
        if offset == -1:
            offset = file.position
            at = None
        size = _requested(call, got)
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
        """Records the server of a connection, if it may serve files."""
        found = _SERVER.search(" ".join(call.arguments[1:]))
        if found is not None and int(found[1]) not in _NO_FILES:
            host = found[2] if ":" not in found[2] else f"[{found[2]}]"
            server = f"{host}:{found[1]}"
            self.found.servers.setdefault(server, 0)
            socket = _SOCKET.search(call.arguments[0])
            if socket is not None:
                self._sockets[socket[1]] = server

    def _receive(self, call: Call) -> None:
        """Counts the bytes from a server. An open socket has a number of its own in all processes."""
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
    """An open file: its path, and where the next read begins; None where that is not known."""

    path: str
    position: int | None


@dataclass
class _Table:
    """The descriptors of a process, and those that close when it starts another program."""

    files: dict[int, OpenFile] = field(default_factory=dict)
    closes: set[int] = field(default_factory=set)

    def copy(self) -> _Table:
        return _Table(dict(self.files), set(self.closes))


def _mark(table: _Table, number: int, *, closes: bool) -> None:
    if closes:
        table.closes.add(number)
    else:
        table.closes.discard(number)


def _requested(call: Call, got: int) -> int:
    """Bytes that a read requested."""
    if call.name in ("read", "pread64"):
        return int(call.arguments[2])
    lengths = re.findall(r"iov_len=(\d+)", call.arguments[1])
    return sum(int(length) for length in lengths) or got
