"""The sandbox of code of users on a shared server: a file system that it can only read, no network, limits.

Bubblewrap makes the sandbox from namespaces of the kernel; no right is needed for it where the kernel lets users make
these. What is tried is the sandbox itself, not the version of a program.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from branchline.limits import (
    SANDBOX_PROBE_S,
    TRIAL_CPU_S,
    TRIAL_FILE_MAX_BYTES,
    TRIAL_MEMORY_MAX_BYTES,
    TRIAL_SPACE_BYTES,
    TRIAL_TASKS_MAX,
)

# What Python and its packages need of the system.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")


@dataclass(frozen=True)
class Sandbox:
    """How commands are started in a sandbox: with these programs."""

    bwrap: str
    prlimit: str
    #: That of these programs: code in the sandbox can read it, so that it has nothing of the server's.
    environment: ClassVar[dict[str, str]] = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    @classmethod
    def find(cls) -> Sandbox | str:
        """The sandbox of this machine, or a sentence that says why there is none."""
        programs = {name: shutil.which(name) for name in ("bwrap", "prlimit")}
        for name, path in programs.items():
            if path is None:
                package = {"bwrap": "bubblewrap", "prlimit": "util-linux"}[name]
                return f"{name} is not installed (package {package})"
        found = cls(str(programs["bwrap"]), str(programs["prlimit"]))
        command = found.command(["/bin/true"], Path("/"), [])
        try:
            done = subprocess.run(command, capture_output=True, timeout=SANDBOX_PROBE_S, check=False, text=True)  # noqa: S603
        except (OSError, subprocess.TimeoutExpired) as error:
            return f"{found.bwrap} does not run here: {error}"
        return found if done.returncode == 0 else f"{found.bwrap} does not run here: {done.stderr.strip()[:300]}"

    def command(self, command: Sequence[str], folder: Path, readable: Sequence[Path]) -> list[str]:
        """A command that runs in the sandbox, in ``folder``. It may read the system, Python with its packages and
        ``readable``, and write to a temporary folder of its own, which is bounded and gone afterwards. Nothing that it
        writes is on a disk: the server would have to look at links, pipes and a million of files.
        """
        bound = [str(one) for one in (*system_folders(), *readable)]
        reads = [part for one in dict.fromkeys(bound) for part in ("--ro-bind", one, one)]
        space = ["--size", str(TRIAL_SPACE_BYTES), "--tmpfs"]
        limits = [
            f"--as={TRIAL_MEMORY_MAX_BYTES}",
            f"--cpu={TRIAL_CPU_S}",
            f"--nproc={TRIAL_TASKS_MAX}",
            f"--fsize={TRIAL_FILE_MAX_BYTES}",
            "--core=0",
        ]
        return [
            self.prlimit,
            *limits,
            self.bwrap,
            *(*space, "/", *space, "/tmp", "--proc", "/proc", "--dev", "/dev", *space, "/dev/shm", *reads),  # noqa: S108
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
            *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp"),  # noqa: S108
            *("--setenv", "PYTHONPATH", str(_package().parent), "--setenv", "LANG", "C.UTF-8"),
            *("--chdir", str(folder), "--"),
            *command,
        ]


def system_folders() -> list[Path]:
    """What every sandbox may read: the system, and Python with its packages."""
    return [Path(one) for one in (*_SYSTEM, sys.prefix, sys.base_prefix, _package()) if Path(one).exists()]


def _package() -> Path:
    """The folder of this package, which need not be among the installed ones."""
    return Path(__file__).resolve().parents[2]
