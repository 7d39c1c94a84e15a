"""Calls of the process that runs as a Unix user: separate environment, bounded time, bounded answer.

The server and the process exchange JSON through pipes. Both use the same installation of Branchline, and each call
starts a new process, so the messages need no version.
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

from branchline.base.plain import check_types, from_plain, to_plain
from branchline.base.processes import own_python, package_folder
from branchline.base.texts import printable
from branchline.control.sandbox.sandbox import OWNER_ANSWER_MAX_BYTES, OWNER_CALL_S, TAKEN_PIECE_BYTES, TAKEN_S
from branchline.errors import BatchError, OptionError
from branchline.records.sensors.status import TrainStatus

# Placeholder for the user name in commands and folders.
_USER = "{user}"
_SAID_MAX_BYTES = 2000
_MODULE = "branchline.control.trains.owner_process"
#: What commands of batch systems find their configuration by. Nothing else of the server's environment goes over.
_PASSED = ("SLURM_CONF", "CONDOR_CONFIG", "BRANCHLINE_SITE_CONFIG", "TZ")


@dataclass(frozen=True)
class SubmitAs:
    """How to become a Unix user: the words of a command with ``{user}``, and the folder in which trains of a user are;
    ``~`` is their home.
    """

    words: tuple[str, ...]
    folder: str = "~/branchline-trains"

    @classmethod
    def of(cls, command: str, folder: str = "") -> SubmitAs:
        """Of options. Raises OptionError for what cannot be."""
        try:
            words = tuple(shlex.split(command))
        except ValueError as error:
            raise OptionError(f"--submit-as is no command: {error}") from None
        hint = "as 'sudo -n -u {user} --'"
        if not words or not any(_USER in one for one in words):
            raise OptionError("--submit-as has no {user}", hint=hint)
        if shutil.which(words[0]) is None:
            raise OptionError(f"there is no {words[0]} here", hint=hint)
        folder = folder or cls.folder
        if not folder.startswith(("/", "~/")) or ".." in Path(folder).parts:
            raise OptionError(f"--submit-in {folder!r:.200} is no folder", hint="as /scratch/{user}, or ~/trains")
        if folder.startswith("/") and _USER not in folder:
            raise OptionError(f"--submit-in {folder!r:.200} is one for all", hint="as /scratch/{user}")
        return cls(words, folder)

    def folder_of(self, user: pwd.struct_passwd) -> Path:
        """Where the trains of a user are."""
        text = self.folder.replace(_USER, user.pw_name)
        return Path(user.pw_dir, text[2:]) if text.startswith("~/") else Path(text)

    def command(self, user: pwd.struct_passwd, action: str, folder: Path) -> list[str]:
        """The words by which the user does an action in a folder."""
        path = os.environ.get("PATH", os.defpath)
        variables = [f"PATH={path}", f"HOME={user.pw_dir}", f"USER={user.pw_name}", f"LOGNAME={user.pw_name}"]
        variables += ["LANG=C.UTF-8", f"PYTHONPATH={package_folder().parent}"]
        variables += [f"{name}={os.environ[name]}" for name in _PASSED if name in os.environ]
        become = [one.replace(_USER, user.pw_name) for one in self.words]
        # Packages in the home of the user are not for a process of which the server asks something.
        python = [*own_python(), "-s", "-m", _MODULE]
        return [*become, shutil.which("env") or "env", "-i", *variables, *python, action, str(user.pw_uid), str(folder)]

    def ask(self, user: pwd.struct_passwd, action: str, folder: Path) -> OwnerAnswer:
        """What the process answers. Raises BatchError, also for what it says went wrong."""
        with self._running(user, action, folder, OWNER_CALL_S) as output:
            content = output.all(OWNER_ANSWER_MAX_BYTES)
            said = output.said()
        try:
            answer = OwnerAnswer.from_json(content)
        except ValueError as error:
            why = f"its answer cannot be read: {printable(str(error))}" if content else "it wrote nothing"
            what = f"the process of {user.pw_name} did not answer: {said or why}"
            raise BatchError(what, hint="whoever runs the server looks at --submit-as", retry=True) from None
        if answer.error:
            raise BatchError(printable(answer.error[:_SAID_MAX_BYTES]))
        return answer

    @contextmanager
    def results(self, user: pwd.struct_passwd, folder: Path) -> Iterator[BoundedOutput]:
        """The stream of the files of a train's results."""
        with self._running(user, "take", folder, TAKEN_S) as output:
            yield output

    @contextmanager
    def _running(self, user: pwd.struct_passwd, action: str, folder: Path, wait_s: float) -> Iterator[BoundedOutput]:
        with tempfile.TemporaryFile() as errors:
            try:
                process = subprocess.Popen(  # noqa: S603 - the words are of who runs the server, and ours
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
            # One of another user cannot be ended by this one; it ends by itself, as nobody reads what it writes.
            with suppress(PermissionError):
                process.kill()
            with suppress(subprocess.TimeoutExpired):
                process.wait(1.0)


def become_environment() -> dict[str, str]:
    """That of the command which becomes a user: nothing that could be a secret of the server."""
    return {"PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8"}


@dataclass
class BoundedOutput:
    """What a process of another user writes: read until a moment, and never more than is asked for."""

    descriptor: int
    end_s: float
    errors: int
    _kept: bytes = b""

    def read(self, count: int, /) -> bytes:
        """Some bytes; none at the end. Raises BatchError when it takes too long."""
        if self._kept:
            piece, self._kept = self._kept[:count], self._kept[count:]
            return piece
        ready, _, _ = select.select([self.descriptor], [], [], max(0.0, self.end_s - time.monotonic()))
        if not ready:
            raise BatchError("the process of the train's owner did not answer in time", retry=True)
        return os.read(self.descriptor, count)

    def readline(self, limit: int, /) -> bytes:
        """A line with its end; as much of it as there is, and at most so many bytes."""
        line = b""
        while b"\n" not in line and len(line) < limit and (piece := self.read(limit - len(line))):
            line += piece
        head, end, rest = line.partition(b"\n")
        self._kept = rest + self._kept
        return head + end

    def all(self, bytes_max: int) -> bytes:
        """All that it writes. Raises BatchError for more than so many bytes."""
        pieces, total = [], 0
        while piece := self.read(TAKEN_PIECE_BYTES):
            pieces.append(piece)
            total += len(piece)
            if total > bytes_max:
                raise BatchError(f"the process of the train's owner wrote more than {bytes_max} bytes")
        return b"".join(pieces)

    def said(self) -> str:
        """The end of what it wrote to its terminal."""
        size = os.fstat(self.errors).st_size
        text = os.pread(self.errors, _SAID_MAX_BYTES, max(0, size - _SAID_MAX_BYTES))
        return printable(text.decode(errors="replace")).strip()


@dataclass(frozen=True)
class StartRequest:
    """The sources of a train by their names in its folder, and the words of its command."""

    sources: dict[str, str]
    command: list[str]

    def as_json(self) -> bytes:
        """As it is sent."""
        return json.dumps(to_plain(self)).encode()

    @classmethod
    def from_json(cls, content: bytes) -> StartRequest:
        """Raises ValueError for anything else."""
        request: StartRequest = from_plain(cls, json.loads(content))
        check_types(request)
        return request


@dataclass(frozen=True)
class OwnerAnswer:
    """How a train stands, as its owner sees it, or a sentence on why something cannot be done (``error``). Of a train
    that has not begun all are empty.
    """

    status: TrainStatus | None = None
    log: str = ""
    is_alive: bool = False
    can_resume: bool = False
    error: str = field(default="", kw_only=True)

    def as_json(self) -> str:
        """As it is sent."""
        return json.dumps(to_plain(self))

    @classmethod
    def from_json(cls, content: bytes) -> OwnerAnswer:
        """Raises ValueError for anything else, which says what of it cannot be read: the process is another user's,
        who may have it say what they like.
        """
        try:
            plain = json.loads(content)
        except (ValueError, RecursionError):
            raise ValueError("it is no JSON") from None
        if not isinstance(plain, dict):
            raise ValueError("it is no object of JSON")
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
