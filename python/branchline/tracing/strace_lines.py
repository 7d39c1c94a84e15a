"""Lines that strace writes, one file for each thread, as calls with their arguments and times."""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import BadFileError

#: The calls that are followed; a question mark is for calls that some machines lack.
CALLS = (
    "?open", "openat", "?openat2", "?creat", "read", "pread64", "readv", "preadv", "preadv2", "lseek", "mmap",
    "close", "?close_range", "dup", "?dup2", "dup3", "fcntl", "clone", "?clone3", "?fork", "?vfork", "execve",
    "?execveat", "?io_uring_setup", "sendfile", "?copy_file_range", "splice", "write",
    "connect", "?recv", "recvfrom", "recvmsg",
)  # fmt: skip
#: Options of strace: a file for each thread, which ends with the exit of the thread; paths of descriptors, no data,
#: times in nanoseconds.
OPTIONS = (
    "-ff", "-q", "-y", "-s", "0", "--absolute-timestamps=format:unix,precision:ns", "--syscall-times=ns",
    "--signal=none",
)  # fmt: skip

OPENS = frozenset({"open", "openat", "openat2", "creat"})
COUNT_AT_END = OPENS | {"dup", "dup2", "dup3", "fcntl"}
#: Files of threads that are open at a time.
STREAMED_MAX = 500

_CALL = re.compile(r"(\d+)\.(\d{9}) (\w+)\((.*)\) += (.+)$", re.DOTALL)
_SPENT = re.compile(r"^(.*?)(?: <(\d+)\.(\d{9})>)?$")
_DESCRIPTOR = re.compile(r"^(-?\d+)(?:<(.*)>(\(deleted\))?)?$", re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-fA-F]{2}|.)")
_END = b" +++\n"
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}


@dataclass(frozen=True)
class Call:
    """A system call by a thread. ``result`` is None where it has none, as when the thread was killed in it."""

    thread: int
    name: str
    arguments: list[str]
    begin_ns: int
    end_ns: int
    result: str | None
    error: str | None

    @property
    def value(self) -> int:
        """The number that the call returned; -1 for an error."""
        number = _DESCRIPTOR.match(self.result or "")
        return int(number[1]) if number else -1


def read_calls(folder: Path, prefix: str) -> Iterator[Call]:
    """The calls in all files of a trace, in the order in which they count: see `moment`.

    Those of a thread are in their order already, one after another. Of the files of threads, which together may be far
    larger than memory, a line each is held.
    """
    paths = sorted(folder.glob(f"{prefix}.*"), key=lambda path: path.stat().st_size)
    few = len(paths) - STREAMED_MAX
    # A process may not open as many files as a program has threads: the smallest are held whole.
    whole = [iter(list(_calls_of(path))) for path in paths[: max(few, 0)]]
    return heapq.merge(*whole, *map(_calls_of, paths[max(few, 0) :]), key=moment)


def threads_cut(folder: Path, prefix: str) -> int:
    """The number of threads with missing calls: strace ends the file of a complete thread with a line on its exit."""
    cut = 0
    for path in folder.glob(f"{prefix}.*"):
        with path.open("rb") as lines:
            lines.seek(max(path.stat().st_size - len(_END), 0))
            cut += lines.read() != _END
    return cut


def moment(call: Call) -> tuple[int, int]:
    """The time at which a call takes effect: its end if it changes descriptors, else its beginning."""
    return (call.end_ns if call.name in COUNT_AT_END else call.begin_ns, call.begin_ns)


def _calls_of(path: Path) -> Iterator[Call]:
    """The calls of one thread."""
    thread = int(path.suffix[1:])
    with path.open(encoding="utf-8", errors="surrogateescape", newline="\n") as lines:
        for line in lines:
            call = parse(thread, line.rstrip("\n"))
            if call is not None:
                yield call


def parse(thread: int, line: str) -> Call | None:
    """The call of a line; None for other lines and unfinished calls. Raises BadFileError."""
    found = _CALL.match(line)
    if found is None:
        if line.endswith(("+++", "---")) or "<unfinished" in line or not line.strip() or not line[:1].isdigit():
            return None
        # strace was stopped in the middle of its last line.
        if ") = " not in line:
            return None
        raise BadFileError(f"strace wrote a line that is not understood: {line[:200]!r}")
    seconds, nanoseconds, name, arguments, rest = found.groups()
    begin = int(seconds) * 10**9 + int(nanoseconds)
    spent = _SPENT.match(rest)
    assert spent is not None
    took = int(spent[2]) * 10**9 + int(spent[3]) if spent[2] else 0
    result = spent[1]
    if result.startswith("?"):
        return Call(thread, name, split_arguments(arguments), begin, begin + took, None, None)
    error = result.split(" ")[1] if result.startswith("-1 ") else None
    return Call(thread, name, split_arguments(arguments), begin, begin + took, result, error)


def split_arguments(text: str) -> list[str]:
    """The arguments of a call; commas within texts, paths, lists and structures do not separate them."""
    if not any(mark in text for mark in '"<[{'):
        return text.split(", ") if text else []
    parts, start, depth, index = [], 0, 0, 0
    while index < len(text):
        letter = text[index]
        if letter == '"':
            index = _end_of_text(text, index)
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


def _end_of_text(text: str, start: int) -> int:
    index = start + 1
    while index < len(text) and text[index] != '"':
        index += 2 if text[index] == "\\" else 1
    return index


def _end_of_path(text: str, start: int) -> int:
    """Where the path of a descriptor ends: strace writes a `>` in it as an escape. `<<` is a shift, as in 1<<3."""
    if text.startswith("<<", start):
        return start + 1
    end = text.find(">", start)
    return end if end >= 0 else len(text)


def descriptor(argument: str) -> tuple[int, str | None]:
    """``3</data/a.root>`` as number and path; the path is None where it leads to no file."""
    found = _DESCRIPTOR.match(argument)
    if found is None:
        return -1, None
    number, path, _ = found.groups()
    return int(number), unescaped(path) if path and path.startswith("/") else None


def unescaped(text: str) -> str:
    """A path as it is, from what strace writes of it."""
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
    """The flags among a call's arguments: O_RDONLY, CLONE_FILES, ..."""
    return {flag for argument in call.arguments for flag in re.findall(r"\b[A-Z][A-Z0-9_]+\b", argument)}
