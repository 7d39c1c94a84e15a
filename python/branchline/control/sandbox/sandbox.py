"""The sandbox of code of users on a shared server: a file system that it can only read, no network, limits.

Bubblewrap makes the sandbox from namespaces of the kernel; no right is needed for it where the kernel lets users make
these. What is tried is the sandbox itself, not the version of a program.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from branchline.base.limits import (
    SANDBOX_PROBE_S,
    TRIAL_CPU_S,
    TRIAL_FILE_MAX_BYTES,
    TRIAL_MEMORY_MAX_BYTES,
    TRIAL_SPACE_BYTES,
    TRIAL_TASKS_MAX,
)
from branchline.base.processes import package_folder

# What Python and its packages need of the system.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")


@dataclass(frozen=True)
class SandboxLimits:
    """What a process in a sandbox may take: address space and CPU time of each, processes and threads, the largest file
    that it writes, and the temporary files of all, which are in memory. Those of a trial are the usual ones.
    """

    memory_bytes: int = TRIAL_MEMORY_MAX_BYTES
    cpu_s: int = TRIAL_CPU_S
    tasks: int = TRIAL_TASKS_MAX
    file_bytes: int = TRIAL_FILE_MAX_BYTES
    temporary_bytes: int = field(default_factory=lambda: TRIAL_SPACE_BYTES)


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

    def command(
        self,
        command: Sequence[str],
        folder: Path,
        readable: Sequence[Path],
        written: tuple[Path, Path] | None = None,
        limits: SandboxLimits | None = None,
    ) -> list[str]:
        """A command that runs in the sandbox, in ``folder``. It may read the system, Python with its packages and
        ``readable``, and write to a temporary folder of its own, which is bounded and gone afterwards. ``written`` is a
        folder that it may write to, and where it finds that, which must be there. All else that it writes is on no
        disk: whoever has written a folder can fill it with links, pipes and a million of files.
        """
        limits = limits or SandboxLimits()
        bound = [str(one) for one in (*system_folders(), *readable)]
        reads = [part for one in dict.fromkeys(bound) for part in ("--ro-bind", one, one)]
        writes = [] if written is None else ["--bind", *map(str, written)]
        space = ["--size", str(limits.temporary_bytes), "--tmpfs"]
        bounds = [
            f"--as={limits.memory_bytes}",
            f"--cpu={limits.cpu_s}",
            f"--nproc={limits.tasks}",
            f"--fsize={limits.file_bytes}",
            "--core=0",
        ]
        return [
            self.prlimit,
            *bounds,
            self.bwrap,
            *(*space, "/", *space, "/tmp", "--proc", "/proc", "--dev", "/dev", *space, "/dev/shm", *reads),  # noqa: S108
            *(*writes, "--remount-ro", "/dev", "--remount-ro", "/"),
            *("--unshare-all", "--die-with-parent", "--new-session", "--cap-drop", "ALL", "--clearenv"),
            *("--setenv", "PATH", "/usr/bin:/bin", "--setenv", "HOME", "/tmp"),  # noqa: S108
            *("--setenv", "PYTHONPATH", str(package_folder().parent), "--setenv", "LANG", "C.UTF-8"),
            *("--chdir", str(folder), "--"),
            *command,
        ]


def system_folders() -> list[Path]:
    """What every sandbox may read: the system, and Python with its packages."""
    return [Path(one) for one in (*_SYSTEM, sys.prefix, sys.base_prefix, package_folder()) if Path(one).exists()]
