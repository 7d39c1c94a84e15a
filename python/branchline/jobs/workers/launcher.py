"""How worker processes are started: on Linux forked from a starter (`branchline.jobs.workers.fork_server`), which has
loaded what they need and is kept for the next train; elsewhere, and where it fails, as new processes.
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

# Not `-m`: the package may import the module of the worker by itself, which runpy warns of. A package that only this
# process knows of, such as one in the folder where it began, is found as well.
_FIND = f"import sys; sys.path.append({str(package_folder().parent)!r}); "
_WORKER = _FIND + "from branchline.jobs.workers.worker import main; main()"
_STARTER = _FIND + "from branchline.jobs.workers.fork_server import main; main()"
#: Libraries of the users that take long to load, and neither begin threads that work nor open anything.
_LIBRARIES = ("awkward", "boost_histogram", "hist", "vector", "numba", "scipy", "coffea.nanoevents", "coffea.processor")
# How long is waited between two looks at a process that is to end: more and more.
_WAIT_PAUSE_S, _WAIT_PAUSE_MAX_S = 0.0005, 0.02
# linux/prctl.h
_PR_SET_CHILD_SUBREAPER, _PR_GET_CHILD_SUBREAPER = 36, 37


class Process(Protocol):
    """What a job does with the process of a worker; `subprocess.Popen` has the same."""

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
        """How it ended, as `subprocess` says it, or ``EXIT_NOT_KNOWN``; None while it lives."""
        if self._code is None:
            try:
                ended, status = os.waitpid(self.pid, os.WNOHANG)
            except ChildProcessError:
                # Somebody else in this process waited for it, or SIGCHLD is ignored.
                self._code = EXIT_NOT_KNOWN
            else:
                self._code = os.waitstatus_to_exitcode(status) if ended else None
        return self._code

    def wait(self, timeout: float) -> int:
        """Raises subprocess.TimeoutExpired."""
        until_s, pause_s = time.monotonic() + timeout, _WAIT_PAUSE_S
        while (code := self.poll()) is None:
            left_s = until_s - time.monotonic()
            if left_s <= 0:
                raise subprocess.TimeoutExpired(f"worker process {self.pid}", timeout)
            time.sleep(min(pause_s, left_s))
            pause_s = min(2 * pause_s, _WAIT_PAUSE_MAX_S)
        return code

    def send_signal(self, sig: int) -> None:
        """Does nothing if it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


@dataclass(frozen=True)
class _Inherited:
    """What a new process would get from this one. A starter serves as long as that is what it got itself."""

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
        # Bytes: in them is the name of the process, of which Linux may have cut a letter in two.
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
    """The starter of this process. Raises InstallationChangedError, and OSError where none can be started."""

    def __init__(self, inherited: _Inherited) -> None:
        check_installation()
        self.inherited = inherited
        self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._requests.settimeout(STARTER_LOOK_S)
        with theirs, signals_blocked():
            self._process = subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
                [*own_python(), "-c", _STARTER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                # A group of its own: Ctrl-C on the terminal reaches only the job.
                process_group=0,
            )
            # One that ends by itself stays a zombie until it is waited for, and the next worker may come much later.
            self._wait = threading.Thread(target=self._process.wait, name="branchline-starter", daemon=True)
            self._wait.start()

    def ask(self, request: Request, descriptors: Sequence[int] = ()) -> None:
        """Raises OSError where it is gone."""
        socket.send_fds(self._requests, [pickle.dumps(request)], list(descriptors))

    def answer(self) -> int:
        """The number of the process that it has forked. Raises OSError where it is gone or too slow, and
        InterruptedError where it does not answer at once and the user does not want to wait.
        """
        until_s = time.monotonic() + STARTER_ANSWER_S
        while True:
            try:
                answer = self._requests.recv(ANSWER.size)
            except TimeoutError:
                if not signal.sigpending().isdisjoint(SIGNALS):
                    raise InterruptedError("interrupted while workers are started") from None
                if time.monotonic() > until_s:
                    raise
                continue
            if len(answer) < ANSWER.size:
                raise ConnectionError("the process that starts workers died")
            return int(ANSWER.unpack(answer)[0])

    def end(self) -> None:
        """Ends it. Where it is another's, as after a fork of this process, only our end is closed."""
        self._requests.close()
        if self.inherited.owner == os.getpid():
            self._process.kill()
            # One that loads from a dead file system does not even end now.
            self._wait.join(KILL_GRACE_S)


class _Kept:
    """The starter that is kept for the next worker."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._starter: _Starter | None = None
        # Whether it cannot be done here: after that nothing is tried again.
        self._is_refused = sys.platform != "linux"

    def load(self, modules: Sequence[str]) -> None:
        """Asks for modules, and does not wait for them."""
        # What keeps a starter from starting is said where a worker is asked for.
        with suppress(OSError, InstallationChangedError):
            if not self._is_refused:
                self._current().ask(_request(modules))

    def fork(self, descriptors: Sequence[int], modules: Sequence[str]) -> ForkedProcess | None:
        """A worker; None where that cannot be."""
        for _ in range(0 if self._is_refused else 2):
            try:
                return self._forked(_request(modules), descriptors)
            except InterruptedError:
                self.end()
                return None
            except OSError:
                # It may have ended since nobody needed it; the next one is new.
                self.end()
            except BaseException:
                # Its answer to this request would be taken for the one to the next.
                self.end()
                raise
        self._is_refused = True
        return None

    def _forked(self, request: Request, descriptors: Sequence[int]) -> ForkedProcess:
        """A worker that is a child of this process. Raises OSError; then there is none that works."""
        known, says_known = os.pipe()
        try:
            # Before Linux 4.11 orphans come only from processes that are started inside of this block.
            with _orphans_taken():
                starter = self._current()
                starter.ask(request, [*descriptors, known])
                pid = starter.answer()
            # Raises ChildProcessError where this machine gave it to somebody else.
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            os.write(says_known, KNOWN)
        finally:
            os.close(known)
            os.close(says_known)
        return ForkedProcess(pid)

    def _current(self) -> _Starter:
        """That of before, if a new one would be the same. Raises OSError."""
        inherited = _Inherited.now()
        if self._starter is not None and self._starter.inherited != inherited:
            self.end()
        if self._starter is None:
            self._starter = _Starter(inherited)
        return self._starter

    def end(self) -> None:
        """Ends it; its workers go on."""
        if self._starter is not None:
            self._starter.end()
        self._starter = None

    def forked(self) -> None:
        """In a process that the user forked: another thread may have held the lock."""
        self.lock = threading.Lock()


_kept = _Kept()
atexit.register(_kept.end)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_kept.forked)


def load_for_workers(module: str) -> None:
    """Has the starter load what workers will need, while the job goes on. ``module`` is as for `start_worker`."""
    with _kept.lock, signals_blocked():
        _kept.load([module])


def start_worker(connection: int, heartbeat: int, errors: int | None, module: str) -> Process:
    """A worker with these descriptors; ``errors`` is its standard error, None for that of this process. ``module`` is
    that of the callable which it will work on. Until it says that it can deal with them it hears no signals.

    Raises InstallationChangedError where it would not have the code of this process.
    """
    process: Process | None = None
    try:
        with _kept.lock, signals_blocked():
            with _opened(1) as output, _opened(2 if errors is None else errors) as error_output, _here() as folder:
                process = _kept.fork((connection, heartbeat, output, error_output, folder), [module])
            process = process or _new_worker(connection, heartbeat, errors)
    except BaseException:
        # Ctrl-C that came meanwhile is raised when signals are heard again: nobody else knows of the process.
        if process is not None:
            process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(KILL_GRACE_S)
        raise
    return process


def _new_worker(connection: int, heartbeat: int, errors: int | None) -> Process:
    check_installation()
    return subprocess.Popen(  # noqa: S603 - our own module, by our own interpreter
        [*own_python(), "-c", _WORKER, str(connection), str(heartbeat)],
        pass_fds=[connection, heartbeat],
        stdin=subprocess.DEVNULL,
        stderr=errors,
        # A group of its own: Ctrl-C on the terminal reaches only the job, which passes it on in good order.
        process_group=0,
    )


@contextmanager
def _opened(descriptor: int) -> Iterator[int]:
    """A copy of a descriptor; of one that is closed, as in some services, that of the null device."""
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
    """The current folder, even where it was removed."""
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
    """Whether a module is not of the user, whose modules each worker loads as their files are then."""
    module = sys.modules.get(name)
    return module is None or is_cached(getattr(module, "__file__", None) or "")


@contextmanager
def _orphans_taken() -> Iterator[None]:
    """Inside the block orphans below this process become its children, so that it can wait for its workers."""
    before = ctypes.c_int()
    library = ctypes.CDLL(None, use_errno=True)
    library.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    if library.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "this machine gives no orphans")
    try:
        yield
    finally:
        library.prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)
