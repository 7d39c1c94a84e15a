"""The sandbox of user code on a shared server: a read-only file system, no network, and limits.

Bubblewrap builds it from kernel namespaces, without privileges where the kernel allows that. The sandbox itself is
probed, not the version of a program. Operators can set the limits of trains. User code can only read data below the
data folders of the control room.
"""

from __future__ import annotations

import os
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
    parse_bytes,
)
from branchline.base.processes import package_folder
from branchline.errors import OptionError
from branchline.reading.locations import BETWEEN_REPLICAS, split_location

# A train in the sandbox: what all its processes take together, for how long, and what it may write.
SANDBOX_MEMORY = "64 GiB"
SANDBOX_MEMORY_BYTES = parse_bytes(SANDBOX_MEMORY)
SANDBOX_TASKS = 2000
SANDBOX_HOURS = 24.0
SANDBOX_SPACE = "100 GiB"
SANDBOX_RESULTS_BYTES = parse_bytes(SANDBOX_SPACE)
# CPU time of one of its processes: as if it had 8 threads all the time.
SANDBOX_THREADS_OF_PROCESS = 8
# How often it is looked at, and its folder, of which each file is asked.
SANDBOX_LOOK_S, SANDBOX_FOLDER_LOOK_S = 0.5, 5.0
# A train that is cancelled keeps what is done, and writes that within this time.
SANDBOX_END_S = 30.0
# Files in the folder of a train: tables have pieces for each sub-job while they are written.
WRITTEN_FILES_MAX = 200_000
# Results are taken over whole: so many files and bytes, and each name with so many characters, within this time.
TAKEN_FILES_MAX = 20_000
TAKEN_BYTES_MAX = SANDBOX_RESULTS_BYTES
TAKEN_NAME_MAX = 1000
TAKEN_S = 1800.0
TAKEN_PIECE_BYTES = 2**20
# Calls of a process of another user. It may ask a batch system twice, which has a minute for each answer.
OWNER_CALL_S = 180.0
OWNER_ANSWER_MAX_BYTES = 32 * 2**20
# What is sent to it: the sources of all wagons of a train.
OWNER_REQUEST_MAX_BYTES = 512 * 2**20
# Trains of other users that are looked at once: one whose process hangs must not keep others waiting.
OWNER_LOOKS_AT_ONCE = 8
# Who runs a train again waits so long for a look at it, in which its results may be taken over.
TRAIN_IN_HAND_S = 10.0
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
class TrainLimits:
    """What all processes of a train in the sandbox may take together: memory, their number, hours, and the bytes of
    its results.
    """

    memory_bytes: int = SANDBOX_MEMORY_BYTES
    tasks: int = SANDBOX_TASKS
    hours: float = SANDBOX_HOURS
    results_bytes: int = SANDBOX_RESULTS_BYTES

    def check(self) -> None:
        """Raises OptionError for what no train could run with."""
        if min(self.memory_bytes, self.tasks, self.hours, self.results_bytes) <= 0:
            raise OptionError("a train needs some memory, processes, time and space")

    def of_processes(self) -> SandboxLimits:
        """Those that the kernel has for each process."""
        cpu_s = int(3600 * self.hours * SANDBOX_THREADS_OF_PROCESS)
        return SandboxLimits(self.memory_bytes, max(cpu_s, 1), self.tasks, self.results_bytes, TRIAL_SPACE_BYTES)


def on_data(files: Sequence[str], data: Sequence[Path], network_hint: str) -> list[str]:
    """Lines of a dataset that lead to no link outside of ``data``, which is all that the sandbox has. Lists and
    patterns are read in there: what the server may read or ask besides is nothing for others, not even whether it is
    there. Raises OptionError for data elsewhere, with ``network_hint`` for those at a server: there is no network.
    """
    return [
        BETWEEN_REPLICAS.join(
            _placed(one, *split_location(one), data, network_hint) for one in line.split(BETWEEN_REPLICAS)
        )
        for line in files
    ]


def _placed(shown: str, path: str, tree: str | None, data: Sequence[Path], network_hint: str) -> str:
    """A location without links."""
    if "://" in path or "::" in path:
        raise OptionError(f"{shown!r:.200} is at a server, and the sandbox has no network", hint=network_hint)
    place = os.path.realpath(path)
    if not os.path.isabs(path) or not any(Path(place).is_relative_to(one) for one in data):
        where = ", ".join(map(str, data)) or "none"
        what = f"{shown!r:.200} is not in a folder of data that code of wagons may read here: {where}"
        raise OptionError(what, hint="whoever runs the server names such folders with --data")
    # A slash at the end says that it is a folder.
    place = f"{place}/" if path.endswith("/") else place
    return f"{place}:{tree}" if tree else place
