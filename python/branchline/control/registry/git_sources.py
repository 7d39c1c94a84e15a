"""Files of wagons from git: one file of one commit, fetched by git itself into a folder that is gone afterwards."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from urllib.parse import urlsplit

from branchline.base.limits import GIT_AT_ONCE, GIT_DISK_BYTES, GIT_FILE_MAX_BYTES, GIT_WAIT_S, LOCATION_LENGTH_MAX
from branchline.base.texts import printable
from branchline.control.room_errors import ConflictError, RefusedError
from branchline.errors import OptionError

# Names of branches, tags and commits as git allows them, without those that could be an option or a range.
_REF = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_+./-]{0,198}[A-Za-z0-9_+-])?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# `git@host:path`, as services show it.
_SSH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-].*")


@dataclass(frozen=True)
class GitPlace:
    """A file in a repository: ``ref`` is a branch, a tag, a commit of 40 hexadecimal digits, or HEAD, the default
    branch.
    """

    repository: str
    path: str
    ref: str = "HEAD"

    def check(self) -> None:
        """Raises OptionError for what cannot be, or could be taken for something else by git."""
        path = PurePosixPath(self.path)
        is_inside = self.path and not path.is_absolute() and ".." not in path.parts and self.path.isprintable()
        if (
            not is_inside
            or path.suffix != ".py"
            or len(self.path) > LOCATION_LENGTH_MAX
            or self.path.startswith(("-", ":"))
        ):
            raise OptionError(
                f"{self.path!r:.200} is no Python file in a repository", hint="write it like wagons/muons.py"
            )
        if not _REF.fullmatch(self.ref) or ".." in self.ref or "//" in self.ref or self.ref.endswith(".lock"):
            raise OptionError(f"{self.ref!r:.200} is no branch, tag or commit")
        if not self.repository.isprintable() or len(self.repository) > LOCATION_LENGTH_MAX:
            raise OptionError(f"{self.repository!r:.200} is no address of a repository")


@dataclass(frozen=True)
class GitFile:
    """A file as it is in a commit of 40 hexadecimal digits."""

    commit: str
    content: bytes


class GitSources:
    """Fetches files. Somebody alone may take them from anywhere, with their own keys and settings of git. With
    ``hosts`` it serves others: from these hosts alone, by https, with no settings and no keys, or it would reach for
    them what they cannot.
    """

    def __init__(self, hosts: Sequence[str] | None = None) -> None:
        self._hosts = None if hosts is None else tuple(one.lower() for one in hosts)
        self._turns = threading.BoundedSemaphore(GIT_AT_ONCE)

    @property
    def refused(self) -> str:
        """Why nothing is fetched here; empty if something may be."""
        return "" if self._hosts is None or self._hosts else "this control room takes no sources from git"

    def fetch(self, place: GitPlace) -> GitFile:
        """The file. Raises OptionError for what is not there or cannot be, RefusedError for a host that is not allowed,
        ConflictError where too many are fetched at once; a repeat may help then.
        """
        place.check()
        self._check_repository(place.repository)
        if not self._turns.acquire(timeout=GIT_WAIT_S):
            raise ConflictError("others fetch from git now", hint="try again", retry=True)
        try:
            with tempfile.TemporaryDirectory(prefix="branchline-git-") as folder:
                return _Repository(Path(folder), place, is_alone=self._hosts is None).file()
        finally:
            self._turns.release()

    def _check_repository(self, address: str) -> None:
        if self.refused:
            raise RefusedError(self.refused, hint="upload the file; whoever runs the server names hosts with --git")
        if self._hosts is None:
            is_file = address.startswith(("/", "file:///"))
            if is_file or _SSH.fullmatch(address) or (address.startswith("ssh://") and _is_plain(address)):
                return
        parts = urlsplit(address) if _is_plain(address) else urlsplit("")
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        if not is_safe or parts.username is not None:
            hint = "write it like https://git.example.org/group/repository.git, without a name or a password"
            raise OptionError(f"{_without_secrets(address)!r:.200} is no address of a repository", hint=hint)
        if self._hosts is not None and parts.netloc.lower() not in self._hosts:
            hosts = ", ".join(self._hosts)
            raise RefusedError(f"sources come from {hosts}, and not from {parts.netloc!r:.200}", hint="upload the file")


def _is_plain(address: str) -> bool:
    """Whether an address has a host that is none of git's options, no password, and nothing behind the path."""
    try:
        parts = urlsplit(address)
        host = parts.hostname or ""
        _ = parts.port
    except ValueError:
        return False
    return bool(host) and not host.startswith("-") and parts.password is None and not parts.query and not parts.fragment


def _without_secrets(address: str) -> str:
    return re.sub(r"//[^/@]*@", "//...@", address)


class _Repository:
    """An empty repository, into which a commit and one file of it are fetched."""

    def __init__(self, folder: Path, place: GitPlace, *, is_alone: bool) -> None:
        self._folder = folder
        self._place = place
        self._environment = _own_environment() if is_alone else _bare_environment(folder)
        program = shutil.which("git")
        if program is None:
            raise OptionError("git is not installed on the machine of the control room", hint="upload the file")
        prlimit = shutil.which("prlimit")
        # A repository of any size must not fill the disk.
        self._git = [*([prlimit, f"--fsize={GIT_DISK_BYTES}"] if prlimit else []), program]

    def file(self) -> GitFile:
        """The file of the commit."""
        place = self._place
        self._call("init", "--quiet", "--bare", ".")
        # Of a server that can, only what is asked for comes: the commit, its folders, and then the one file.
        for name, value in {
            "url": place.repository,
            "promisor": "true",
            "partialclonefilter": "blob:none",
        }.items():
            self._call("config", f"remote.origin.{name}", value)
        self._call("fetch", "--quiet", "--depth=1", "--no-tags", "--filter=blob:none", "origin", place.ref)
        commit = self._call("rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
        if not _COMMIT.fullmatch(commit):
            raise OptionError(f"{place.repository} has commits of another kind than SHA-1", hint="upload the file")
        if _COMMIT.fullmatch(place.ref) and commit != place.ref:
            raise OptionError(f"{place.repository} gave commit {commit} for {place.ref}")
        listed = self._call("ls-tree", "-z", commit, "--", place.path).decode(errors="replace").rstrip("\0")
        mode, kind, rest = [*listed.split(" ", 2), "", "", ""][:3]
        blob = rest.partition("\t")[0]
        if kind != "blob" or mode not in ("100644", "100755"):
            what = f"{place.path} is no file" if listed else f"there is no {place.path}"
            raise OptionError(f"{what} in {place.repository} at {place.ref} ({commit[:12]})")
        if int(self._call("cat-file", "-s", blob)) > GIT_FILE_MAX_BYTES:
            raise OptionError(f"{place.path} has more than {GIT_FILE_MAX_BYTES} bytes")
        return GitFile(commit, self._call("cat-file", "blob", blob))

    def _call(self, *words: str) -> bytes:
        """What a command of git prints. Raises OptionError with what it complains about."""
        safe = [
            "-c",
            "http.followRedirects=false",
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "credential.interactive=false",
        ]
        command = [*self._git, *safe, *words]
        process = subprocess.Popen(  # noqa: S603 - the program is git
            command,
            cwd=self._folder,
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        with _ended(process):
            try:
                printed, said = process.communicate(timeout=GIT_WAIT_S)
            except subprocess.TimeoutExpired:
                what = f"{_host_of(self._place.repository)} did not give the sources within {GIT_WAIT_S:.0f} s"
                raise OptionError(what, retry=True) from None
        if process.returncode != 0:
            raise OptionError(f"git cannot take {self._place.path} from {self._place.repository}: {_complaint(said)}")
        return printed


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Ends git with the programs that it has started, which do the transfer."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _own_environment() -> dict[str, str]:
    return {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes", "LC_ALL": "C"}


def _bare_environment(folder: Path) -> dict[str, str]:
    """Nothing of the user of the server: no settings, no keys, no other protocols than for the web."""
    kept = {name: os.environ[name] for name in ("PATH", "SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ}
    return {
        **kept,
        "HOME": str(folder),
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_ALLOW_PROTOCOL": "https:http",
    }


def _host_of(repository: str) -> str:
    return urlsplit(repository).hostname or repository.partition(":")[0]


def _complaint(said: bytes) -> str:
    """The last lines of what git says, without its own words for an error."""
    lines = [line.strip() for line in printable(said.decode(errors="replace")).splitlines() if line.strip()]
    found = [line.partition(": ")[2] for line in lines if line.startswith(("fatal: ", "error: "))]
    return _without_secrets("; ".join(dict.fromkeys(found or lines[-2:])))[:500] or "it does not say why"
