"""Parses the output of strace, one file per thread, into calls with their arguments and times."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from branchline.base.quantities import NS_PER_S
from branchline.errors import BadFileError

#: System calls to trace. A question mark tells strace to ignore the call on machines without it.
CALLS = (
    "?open", "openat", "?openat2", "?creat", "read", "pread64", "readv", "preadv", "preadv2", "lseek", "mmap",
    "close", "?close_range", "dup", "?dup2", "dup3", "fcntl", "clone", "?clone3", "?fork", "?vfork", "execve",
    "?execveat", "?io_uring_setup", "sendfile", "?copy_file_range", "splice", "write",
    "connect", "?recv", "recvfrom", "recvmsg",
)  # fmt: skip
#: Options of strace. They select one file per thread (-ff), paths of descriptors (-y), no data (-s 0), and times in
#: nanoseconds.
OPTIONS = (
    "-ff", "-q", "-y", "-s", "0", "--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns",
    "--signal=none",
)  # fmt: skip

OPENS = frozenset({"open", "openat", "openat2", "creat"})
COUNT_AT_END = OPENS | {"dup", "dup2", "dup3", "fcntl"}
#: Maximum number of strace files (one per thread) that are open at a time.
STREAMED_MAX = 500

_CALL = re.compile(r"(\d+)\.(\d{9}) (\w+)\((.*)\) += (.+)$", re.DOTALL)
_SPENT = re.compile(r"^(.*?)(?: <(\d+)\.(\d{9})>)?$")
_DESCRIPTOR = re.compile(r"^(-?\d+)(?:<(.*)>(\(deleted\))?)?$", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{2}|.)")
_END = b" +++\n"
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}


@dataclass(frozen=True)
class Call:
    """A system call of a thread. ``result`` is None if the call did not return, for example in a killed thread."""

    thread: int
    name: str
    arguments: list[str]
    begin_ns: int
    end_ns: int
    result: str | None
    error: str | None

    @property
    def value(self) -> int:
        """The number returned by the call; -1 for an error."""
        number = _DESCRIPTOR.match(self.result or "")
        return int(number[1]) if number else -1


def read_calls(folder: Path, prefix: str) -> Iterator[Call]:
    """Yield the calls in all files, sorted by `moment`.

    Together, the files may be far larger than memory. Since the calls of each thread are already sorted, merging the
    files needs only one line of each file in memory.
    """
    paths = sorted(folder.glob(f"{prefix}.*"), key=lambda path: path.stat().st_size)
    few = len(paths) - STREAMED_MAX
    # If the program has more threads than the limit on open files, the smallest files are read into memory.
    whole = [iter(list(_calls_of(path))) for path in paths[: max(few, 0)]]
    return heapq.merge(*whole, *map(_calls_of, paths[max(few, 0) :]), key=moment)


def threads_cut(folder: Path, prefix: str) -> int:
    """Return the number of threads with missing calls. Their files do not end with a line about the thread's exit."""
    cut = 0
    for path in folder.glob(f"{prefix}.*"):
        with path.open("rb") as lines:
            lines.seek(max(path.stat().st_size - len(_END), 0))
            cut += lines.read() != _END
    return cut


def moment(call: Call) -> tuple[int, int]:
    """Return the sort key of a call: its end time if it creates a descriptor, otherwise its start time."""
    return (call.end_ns if call.name in COUNT_AT_END else call.begin_ns, call.begin_ns)


def _calls_of(path: Path) -> Iterator[Call]:
    """Yield the calls of one thread."""
    thread = int(path.suffix[1:])
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        for line in lines:
            call = parse(thread, line.rstrip("\n"))
            if call is not None:
                yield call


def parse(thread: int, line: str) -> Call | None:
    """Parse a line of strace's output. Returns None for unfinished calls and other lines. Raises BadFileError."""
    found = _CALL.match(line)
    if found is None:
        if line.endswith(("+++", "---")) or "<unfinished" in line or not line.strip() or not line[:1].isdigit():
            return None
        # strace was stopped while writing this line.
        if ") = " not in line:
            return None
        raise BadFileError(f"cannot parse a line of strace's output: {line[:200]!r}")
    seconds, nanoseconds, name, arguments, rest = found.groups()
    begin = int(seconds) * NS_PER_S + int(nanoseconds)
    spent = _SPENT.match(rest)
    assert spent is not None
    took = int(spent[2]) * NS_PER_S + int(spent[3]) if spent[2] else 0
    result = spent[1]
    if result.startswith("?"):
        return Call(thread, name, split_arguments(arguments), begin, begin + took, None, None)
    error = result.split(" ")[1] if result.startswith("-1 ") else None
    return Call(thread, name, split_arguments(arguments), begin, begin + took, result, error)


def split_arguments(text: str) -> list[str]:
    """Split the arguments of a call at commas, except within strings, paths, lists and structs."""
    if not any(mark in text for mark in '"<[{'):
        return text.split(", ") if text else []
    parts, start, depth, index = [], 0, 0, 0
    while index < len(text):
        letter = text[index]
        if letter == '"':
            index += 1
            while index < len(text) and text[index] != '"':
                index += 2 if text[index] == "\\" else 1
        elif letter == "<":
            index = _end_of_path(text, index)
        elif letter in "[{":
            depth += 1
        elif letter in "]}":
            depth -= 1
        elif letter == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
        index += 1
    parts.append(text[start:].strip())
    return parts


def _end_of_path(text: str, start: int) -> int:
    """Return the end of a descriptor's path: the next `>`, because strace escapes `>` in paths.

    `<<` does not begin a path: it is the shift operator, as in 1<<3.
    """
    if text.startswith("<<", start):
        return start + 1
    end = text.find(">", start)
    return end if end >= 0 else len(text)


def descriptor(argument: str) -> tuple[int, str | None]:
    """Parse ``3</data/a.root>`` into a descriptor and a path; the path is None if the descriptor is not a file."""
    found = _DESCRIPTOR.match(argument)
    if found is None:
        return -1, None
    number, path, _ = found.groups()
    return int(number), unescaped(path) if path and path.startswith("/") else None


def unescaped(text: str) -> str:
    """Decode a path as written by strace."""
    if "\\" not in text:
        return text

    def letter(match: re.Match[bytes]) -> bytes:
        code = match[1]
        if code[:1].isdigit():
            return bytes([int(code, 8) & 0xFF])
        return bytes([int(code[1:], 16)]) if code[:1] == b"x" and len(code) == 3 else _LETTERS.get(code, code)

    raw = text.encode("utf-8", "surrogateescape")
    return _ESCAPE.sub(letter, raw).decode("utf-8", "surrogateescape")


def flags(call: Call) -> set[str]:
    """Return the flags among a call's arguments: O_RDONLY, CLONE_FILES, ..."""
    return {flag for argument in call.arguments for flag in re.findall(r"\b[A-Z][A-Z0-9_]+\b", argument)}
