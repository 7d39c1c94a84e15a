"""`branchline trace run`: runs any program under strace, and returns its reads of ROOT files as a trace."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from branchline.base.quantities import counted, size
from branchline.errors import BranchlineError, OptionError
from branchline.reading.locations import shown_command
from branchline.tracing.descriptors import Followed, Follower, ReadTable
from branchline.tracing.file_map import is_root_file, map_file, with_parts
from branchline.tracing.strace_lines import CALLS, OPTIONS, read_calls, threads_cut
from branchline.tracing.trace import (
    END_OF_FILE,
    MAPPED,
    NOT_CACHED,
    OK,
    REQUEST,
    Codes,
    RowGroup,
    Trace,
    TracedJob,
)

_PREFIX = "calls"
#: Maximum number of servers named in a note.
SERVERS_NAMED = 3
#: First version of strace that writes times in nanoseconds.
STRACE_MIN = (5, 6)
#: Timeout of `strace --version` in seconds; the command only hangs if its file system does not respond.
STRACE_ANSWER_S = 30.0


def follow(command: Sequence[str], *, seccomp: bool = True, begin: Callable[[], None] = lambda: None) -> Trace:
    """Run a command under strace until it ends, and return the reads of ROOT files by it and its child processes.

    The command's output is not redirected. Ctrl-C stops only the command; the trace keeps all reads until then.
    With ``seccomp``, strace interrupts the program only at traced calls instead of at every call. ``begin`` is called
    just before the command starts. Raises OptionError if strace or the command does not exist.
    """
    strace = _strace()
    program = shutil.which(command[0])
    if program is None:
        raise OptionError(f"command not found: {command[0]}", hint="give the command after --")
    with tempfile.TemporaryDirectory(prefix="branchline-trace-") as folder:
        output = Path(folder) / _PREFIX
        options = [*OPTIONS, *(["--seccomp-bpf"] if seccomp else [])]
        begin()
        started = time.time_ns()
        code = _run([strace, *options, f"--trace={','.join(CALLS)}", "-o", str(output), "--", *command])
        ended = time.time_ns()
        if not any(Path(folder).iterdir()):
            raise BranchlineError(
                f"strace could not follow {command[0]}: see its message above",
                hint="tracing a program needs the right to use ptrace, which containers may withhold",
            )
        followed = Follower(_is_followed).follow(read_calls(Path(folder), _PREFIX))
        notes = []
        threads = threads_cut(Path(folder), _PREFIX)
        if threads:
            notes.append(
                f"The last calls of {counted(threads, 'thread')} are missing: strace was killed, or the disk of "
                f"{Path(folder).parent} was full. TMPDIR chooses another folder."
            )
    return _as_trace(followed, command, started, ended, code, notes)


def _strace() -> str:
    found = shutil.which("strace")
    if found is None:
        raise OptionError("strace is not installed", hint="install it: apt-get install strace")
    try:
        output = subprocess.run(  # noqa: S603 - the strace of this machine
            [found, "--version"], capture_output=True, text=True, timeout=STRACE_ANSWER_S, check=False
        ).stdout
    except subprocess.TimeoutExpired:
        what = f"strace --version did not answer within {STRACE_ANSWER_S:.0f} s"
        raise OptionError(what, path=found, hint="check that its file system responds", retry=True) from None
    numbers = output.split("version ")[-1].split()[0].split(".") if "version " in output else []
    version = tuple(int(one) for one in numbers[:2] if one.isdigit())
    if version < STRACE_MIN:
        raise OptionError(f"strace {'.'.join(numbers)} is too old", hint="version 5.6 or later is needed")
    return found


def _run(line: list[str]) -> int:
    """Run strace with inherited input and output.

    Returns the exit code; if signal N killed the command, it is 128 + N.
    """
    # Use a handler instead of SIG_IGN: child processes inherit SIG_IGN, but the command must receive Ctrl-C.
    before = signal.signal(signal.SIGINT, _leave_to_the_command)
    try:
        code = subprocess.Popen(line).wait()  # noqa: S603 - the command is the user's own
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _leave_to_the_command(*_: object) -> None:
    """Ignore Ctrl-C in this process: the command receives it too, and strace ends when the command ends."""


def _is_followed(path: str) -> bool:
    """Return whether to trace the reads of a file; most files that programs read are not ROOT files."""
    return path.endswith(".root") or is_root_file(path)


def _readable(text: str) -> str:
    """Return a file name as a valid string: bytes that are not UTF-8 are replaced with escapes."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def _as_trace(
    followed: Followed, command: Sequence[str], started: int, ended: int, code: int, notes: Sequence[str]
) -> Trace:
    reads = followed.reads
    kept = reads.paths()
    more = [*_notes(followed, reads), *_changed(sorted(kept), started), *_elsewhere(followed)]
    job = TracedJob(
        command=_readable(shown_command(command)),
        program="strace",
        host=socket.gethostname(),
        started_unix_ns=started,
        wall_ns=ended - started,
        exit_code=code,
        notes=tuple(_readable(note) for note in [*notes, *more]),
    )
    store = f"local:{socket.gethostname()}"
    groups = [_requests(reads, followed, started, store)] if len(reads) else []
    trace = Trace.of(groups, job)
    # Branchline cannot open files whose names are not UTF-8.
    maps = [map_file(path) for path in sorted(kept) if _readable(path) == path and os.path.exists(path)]
    return with_parts(trace, maps)


def _requests(reads: ReadTable, followed: Followed, started: int, store: str) -> RowGroup:
    """Convert the reads to request rows."""
    begin = np.maximum(reads.column("begin_ns") - started, 0)
    paths = reads.codes("path")
    process = reads.column("process")
    processes, number = np.unique(process, return_inverse=True)
    texts = [_readable(followed.programs.get(one, "")) for one in processes.tolist()]
    known = np.array([bool(text) for text in texts])
    job = Codes(np.where(known[number], number, -1), texts)
    return RowGroup(
        kind=REQUEST,
        request=np.arange(len(reads)),
        job=job,
        process=process,
        thread=reads.column("thread"),
        what=reads.codes("name"),
        file=Codes(paths.indices, [_readable(text) for text in paths.texts]),
        offset=reads.column("offset"),
        size_bytes=reads.column("size_bytes"),
        got_bytes=reads.column("got_bytes"),
        queued_ns=begin,
        sent_ns=begin,
        last_byte_ns=np.maximum(reads.column("end_ns") - started, 0),
        store=Codes(np.zeros(len(reads), "i8"), [store]),
        connection=reads.column("descriptor"),
        attempt=np.ones(len(reads), "i8"),
        outcome=_outcomes(reads),
    )


def _outcomes(reads: ReadTable) -> Codes:
    errors, names = reads.codes("error"), reads.codes("name")
    # EAGAIN occurs only for reads with RWF_NOWAIT (preadv2(2)) that find nothing in the page cache.
    causes = [NOT_CACHED if one == "EAGAIN" else one for one in errors.texts]
    texts = [*causes, OK, END_OF_FILE, MAPPED]
    well, behind, mapped = range(len(errors.texts), len(texts))
    found = np.where((reads.column("got_bytes") > 0) | (reads.column("size_bytes") == 0), well, behind)
    if "mmap" in names.texts:
        found = np.where(names.indices == names.texts.index("mmap"), mapped, found)
    return Codes(np.where(errors.indices >= 0, errors.indices, found), texts)


def _notes(followed: Followed, reads: ReadTable) -> list[str]:
    """Return notes on reads that strace cannot observe."""
    if not len(reads) and not followed.rings:
        return []
    notes = ["It is unknown what a program does with the bytes it reads: a basket counts as used if it was read."]
    if followed.rings:
        notes.append(
            f"The program created {counted(followed.rings, 'io_uring')}: strace cannot see reads through them, so "
            f"they are missing here."
        )
    names = reads.codes("name")
    mapped = reads.column("size_bytes")[names.indices == names.texts.index("mmap")] if "mmap" in names.texts else []
    if len(mapped):
        whole = int(np.sum(mapped))
        notes.append(
            f"Files were mapped into memory {counted(len(mapped), 'time')}, {size(whole)} in total: strace cannot see "
            f"which of these bytes were accessed, so none are counted. To count them, make the program read "
            f"instead: uproot does so with handler=uproot.source.file.MultithreadedFileSource."
        )
    lost = int(np.sum(reads.column("offset") < 0))
    if lost:
        notes.append(
            f"The offset of {counted(lost, 'read')} is unknown: the file descriptor was inherited from outside the "
            f"traced programs."
        )
    return notes


def _changed(paths: Sequence[str], started: int) -> list[str]:
    """Return notes on files that changed during the run."""
    notes = []
    for path in paths:
        if _readable(path) != path:
            notes.append(
                f"The name of {path} is not UTF-8: its branches and baskets are unknown. Trace it by another name."
            )
            continue
        try:
            is_new = os.stat(path).st_ctime_ns > started
        except OSError:
            notes.append(f"{path} was removed: its branches and baskets are unknown.")
            continue
        if is_new:
            notes.append(f"{path} was modified or replaced during the run: reads are mapped to its current content.")
    return notes


def _elsewhere(followed: Followed) -> list[str]:
    """Return a note that names the servers from which the program may have read files."""
    if not followed.servers:
        return []
    most = sorted(followed.servers.items(), key=lambda item: -item[1])
    named = ", ".join(f"{server} ({size(got)} received)" for server, got in most[:SERVERS_NAMED])
    if most[SERVERS_NAMED:]:
        others = sum(got for _, got in most[SERVERS_NAMED:])
        named += f" and {len(most) - SERVERS_NAMED} more ({size(others)})"
    return [
        f"The program connected to {named}: strace cannot see which files and baskets these bytes belong to, so they "
        f"are missing here. If the program reads files from a server, trace it with local copies of some files; "
        f"--trace of Branchline records the reads from any storage."
    ]
