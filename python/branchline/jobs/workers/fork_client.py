"""Starts processes that run a `Forkable`.

On Linux, they are forked from a fork server (`branchline.jobs.workers.fork_server`). The server has imported the
modules that the processes need, and keeps running for later processes. On other systems, or if the server fails, a new
interpreter is started for each process.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Protocol

from branchline.base.limits import FORK_SERVER_LOOK_S, KILL_GRACE_S
from branchline.base.processes import own_python, package_folder
from branchline.jobs.installation import InstallationChangedError, check_installation
from branchline.jobs.interruption import SIGNALS, signals_blocked
from branchline.jobs.workers.fork_server import ANSWER, KNOWN, Forkable
from branchline.jobs.workers.memory import EXIT_NOT_KNOWN

# Run with `-c` instead of `-m`, which would load the server's module as `__main__`: pickled requests refer to the
# module by its real name. The path is needed if only this process can find the package, for example in its initial
# folder.
_FIND = f"import sys; sys.path.append({str(package_folder().parent)!r}); "
_NEW_PROCESS = _FIND + "from branchline.jobs.workers.fork_server import run_here; run_here()"
# The server disables the garbage collector, so that imports use an eighth less CPU time. Forked processes enable it
# again.
_SERVER = "import gc; gc.disable(); " + _FIND + "from branchline.jobs.workers.fork_server import main; main()"
# Initial and maximum pause between checks whether a process has exited, with exponential backoff.
_WAIT_PAUSE_S, _WAIT_PAUSE_MAX_S = 0.0005, 0.02
# Constants from linux/prctl.h.
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


class Process(Protocol):
    """The interface to a started process, which `subprocess.Popen` also satisfies."""

    @property
    def pid(self) -> int: ...
    def poll(self) -> int | None: ...
    def wait(self, timeout: float) -> int: ...
    def send_signal(self, sig: int) -> None: ...
    def kill(self) -> None: ...


class ForkedProcess:
    """A child of this process that was not started by `subprocess`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self._code: int | None = None

    def poll(self) -> int | None:
        """Return the exit code as `subprocess` does, or ``EXIT_NOT_KNOWN``; None while the process is running."""
        if self._code is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # The exit code is lost if other code in this process has waited for the child, or if SIGCHLD is
                # ignored.
                self._code = EXIT_NOT_KNOWN
            else:
                self._code = os.waitstatus_to_exitcode(status) if ended else None
        return self._code

    def wait(self, timeout: float) -> int:
        """Wait for the process and return its exit code. Raises subprocess.TimeoutExpired."""
        until_s, pause_s = time.monotonic() + timeout, _WAIT_PAUSE_S
        while (code := self.poll()) is None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout)
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _WAIT_PAUSE_MAX_S)
        return code

    def send_signal(self, sig: int) -> None:
        """Send a signal unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True)
class _Inherited:
    """The state that new processes inherit from this process.

    A fork server is reused as long as this state is the same as when the server was started.
    """

    owner: int
    environment: tuple[tuple[str, str], ...]
    cores: frozenset[int]
    limits: tuple[tuple[int, int], ...]
    priority: int
    cgroup: bytes
    umask_and_signals: tuple[bytes, ...]

    @classmethod
    def now(cls) -> _Inherited:
        limits = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]
        # Read as bytes, because the process name may be truncated in the middle of a UTF-8 character.
        lines = Path("/proc/self/status").read_bytes().splitlines()
        return cls(
            os.getpid(),
            tuple(sorted(os.environ.items())),
            frozenset(os.sched_getaffinity(0)),
            tuple(resource.getrlimit(one) for one in limits),
            os.getpriority(os.PRIO_PROCESS, 0),
            Path("/proc/self/cgroup").read_bytes(),
            tuple(line for line in lines if line.startswith((b"Umask:", b"SigIgn:", b"Groups:", b"Uid:", b"Gid:"))),
        )


class ForkServer:
    """Starts processes from a fork server, which is started when it is needed and ends with this object.

    ``environment`` has additional environment variables, ``defaults`` has values for variables that this process does
    not set. ``timeout_s`` is the timeout for importing modules, and ``errors`` is the server's own standard error, as
    for `subprocess`. When the server ends, the processes continue to run.
    """

    #: Held while a process is started, because starting temporarily changes how orphans are reparented to this process.
    lock: ClassVar = threading.Lock()
    _requests: socket.socket

    def __init__(
        self,
        environment: Mapping[str, str],
        timeout_s: float,
        errors: int | None = None,
        defaults: Mapping[str, str] | None = None,
    ) -> None:
        self._environment, self._timeout_s, self._errors = dict(environment), timeout_s, errors
        self._defaults = dict(defaults or {})
        # None if no server is running.
        self._inherited: _Inherited | None = None
        self._end: Callable[[], object] = lambda: None
        # True if forking is not possible in this process. Forking is then not attempted again.
        self._is_refused = sys.platform != "linux"

    def prepare(self, request: Forkable) -> None:
        """Ask the server to import the modules of a request, without waiting."""
        # Errors of the server are reported when a process is started.
        with self.lock, signals_blocked(), suppress(OSError, InstallationChangedError):
            if not self._is_refused:
                self._ask(request)

    def start(self, request: Forkable, descriptors: Sequence[int], output: int = 1, errors: int = 2) -> Process:
        """Start a process that inherits the given descriptors. ``output`` and ``errors`` are its standard output and
        standard error.

        Signals are blocked in the new process until it unblocks them. Raises OSError. Raises InstallationChangedError
        if Branchline was reinstalled, because the new process would load other code than this one.
        """
        process: Process | None = None
        try:
            with self.lock, signals_blocked(), _opened(output) as its_output, _opened(errors) as its_errors:
                process = self._fork(request, [its_output, its_errors, *descriptors])
                process = process or self._new_process(request, descriptors, its_output, its_errors)
        except BaseException:
            # A Ctrl-C that arrived while signals were blocked is raised when they are unblocked. End the process here,
            # because no other code has a reference to it yet.
            if process is not None:
                process.kill()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(KILL_GRACE_S)
            raise
        return process

    def end(self) -> None:
        """End the server. In a process that the user forked, only close the socket, because the server belongs to the
        parent.
        """
        self._inherited = None
        self._end()

    @classmethod
    def forked(cls) -> None:
        """Replace the lock in a process that the user forked, because another thread of the parent may have held the
        lock.
        """
        cls.lock = threading.Lock()

    def _new_process(self, request: Forkable, descriptors: Sequence[int], output: int, errors: int) -> Process:
        check_installation()
        process = subprocess.Popen(  # noqa: S603 - Branchline's module, run by this interpreter
            [*own_python(), "-c", _NEW_PROCESS, *map(str, descriptors)],
            pass_fds=descriptors,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            env={**self._defaults, **os.environ, **self._environment},
        )
        assert process.stdin is not None
        # If the process has died, the caller notices this when it waits for the process.
        with suppress(BrokenPipeError), process.stdin as content:
            content.write(pickle.dumps(request))
        return process

    def _fork(self, request: Forkable, descriptors: Sequence[int]) -> ForkedProcess | None:
        """Return a new forked process; None if forking failed."""
        for _ in range(0 if self._is_refused else 2):
            try:
                return self._forked(request, descriptors)
            except OSError as error:
                self.end()
                if isinstance(error, InterruptedError):
                    return None
                # After a timeout, do not try again: importing the modules would take too long again. After another
                # error, try again with a new server, because the server may have exited when it was idle.
                if isinstance(error, TimeoutError):
                    break
            except BaseException:
                # The server is discarded, because its pending response would be taken for the response to the next
                # request.
                self.end()
                raise
        self._is_refused = True
        return None

    def _forked(self, request: Forkable, descriptors: Sequence[int]) -> ForkedProcess:
        """Return a new child of this process. If OSError is raised, no child was left running."""
        known, says_known = os.pipe()
        # Pass a descriptor of the current folder, which is valid even if the folder was deleted.
        folder = os.open(".", os.O_PATH)
        try:
            # Before Linux 4.11, only processes started inside this block are reparented to this process.
            with _orphans_taken():
                self._ask(request, [known, folder, *descriptors])
                pid = self._answer()
            # Raises ChildProcessError if the child was reparented to another process.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.write(says_known, KNOWN)
        finally:
            for one in (known, says_known, folder):
                os.close(one)
        return ForkedProcess(pid)

    def _ask(self, request: Forkable, descriptors: Sequence[int] = ()) -> None:
        """Send a request to the server, or to a new server if the inherited state has changed. Raises OSError and
        InstallationChangedError.
        """
        inherited = _Inherited.now()
        if self._inherited != inherited:
            self.end()
            self._begin()
            self._inherited = inherited
        socket.send_fds(self._requests, [pickle.dumps(request)], list(descriptors))

    def _begin(self) -> None:
        """Start a server. Raises OSError and InstallationChangedError."""
        check_installation()
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(FORK_SERVER_LOOK_S)
        with theirs:
            process = subprocess.Popen(  # noqa: S603 - Branchline's module, run by this interpreter
                [*own_python(), "-c", _SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=self._errors,
                env={**self._defaults, **os.environ, **self._environment},
                # A separate process group, so that Ctrl-C in the terminal reaches only this process.
                process_group=0,
            )
            # A thread waits for the server, so that the server does not stay a zombie process after it has exited.
            wait = threading.Thread(target=process.wait, name="branchline-fork-server", daemon=True)
            wait.start()
        self._end = weakref.finalize(self, _end, self._requests, process, wait, os.getpid())

    def _answer(self) -> int:
        """Return the process ID of the forked process.

        Raises OSError if the server is gone or too slow, and InterruptedError if a signal arrives before the server
        responds.
        """
        until_s = time.monotonic() + self._timeout_s
        while True:
            try:
                answer = self._requests.recv(ANSWER.size)
            except TimeoutError:
                if not signal.sigpending().isdisjoint(SIGNALS):
                    raise InterruptedError("interrupted while starting a process") from None
                if time.monotonic() > until_s:
                    raise
                continue
            if len(answer) < ANSWER.size:
                raise ConnectionError("the fork server died")
            return int(ANSWER.unpack(answer)[0])


os.register_at_fork(after_in_child=ForkServer.forked)


def _end(requests: socket.socket, process: subprocess.Popen[bytes], wait: threading.Thread, owner: int) -> None:
    requests.close()
    if owner == os.getpid():
        process.kill()
        # A process that is blocked by an unresponsive file system may not exit even after SIGKILL.
        wait.join(KILL_GRACE_S)


@contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    """Yield a copy of a descriptor, or a descriptor of the null device if the original is closed, as in some
    services.
    """
    try:
        copy = os.dup(descriptor)
    except OSError:
        copy = os.open(os.devnull, os.O_WRONLY)
    try:
        yield copy
    finally:
        os.close(copy)


@contextmanager
def _orphans_taken() -> Iterator[None]:
    """Make orphaned descendants children of this process inside the ``with`` block, so that this process can wait
    for them.
    """
    before = ctypes.c_int()
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a child subreaper")
    try:
        yield
    finally:
        library.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
