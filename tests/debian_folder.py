"""Folders with a Debian system, created on first use, for programs that are not installed on this system."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

MAKE_TIMEOUT_S = 1500


def debian_folder(folder: Path, packages: Sequence[str], programs: Sequence[str], purpose: str) -> Path:
    """Return the folder with Debian 13 and these packages. Installs them if one of ``programs`` is missing.

    The installation takes a few minutes. Other processes that need the same folder wait for it. Skips the test if the
    folder cannot be created.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not all((folder / one).exists() for one in programs):
            _make(folder, packages, purpose)
    return folder


def _make(folder: Path, packages: Sequence[str], purpose: str) -> None:
    makers = [shutil.which(one) for one in ("unshare", "mmdebstrap")]
    if os.geteuid() != 0 or None in makers:
        pytest.skip(f"creating a folder with {purpose} requires root, unshare and mmdebstrap")
    making = folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    # Use a separate mount namespace, because mmdebstrap mounts this system's /dev/shm in the folder. Otherwise removing
    # the folder of an interrupted installation would remove the shared memory of all processes.
    words = [str(makers[0]), "--mount", str(makers[1]), "--variant=apt", f"--include={','.join(packages)}", "trixie"]
    words += [str(making), *_mirror()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False)
    if done.returncode:
        shutil.rmtree(making, ignore_errors=True)
        pytest.skip(f"{purpose} cannot be installed: {done.stderr[-500:]}")
    shutil.rmtree(folder, ignore_errors=True)
    making.rename(folder)


def _mirror() -> list[str]:
    """Return the URL from which this machine installs packages, as a list with one item; empty if unknown."""
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("URIs:"):
                return line.split()[1:2]
    return []
