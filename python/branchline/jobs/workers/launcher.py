"""Starts worker processes.

On Linux, workers are forked from a fork server, the starter (`branchline.jobs.workers.fork_server`). It has loaded the
modules that workers need, and is kept for the next train. On other systems, or if the starter fails, each worker is a
new process.
"""

from __future__ import annotations

import atexit
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
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from branchline.base.limits import KILL_GRACE_S, STARTER_ANSWER_S, STARTER_LOOK_S
from branchline.base.processes import own_python, package_folder
from branchline.jobs.interruption import SIGNALS, signals_blocked
from branchline.jobs.program import InstallationChangedError, check_installation, is_cached, own_path
from branchline.jobs.workers.fork_server import ANSWER, KNOWN, Request
from branchline.jobs.workers.memory import EXIT_NOT_KNOWN

# Code is run instead of `-m`, because runpy warns if the package itself imports the worker's module. The path is needed
# for a package that only this process can find, for example in its initial folder.
_FIND = f"import sys; sys.path.append({str(package_folder().parent)!r}); "
_WORKER = _FIND + "from branchline.jobs.workers.worker import main; main()"
# The starter disables the garbage collector, because imports then use an eighth less CPU time; forked workers enable
# it.
_STARTER = "import gc; gc.disable(); " + _FIND + "from branchline.jobs.workers.fork_server import main; main()"
#: User libraries that are preloaded: they are slow to import, and neither start busy threads nor open resources.
_LIBRARIES = ("awkward", "boost_histogram", "hist", "vector", "numba", "scipy", "coffea.nanoevents", "coffea.processor")
# Initial and maximum pause between checks whether a process has exited, with exponential backoff.
_WAIT_PAUSE_S, _WAIT_PAUSE_MAX_S = 0.0005, 0.02
# Constants from linux/prctl.h.
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


class Process(Protocol):
    """The interface to a worker's process, which `subprocess.Popen` also satisfies."""

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
                raise subprocess.TimeoutExpired(f"worker process {self.pid}", timeout)
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

    A starter is reused as long as this state is the same as when the starter was created.
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


class _Starter:
    """The fork server of this process. The constructor raises InstallationChangedError, and OSError if the start
    fails.
    """

    def __init__(self, inherited: _Inherited) -> None:
        check_installation()
        self.inherited = inherited
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(STARTER_LOOK_S)
        with theirs, signals_blocked():
            self._process = subprocess.Popen(  # noqa: S603 - Branchline's module, run by this interpreter
                [*own_python(), "-c", _STARTER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A separate process group: Ctrl-C in the terminal then only reaches the job.
                process_group=0,
            )
            # A thread reaps the process, because it may be long until the next worker is started and waited for.
            self._wait = threading.Thread(target=self._process.wait, name="branchline-starter", daemon=True)
            self._wait.start()

    def ask(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        """Send a request. Raises OSError if the starter is gone."""
        socket.send_fds(self._requests, [pickle.dumps(request)], list(descriptors))

    def answer(self) -> int:
        """Return the process ID of the forked worker.

        Raises OSError if the starter is gone or too slow, and InterruptedError if a signal arrives before the starter
        responds.
        """
        until_s = time.monotonic() + STARTER_ANSWER_S
        while True:
            try:
                answer = self._requests.recv(ANSWER.size)
            except TimeoutError:
                if not signal.sigpending().isdisjoint(SIGNALS):
                    raise InterruptedError("interrupted while starting workers") from None
                if time.monotonic() > until_s:
                    raise
                continue
            if len(answer) < ANSWER.size:
                raise ConnectionError("the process that forks workers died")
            return int(ANSWER.unpack(answer)[0])

    def end(self) -> None:
        """End the starter. In a process that the user forked, only close the socket, because the starter belongs to the
        parent.
        """
        self._requests.close()
        if self.inherited.owner == os.getpid():
            self._process.kill()
            # A process that loads from an unresponsive file system may not even exit now.
            self._wait.join(KILL_GRACE_S)


class _Kept:
    """The starter that is kept to start further workers."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._starter: _Starter | None = None
        # Set if forking is not possible in this process, so that it is not attempted again.
        self._is_refused = sys.platform != "linux"

    def load(self, modules: Sequence[str]) -> None:
        """Ask the starter to load modules, without waiting."""
        # Errors of the starter are reported when a worker is started.
        with suppress(OSError, InstallationChangedError):
            if not self._is_refused:
                self._current().ask(_request(modules))

    def fork(self, descriptors: Sequence[int], modules: Sequence[str]) -> ForkedProcess | None:
        """Return a new worker, or None if no worker can be forked."""
        for _ in range(0 if self._is_refused else 2):
            try:
                return self._forked(_request(modules), descriptors)
            except InterruptedError:
                self.end()
                return None
            except OSError:
                # The starter may have exited because it was idle; the next attempt starts a new one.
                self.end()
            except BaseException:
                # The starter is discarded, because its pending response would be taken for the response to the next
                # request.
                self.end()
                raise
        self._is_refused = True
        return None

    def _forked(self, request: Request, descriptors: Sequence[int]) -> ForkedProcess:
        """Return a new worker that is a child of this process. Raises OSError, after which the worker does not
        exist.
        """
        known, says_known = os.pipe()
        try:
            # Before Linux 4.11, only processes started inside this block are reparented to the job.
            with _orphans_taken():
                starter = self._current()
                starter.ask(request, [*descriptors, known])
                pid = starter.answer()
            # Raises ChildProcessError if the worker was reparented to another process.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.write(says_known, KNOWN)
        finally:
            os.close(known)
            os.close(says_known)
        return ForkedProcess(pid)

    def _current(self) -> _Starter:
        """Return the current starter, or a new starter if the inherited state has changed. Raises OSError."""
        inherited = _Inherited.now()
        if self._starter is not None and self._starter.inherited != inherited:
            self.end()
        if self._starter is None:
            self._starter = _Starter(inherited)
        return self._starter

    def end(self) -> None:
        """End the starter; its workers continue."""
        if self._starter is not None:
            self._starter.end()
        self._starter = None

    def forked(self) -> None:
        """Replace the lock in a process that the user forked, because another thread of the parent may have held the
        lock.
        """
        self.lock = threading.Lock()


_kept = _Kept()
atexit.register(_kept.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept.forked)


def load_for_workers(module: str) -> None:
    """Make the starter load the modules that workers will need, in the background.

    ``module`` is as for `start_worker`.
    """
    with _kept.lock, signals_blocked():
        _kept.load([module])


def start_worker(connection: int, heartbeat: int, errors: int | None, module: str) -> Process:
    """Start a worker that inherits the given descriptors.

    ``errors`` is the worker's standard error; None to share the standard error of this process. ``module`` is the
    module of the callable that the worker will run. Signals are blocked in the worker until it unblocks them. Raises
    InstallationChangedError if the worker would load different code from this process.
    """
    process: Process | None = None
    try:
        with _kept.lock, signals_blocked():
            with _opened(1) as output, _opened(2 if errors is None else errors) as error_output, _here() as folder:
                process = _kept.fork((connection, heartbeat, output, error_output, folder), [module])
            process = process or _new_worker(connection, heartbeat, errors)
    except BaseException:
        # A pending Ctrl-C is raised when signals are unblocked. The worker must be ended here, because no other code
        # knows it yet.
        if process is not None:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(KILL_GRACE_S)
        raise
    return process


def _new_worker(connection: int, heartbeat: int, errors: int | None) -> Process:
    check_installation()
    return subprocess.Popen(  # noqa: S603 - Branchline's module, run by this interpreter
        [*own_python(), "-c", _WORKER, str(connection), str(heartbeat)],
        pass_fds=[connection, heartbeat],
        stdin=subprocess.DEVNULL,
        stderr=errors,
        # A separate process group: Ctrl-C in the terminal then only reaches the job, which shuts the worker down
        # gracefully.
        process_group=0,
    )


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
def _here() -> Iterator[int]:
    """Yield a descriptor of the current folder, even if the folder was deleted."""
    folder = os.open(".", os.O_PATH if sys.platform == "linux" else os.O_RDONLY)
    try:
        yield folder
    finally:
        os.close(folder)


def _request(modules: Sequence[str]) -> Request:
    loaded = [name for name in _LIBRARIES if name in sys.modules]
    installed = [one for one in (*modules, *loaded) if _is_installed(one)]
    return Request(os.getpid(), tuple(one for one in own_path() if is_cached(one)), tuple(installed))


def _is_installed(name: str) -> bool:
    """Return whether a module is installed. Each worker loads other modules, the user's, from their current files."""
    module = sys.modules.get(name)
    return module is None or is_cached(getattr(module, "__file__", None) or "")


@contextmanager
def _orphans_taken() -> Iterator[None]:
    """Make orphaned descendants children of this process inside the ``with`` block, so that this process can wait
    for its workers.
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
