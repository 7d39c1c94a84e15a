"""Fetch wagon files from git repositories: one file of one commit, with the git program and a temporary folder."""

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

# Names of branches, tags and commits. Excludes names that git could parse as an option or a range.
_REF = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_+./-]{0,198}[A-Za-z0-9_+-])?")
_COMMIT = re.compile(r"[0-9a-f]{40}")
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# SSH addresses of the form `git@host:path`, which hosting services show.
_SSH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*@[A-Za-z0-9][A-Za-z0-9.-]*:[^-].*")


@dataclass(frozen=True)
class GitPlace:
    """A file in a repository. ``ref`` is a branch, a tag, a commit (40 hexadecimal digits) or HEAD (default branch)."""

    repository: str
    path: str
    ref: str = "HEAD"

    def check(self) -> None:
        """Raise OptionError if a field is invalid, or if git could parse a field as an option or a pattern."""
        path = PurePosixPath(self.path)
        is_inside = self.path and not path.is_absolute() and ".." not in path.parts and self.path.isprintable()
        if (
            not is_inside
            or path.suffix != ".py"
            or len(self.path) > LOCATION_LENGTH_MAX
            or self.path.startswith(("-", ":"))
        ):
            raise OptionError(
                f"{self.path!r:.200} is not a Python file in a repository", hint="write it like wagons/muons.py"
            )
        if not _REF.fullmatch(self.ref) or ".." in self.ref or "//" in self.ref or self.ref.endswith(".lock"):
            raise OptionError(f"{self.ref!r:.200} is not a branch, tag or commit")
        if not self.repository.isprintable() or len(self.repository) > LOCATION_LENGTH_MAX:
            raise OptionError(f"{self.repository!r:.200} is not the URL of a repository")


@dataclass(frozen=True)
class GitFile:
    """A file's content in a commit (``commit`` has 40 hexadecimal digits)."""

    commit: str
    content: bytes


class GitSources:
    """Fetches files from git repositories.

    If ``hosts`` is None, the control room has a single user. Files may then come from any repository, and git uses this
    user's configuration and keys. Otherwise, the control room is shared. Files then come only from ``hosts``, over
    https, and git has no configuration and no keys, so that users cannot reach repositories to which only the server
    has access.
    """

    def __init__(self, hosts: Sequence[str] | None = None) -> None:
        self._hosts = None if hosts is None else tuple(one.lower() for one in hosts)
        self._turns = threading.BoundedSemaphore(GIT_AT_ONCE)

    @property
    def refused(self) -> str:
        """The reason why fetching from git is disabled; empty if fetching is enabled."""
        return "" if self._hosts is None or self._hosts else "this control room does not allow sources from git"

    def fetch(self, place: GitPlace) -> GitFile:
        """Fetch a file.

        Raises OptionError if ``place`` is invalid or the file does not exist, and RefusedError if the host is not
        allowed. Raises ConflictError if too many fetches are running; a retry may then succeed.
        """
        place.check()
        self._check_repository(place.repository)
        if not self._turns.acquire(timeout=GIT_WAIT_S):
            raise ConflictError("too many users are fetching from git now", hint="try again", retry=True)
        try:
            with tempfile.TemporaryDirectory(prefix="branchline-git-") as folder:
                return _Repository(Path(folder), place, is_alone=self._hosts is None).file()
        finally:
            self._turns.release()

    def _check_repository(self, address: str) -> None:
        if self.refused:
            hint = "upload the file; the administrator of the server can allow hosts with --git"
            raise RefusedError(self.refused, hint=hint)
        if self._hosts is None:
            is_file = address.startswith(("/", "file:///"))
            if is_file or _SSH.fullmatch(address) or (address.startswith("ssh://") and _is_plain(address)):
                return
        parts = urlsplit(address) if _is_plain(address) else urlsplit("")
        is_safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _LOOPBACK)
        if not is_safe or parts.username is not None:
            hint = "write it like https://git.example.org/group/repository.git, without a name or a password"
            raise OptionError(f"{_without_secrets(address)!r:.200} is not the URL of a repository", hint=hint)
        if self._hosts is not None and parts.netloc.lower() not in self._hosts:
            hosts = ", ".join(self._hosts)
            what = f"sources from {parts.netloc!r:.200} are not allowed"
            raise RefusedError(what, hint=f"upload the file, or use a repository at {hosts}")


def _is_plain(address: str) -> bool:
    """Whether a URL has no password, query or fragment, and a host name that git cannot parse as an option."""
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
    """A temporary repository into which git fetches one commit and one file of the commit."""

    def __init__(self, folder: Path, place: GitPlace, *, is_alone: bool) -> None:
        self._folder = folder
        self._place = place
        if is_alone:
            own = {"GIT_TERMINAL_PROMPT": "0", "GIT_SSH_COMMAND": "ssh -o BatchMode=yes", "LC_ALL": "C"}
            self._environment = {**os.environ, **own}
        else:
            self._environment = _bare_environment(folder)
        program = shutil.which("git")
        if program is None:
            raise OptionError("git is not installed on the machine of the control room", hint="upload the file")
        prlimit = shutil.which("prlimit")
        # Limit the size of the files that git writes, so that a large repository cannot fill the disk.
        self._git = [*([prlimit, f"--fsize={GIT_DISK_BYTES}"] if prlimit else []), program]

    def file(self) -> GitFile:
        """Fetch the commit and return the requested file."""
        place = self._place
        self._call("init", "--quiet", "--bare", ".")
        # Configure a partial clone. Servers with support for partial clones send only the commit, its directory
        # trees and, on demand, the requested file.
        for name, value in {
            "url": place.repository,
            "promisor": "true",
            "partialclonefilter": "blob:none",
        }.items():
            self._call("config", f"remote.origin.{name}", value)
        self._call("fetch", "--quiet", "--depth=1", "--no-tags", "--filter=blob:none", "origin", place.ref)
        commit = self._call("rev-parse", "--verify", "FETCH_HEAD^{commit}").decode().strip()
        if not _COMMIT.fullmatch(commit):
            raise OptionError(f"{place.repository} has commits with hashes other than SHA-1", hint="upload the file")
        if _COMMIT.fullmatch(place.ref) and commit != place.ref:
            raise OptionError(f"{place.repository} returned commit {commit} for {place.ref}")
        listed = self._call("ls-tree", "-z", commit, "--", place.path).decode(errors="replace").rstrip("\0")
        mode, kind, rest = [*listed.split(" ", 2), "", "", ""][:3]
        blob = rest.partition("\t")[0]
        if kind != "blob" or mode not in ("100644", "100755"):
            what = f"{place.path} is not a file" if listed else f"there is no {place.path}"
            raise OptionError(f"{what} in {place.repository} at {place.ref} ({commit[:12]})")
        if int(self._call("cat-file", "-s", blob)) > GIT_FILE_MAX_BYTES:
            raise OptionError(f"{place.path} has more than {GIT_FILE_MAX_BYTES} bytes")
        return GitFile(commit, self._call("cat-file", "blob", blob))

    def _call(self, *words: str) -> bytes:
        """Run a git command and return its output. Raise OptionError with git's error message if it fails."""
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
                repository = self._place.repository
                host = urlsplit(repository).hostname or repository.partition(":")[0]
                what = f"{host} did not send the sources within {GIT_WAIT_S:.0f} s"
                raise OptionError(what, retry=True) from None
        if process.returncode != 0:
            # Take the lines with git's prefix "fatal: " or "error: " and remove the prefix, or else take the last two
            # lines.
            lines = [line.strip() for line in printable(said.decode(errors="replace")).splitlines() if line.strip()]
            found = [line.partition(": ")[2] for line in lines if line.startswith(("fatal: ", "error: "))]
            why = _without_secrets("; ".join(dict.fromkeys(found or lines[-2:])))[:500] or "git gave no reason"
            raise OptionError(f"git cannot fetch {self._place.path} from {self._place.repository}: {why}")
        return printed


@contextmanager
def _ended(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """At the end of the block, kill git and the child processes with which git transfers data."""
    try:
        yield
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()


def _bare_environment(folder: Path) -> dict[str, str]:
    """Return an environment in which git uses only http and https, without the server user's configuration and keys."""
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
