"""What the machine must have for these servers, and folders and mounts that are gone afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

import pytest
from tests.stores.servers import Process

START_TIMEOUT_S = 90


def needed(name: str) -> str:
    """The path of a program; a test that needs one that is not there is skipped."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin")
    if found is None:
        pytest.skip(f"the program {name} is missing; tests/storage/install.sh installs it where it can")
    return found


def needs_root(what_for: str) -> None:
    if os.geteuid() != 0:
        pytest.skip(f"only root may {what_for}")


def needs_fuse() -> None:
    needs_root("mount")
    try:
        with open("/dev/fuse", "rb+", buffering=0):
            pass
    except OSError as error:
        pytest.skip(f"/dev/fuse cannot be opened ({error.strerror}), so nothing can be mounted")


def run(*arguments: object, timeout_s: float = 60, **more: object) -> str:
    """What a command writes; an error with all that it wrote if it fails."""
    words = [str(one) for one in arguments]
    done = subprocess.run(words, capture_output=True, text=True, timeout=timeout_s, stdin=subprocess.DEVNULL, **more)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stdout}{done.stderr}"
    return done.stdout


def wait_until(happened: Callable[[], bool], what: str, timeout_s: float = START_TIMEOUT_S) -> None:
    end_s = time.monotonic() + timeout_s
    while not happened():
        assert time.monotonic() < end_s, f"{what} did not happen within {timeout_s} s"
        time.sleep(0.05)


class Room:
    """A folder for the servers of one test session, and all that runs and is mounted in it."""

    def __init__(self, name: str) -> None:
        self.path = Path(tempfile.mkdtemp(prefix=f"branchline-{name}-"))
        self.path.chmod(0o755)
        self._processes: list[Process] = []
        self._mounts: list[Path] = []
        self._last: list[Callable[[], object]] = []

    def below(self, name: str) -> Path:
        folder = self.path / name
        folder.mkdir(exist_ok=True, parents=True)
        return folder

    def start(self, process: Process) -> Process:
        self._processes.append(process)
        process.start()
        return process

    def mount(self, arguments: Iterable[object], place: Path, environment: dict[str, str] | None = None) -> Process:
        """Runs a file system's client in the foreground, until something is mounted at the place."""
        process = Process([str(one) for one in arguments], place.is_mount, self.path / f"{place.name}.log", environment)
        self._mounts.append(place)
        return self.start(process)

    def at_the_end(self, work: Callable[[], object]) -> None:
        """Does this before the processes are ended."""
        self._last.append(work)

    def close(self) -> None:
        """Unmounts and ends all, whatever of it still works; a folder under which something is mounted stays."""
        for place in reversed(self._mounts):
            with suppress(OSError, subprocess.SubprocessError):
                subprocess.run(["umount", "-l", str(place)], capture_output=True, timeout=20)
        for work in reversed(self._last):
            with suppress(AssertionError, OSError, subprocess.SubprocessError):
                work()
        for process in reversed(self._processes):
            process.kill()
        if not any(place.is_mount() for place in self._mounts):
            shutil.rmtree(self.path, ignore_errors=True)
