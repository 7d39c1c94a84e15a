"""`branchline trace run`: any program under strace, and its reads of ROOT files as a trace."""

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
from branchline.tracing.descriptors import Followed, Follower, Reads
from branchline.tracing.file_map import is_root_file, map_file, with_parts
from branchline.tracing.strace_lines import CALLS, OPTIONS, read_calls, threads_cut
from branchline.tracing.trace import (
    END_OF_FILE,
    MAPPED,
    NOT_CACHED,
    OK,
    REQUEST,
    Codes,
    Group,
    Numbers,
    Trace,
    TracedJob,
)

_PREFIX = "calls"
#: Most servers that a note names.
SERVERS_NAMED = 3
#: The first version of strace that writes times in nanoseconds.
STRACE_MIN = (5, 6)
#: It says its version at once, unless its file system does not answer.
STRACE_ANSWER_S = 30.0


def follow(command: Sequence[str], *, seccomp: bool = True, begin: Callable[[], None] = lambda: None) -> Trace:
    """Runs a command to its end under strace, and gives the reads of ROOT files by it and by all that it started.

    What the command prints goes where it would go without. Ctrl-C reaches the command alone, and what it read until
    then is kept. ``seccomp`` stops the program only at the calls that are followed, and not at every one. ``begin`` is
    called just before the command runs. Raises OptionError where there is no strace or no such command.
    """
    strace = _strace()
    program = shutil.which(command[0])
    if program is None:
        raise OptionError(f"there is no command {command[0]}", hint="give the command after --")
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
                hint="following a program needs the right to trace it (ptrace), which containers may withhold",
            )
        followed = Follower(_is_followed).follow(read_calls(Path(folder), _PREFIX))
        notes = _cut(threads_cut(Path(folder), _PREFIX), Path(folder))
    return _as_trace(followed, command, started, ended, code, notes)


def _strace() -> str:
    found = shutil.which("strace")
    if found is None:
        raise OptionError("there is no strace on this machine", hint="install it: apt-get install strace")
    try:
        output = subprocess.run(  # noqa: S603 - the strace of this machine
            [found, "--version"], capture_output=True, text=True, timeout=STRACE_ANSWER_S, check=False
        ).stdout
    except subprocess.TimeoutExpired:
        what = f"strace did not say its version within {STRACE_ANSWER_S:.0f} s"
        raise OptionError(what, path=found, hint="does the file system answer on which it is?", retry=True) from None
    numbers = output.split("version ")[-1].split()[0].split(".") if "version " in output else []
    version = tuple(int(one) for one in numbers[:2] if one.isdigit())
    if version < STRACE_MIN:
        raise OptionError(f"strace {'.'.join(numbers)} is too old", hint="version 5.6 or later is needed")
    return found


def _run(line: list[str]) -> int:
    """Runs strace with our own input and output; gives its exit code, 128 + the signal for a command that one ended."""
    # A handler, since the command would inherit an ignored signal; it has to receive Ctrl-C.
    before = signal.signal(signal.SIGINT, _leave_to_the_command)
    try:
        code = subprocess.Popen(line).wait()  # noqa: S603 - the command is the user's own
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def _leave_to_the_command(*_: object) -> None:
    """Does nothing: Ctrl-C goes to all processes of the terminal, and strace ends when the command does."""


def _is_followed(path: str) -> bool:
    """Whether reads of a file are kept; a program reads many more other files than ROOT files."""
    return path.endswith(".root") or is_root_file(path)


def _readable(text: str) -> str:
    """A name as text: bytes that are no UTF-8, which names of files may have, are written as escapes."""
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
    # Branchline opens no files whose names are not UTF-8.
    maps = [map_file(path) for path in sorted(kept) if _readable(path) == path and os.path.exists(path)]
    return with_parts(trace, maps)


def _requests(reads: Reads, followed: Followed, started: int, store: str) -> Group:
    """The reads as rows of requests."""
    begin = np.maximum(reads.column("begin_ns") - started, 0)
    paths = reads.codes("path")
    return Group(
        kind=REQUEST,
        request=np.arange(len(reads)),
        job=_programs(reads.column("process"), followed.programs),
        process=reads.column("process"),
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


def _programs(process: Numbers, programs: dict[int, str]) -> Codes:
    """The program of each process."""
    processes, number = np.unique(process, return_inverse=True)
    texts = [_readable(programs.get(one, "")) for one in processes.tolist()]
    known = np.array([bool(text) for text in texts])
    return Codes(np.where(known[number], number, -1), texts)


def _outcomes(reads: Reads) -> Codes:
    errors, names = reads.codes("error"), reads.codes("name")
    # Only a read that must not wait ends so, as RWF_NOWAIT of preadv2(2) has it.
    causes = [NOT_CACHED if one == "EAGAIN" else one for one in errors.texts]
    texts = [*causes, OK, END_OF_FILE, MAPPED]
    well, behind, mapped = range(len(errors.texts), len(texts))
    found = np.where((reads.column("got_bytes") > 0) | (reads.column("size_bytes") == 0), well, behind)
    if "mmap" in names.texts:
        found = np.where(names.indices == names.texts.index("mmap"), mapped, found)
    return Codes(np.where(errors.indices >= 0, errors.indices, found), texts)


def _notes(followed: Followed, reads: Reads) -> list[str]:
    """Notes on reads that strace does not see."""
    if not len(reads) and not followed.rings:
        return []
    notes = ["What a program does with the bytes that it read is not seen: a basket counts as used when it was read."]
    if followed.rings:
        notes.append(
            f"The program made {counted(followed.rings, 'io_uring')}: what is read through them is not seen by strace "
            f"and is missing here."
        )
    names = reads.codes("name")
    mapped = reads.column("size_bytes")[names.indices == names.texts.index("mmap")] if "mmap" in names.texts else []
    if len(mapped):
        whole = int(np.sum(mapped))
        notes.append(
            f"Files were mapped into memory {counted(len(mapped), 'time')}, {size(whole)} in all: what of them was "
            f"touched is not seen by strace, and no bytes are counted for it. To count them let the program read "
            f"instead: uproot does with handler=uproot.source.file.MultithreadedFileSource."
        )
    lost = int(np.sum(reads.column("offset") < 0))
    if lost:
        notes.append(
            f"Of {counted(lost, 'read')} the place in the file is not known: the descriptor came from outside the "
            f"programs that were followed."
        )
    return notes


def _cut(threads: int, folder: Path) -> list[str]:
    """Notes on calls that strace could not write."""
    if not threads:
        return []
    return [
        f"The last calls of {counted(threads, 'thread')} are missing: strace was ended, or found no room for what it "
        f"saw in {folder.parent}, for which TMPDIR names another folder."
    ]


def _changed(paths: Sequence[str], started: int) -> list[str]:
    """Notes on files that changed during the run."""
    notes = []
    for path in paths:
        if _readable(path) != path:
            notes.append(f"The name of {path} is no UTF-8: what was hit in it is not known. Follow it by another name.")
            continue
        try:
            is_new = os.stat(path).st_ctime_ns > started
        except OSError:
            notes.append(f"{path} was removed: its branches and baskets are not known.")
            continue
        if is_new:
            notes.append(f"{path} was written or replaced during the run: hits are named by its present content.")
    return notes


def _elsewhere(followed: Followed) -> list[str]:
    """A note on servers from which the program may have read files."""
    if not followed.servers:
        return []
    most = sorted(followed.servers.items(), key=lambda item: -item[1])
    named = ", ".join(f"{server} ({size(got)} came)" for server, got in most[:SERVERS_NAMED])
    if most[SERVERS_NAMED:]:
        others = sum(got for _, got in most[SERVERS_NAMED:])
        named += f" and {len(most) - SERVERS_NAMED} more ({size(others)})"
    return [
        f"The program connected to {named}: which files and baskets these bytes are of is not seen by strace, and they "
        f"are missing here. If it reads files of a server, follow it with local copies of some; --trace of Branchline "
        f"records any storage."
    ]
