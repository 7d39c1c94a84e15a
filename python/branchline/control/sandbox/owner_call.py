"""Call a process that runs as another Unix user, with a clean environment, a timeout and an answer of limited size.

The server and the process exchange JSON through pipes. Server and process use the same installation of Branchline, and
each call starts a new process, so the messages need no version number.
"""

from __future__ import annotations

import json
import os
import pwd
import select
import shlex
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.base.environment import SITE_CONFIG
from branchline.base.plain import check_types, from_plain, to_plain
from branchline.base.processes import own_python, package_folder
from branchline.base.texts import printable
from branchline.control.sandbox.sandbox import OWNER_ANSWER_MAX_BYTES, OWNER_CALL_S, TAKEN_PIECE_BYTES, TAKEN_S
from branchline.errors import BatchError, OptionError
from branchline.records.sensors.status import TrainStatus

# Placeholder for the user name in the options --submit-as and --submit-in.
_USER = "{user}"
_SAID_MAX_BYTES = 2000
_MODULE = "branchline.control.trains.owner_process"
#: Environment variables of the server that the called process gets, because batch system commands need them.
_PASSED = ("SLURM_CONF", "CONDOR_CONFIG", SITE_CONFIG, "TZ")


@dataclass(frozen=True)
class SubmitAs:
    """How to run a command as a Unix user.

    ``words`` is the command prefix, in which ``{user}`` stands for the user name. ``folder`` is the folder for the
    user's trains; the path can contain ``{user}`` or begin with ``~/``.
    """

    words: tuple[str, ...]
    folder: str = "~/branchline-trains"

    @classmethod
    def of(cls, command: str, folder: str = "") -> SubmitAs:
        """Parse the options --submit-as and --submit-in. Raises OptionError if an option is invalid."""
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise OptionError(f"--submit-as is not a valid command: {error}") from None
        hint = "write it like 'sudo -n -u {user} --'"
        if not words or not any(_USER in one for one in words):
            raise OptionError("--submit-as does not contain {user}", hint=hint)
        if shutil.which(words[0]) is None:
            raise OptionError(f"the command {words[0]} in --submit-as was not found", hint=hint)
        folder = folder or cls.folder
        if not folder.startswith(("/", "~/")) or ".." in Path(folder).parts:
            what = f"--submit-in {folder!r:.200} is not a valid folder"
            raise OptionError(what, hint="write it like /scratch/{user} or ~/trains")
        if folder.startswith("/") and _USER not in folder:
            what = f"--submit-in {folder!r:.200} is the same folder for all users"
            raise OptionError(what, hint="write it like /scratch/{user}")
        return cls(words, folder)

    def folder_of(self, user: pwd.struct_passwd) -> Path:
        """Return the folder for a user's trains."""
        text = self.folder.replace(_USER, user.pw_name)
        return Path(user.pw_dir, text[2:]) if text.startswith("~/") else Path(text)

    def command(self, user: pwd.struct_passwd, action: str, folder: Path) -> list[str]:
        """Return the command line that runs an action in a train's folder as the user."""
        path = os.environ.get("PATH", os.defpath)
        variables = [f"PATH={path}", f"HOME={user.pw_dir}", f"USER={user.pw_name}", f"LOGNAME={user.pw_name}"]
        variables += ["LANG=C.UTF-8", f"PYTHONPATH={package_folder().parent}"]
        variables += [f"{name}={os.environ[name]}" for name in _PASSED if name in os.environ]
        become = [one.replace(_USER, user.pw_name) for one in self.words]
        # -s: do not load packages from the user's home, because the server relies on this process.
        python = [*own_python(), "-s", "-m", _MODULE]
        return [*become, shutil.which("env") or "env", "-i", *variables, *python, action, str(user.pw_uid), str(folder)]

    def ask(self, user: pwd.struct_passwd, action: str, folder: Path) -> OwnerAnswer:
        """Run an action as the user and return the answer.

        Raises BatchError if the action fails or reports an error.
        """
        with self._running(user, action, folder, OWNER_CALL_S) as output:
            content = output.all(OWNER_ANSWER_MAX_BYTES)
            said = output.said()
        try:
            answer = OwnerAnswer.from_json(content)
        except ValueError as error:
            why = f"its answer cannot be read: {printable(str(error))}" if content else "it wrote nothing"
            what = f"the process of {user.pw_name} did not answer: {said or why}"
            hint = "the administrator of the server should check --submit-as"
            raise BatchError(what, hint=hint, retry=True) from None
        if answer.error:
            raise BatchError(printable(answer.error[:_SAID_MAX_BYTES]))
        return answer

    @contextmanager
    def results(self, user: pwd.struct_passwd, folder: Path) -> Iterator[BoundedOutput]:
        """Yield a stream with the train's result files."""
        with self._running(user, "take", folder, TAKEN_S) as output:
            yield output

    @contextmanager
    def _running(self, user: pwd.struct_passwd, action: str, folder: Path, wait_s: float) -> Iterator[BoundedOutput]:
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(  # noqa: S603 - words of the administrator and of this module
                    self.command(user, action, folder),
                    cwd="/",
                    env=become_environment(),
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    start_new_session=True,
                )
            except OSError as error:
                raise BatchError(f"{self.words[0]} cannot be started: {error.strerror}") from None
            assert process.stdout is not None
            with process.stdout:
                yield BoundedOutput(process.stdout.fileno(), time.monotonic() + wait_s, errors.fileno())
            # The server has no permission to kill another user's process, but the process ends because its output pipe
            # is closed.
            with suppress(PermissionError):
                process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)


def become_environment() -> dict[str, str]:
    """Return the environment of the command that switches to the user. Contains no secrets of the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


@dataclass
class BoundedOutput:
    """The output of another user's process, read until the deadline ``end_s`` (monotonic clock).

    A read never returns more bytes than requested.
    """

    descriptor: int
    end_s: float
    errors: int
    _kept: bytes = b""

    def read(self, count: int, /) -> bytes:
        """Return up to ``count`` bytes; empty at the end of the output. Raises BatchError after the deadline."""
        if self._kept:
            piece, self._kept = self._kept[:count], self._kept[count:]
            return piece
        ready, _, _ = select.select([self.descriptor], [], [], max(0.0, self.end_s - time.monotonic()))
        if not ready:
            raise BatchError("the process of the train's owner did not answer in time", retry=True)
        return os.read(self.descriptor, count)

    def readline(self, limit: int, /) -> bytes:
        """Return the next line with its newline.

        A longer line is cut after ``limit`` bytes. The last line of the output may lack a newline.
        """
        line = b""
        while b"\n" not in line and len(line) < limit and (piece := self.read(limit - len(line))):
            line += piece
        head, end, rest = line.partition(b"\n")
        self._kept = rest + self._kept
        return head + end

    def all(self, bytes_max: int) -> bytes:
        """Return the whole output. Raises BatchError if the output exceeds ``bytes_max`` bytes."""
        pieces, total = [], 0
        while piece := self.read(TAKEN_PIECE_BYTES):
            pieces.append(piece)
            total += len(piece)
            if total > bytes_max:
                raise BatchError(f"the process of the train's owner wrote more than {bytes_max} bytes")
        return b"".join(pieces)

    def said(self) -> str:
        """Return the end of the process's standard error output."""
        size = os.fstat(self.errors).st_size
        text = os.pread(self.errors, _SAID_MAX_BYTES, max(0, size - _SAID_MAX_BYTES))
        return printable(text.decode(errors="replace")).strip()


@dataclass(frozen=True)
class StartRequest:
    """A request to start a train: the source files, by name in the train's folder, and the words of the command."""

    sources: dict[str, str]
    command: list[str]

    def as_json(self) -> bytes:
        """Serialize this request to JSON."""
        return json.dumps(to_plain(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> StartRequest:
        """Parse a request from JSON. Raises ValueError for an invalid request."""
        request: StartRequest = from_plain(cls, json.loads(content))
        check_types(request)
        return request


@dataclass(frozen=True)
class OwnerAnswer:
    """A train's state from the owner's process, or the reason why the action failed (``error``).

    All fields have their defaults if the train has not started.
    """

    status: TrainStatus | None = None
    log: str = ""
    is_alive: bool = False
    can_resume: bool = False
    error: str = field(default="", kw_only=True)

    def as_json(self) -> str:
        """Serialize this answer to JSON."""
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, content: bytes) -> OwnerAnswer:
        """Parse an answer. The answer is untrusted, because another user controls the process.

        Raises a ValueError that names the wrong part if the answer is invalid.
        """
        try:
            plain = json.loads(content)
        except (ValueError, RecursionError):
            raise ValueError("it is not JSON") from None
        if not isinstance(plain, dict):
            raise ValueError("it is not a JSON object")
        status = plain.pop("status", None)
        try:
            found = None if status is None else TrainStatus.from_dict(status)
            if found is not None:
                check_types(found)
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"its status cannot be read: {error}") from None
        answer: OwnerAnswer = from_plain(cls, plain)
        check_types(answer)
        return replace(answer, status=found)
