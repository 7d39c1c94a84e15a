"""The sandbox for user code on a shared server: a read-only file system, no network, and resource limits.

The program bubblewrap builds the sandbox from kernel namespaces, without privileges where the kernel allows this. A
probe checks that the sandbox works on this machine. Operators can set the limits of trains. User code can only read
data below the control room's data folders.
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
)
from branchline.base.processes import package_folder
from branchline.base.quantities import MIB, parse_bytes
from branchline.errors import OptionError
from branchline.reading.locations import BETWEEN_REPLICAS, split_location

# Default limits of a train in the sandbox: total memory and number of all processes, hours, and size of the results.
SANDBOX_MEMORY = "64 GiB"
SANDBOX_MEMORY_BYTES = parse_bytes(SANDBOX_MEMORY)
SANDBOX_TASKS = 2000
SANDBOX_HOURS = 24.0
SANDBOX_SPACE = "100 GiB"
SANDBOX_RESULTS_BYTES = parse_bytes(SANDBOX_SPACE)
# Number of threads for which the CPU time limit of one process suffices, if all threads are busy for the allowed hours.
SANDBOX_THREADS_OF_PROCESS = 8
# Interval between checks of a train's processes, and between checks of its folder, which examine every file.
SANDBOX_LOOK_S, SANDBOX_FOLDER_LOOK_S = 0.5, 5.0
# Time limit for a cancelled train to write the results of its finished sub-jobs.
SANDBOX_END_S = 30.0
# Maximum number of files in a train's folder. A table that is being written has one file for each sub-job.
WRITTEN_FILES_MAX = 200_000
# Limits for copying a train's results: number of files, total bytes, characters in a file name, seconds, and bytes
# per read.
TAKEN_FILES_MAX = 20_000
TAKEN_BYTES_MAX = SANDBOX_RESULTS_BYTES
TAKEN_NAME_MAX = 1000
TAKEN_S = 1800.0
TAKEN_PIECE_BYTES = MIB
# Timeout for a call to another user's process. The process may query a batch system twice, with up to a minute for each
# query.
OWNER_CALL_S = 180.0
OWNER_ANSWER_MAX_BYTES = 32 * MIB
# Maximum size of a request to start a train. The request contains the sources of all wagons.
OWNER_REQUEST_MAX_BYTES = 512 * MIB
# Number of concurrent checks of other users' trains, so that one hanging process does not block the other checks.
OWNER_LOOKS_AT_ONCE = 8
# Time for which a rerun of a train waits for a check of the train that still runs and may be copying results.
TRAIN_IN_HAND_S = 10.0
# System paths that Python and Python packages need.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/sbin", "/etc/ld.so.cache", "/etc/alternatives", "/etc/localtime")


@dataclass(frozen=True)
class Sandbox:
    """Builds command lines that run in a sandbox. ``bwrap`` and ``prlimit`` are the paths of these programs."""

    bwrap: str
    prlimit: str
    #: Environment of bwrap and prlimit. User code can read it in /proc, so it has no variables of the server.
    environment: ClassVar[dict[str, str]] = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"}

    @classmethod
    def find(cls) -> Sandbox | str:
        """Return the sandbox of this machine, or a sentence that says why the sandbox does not work."""
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
        """Return a command line that runs ``command`` in the sandbox, in ``folder``.

        The command can read the system, Python with its packages, and the paths ``readable``. It can write to temporary
        folders of limited size, which are removed at the end. These folders are in memory and not on disk, because user
        code could fill a disk with links, pipes and millions of files. ``written`` is an additional writable folder,
        as a pair of its paths outside and inside the sandbox; the folder must exist.
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
    """Return the paths that are readable in every sandbox: the system, and Python with its packages."""
    return [Path(one) for one in (*_SYSTEM, sys.prefix, sys.base_prefix, package_folder()) if Path(one).exists()]


@dataclass(frozen=True)
class SandboxLimits:
    """Limits in a sandbox. The defaults are the limits of a trial.

    - ``memory_bytes``: maximum address space of each process.
    - ``cpu_s``: maximum CPU time of each process, in seconds.
    - ``tasks``: maximum number of processes and threads.
    - ``file_bytes``: maximum size of a file.
    - ``temporary_bytes``: maximum size of each temporary folder, which is in memory.
    """

    memory_bytes: int = TRIAL_MEMORY_MAX_BYTES
    cpu_s: int = TRIAL_CPU_S
    tasks: int = TRIAL_TASKS_MAX
    file_bytes: int = TRIAL_FILE_MAX_BYTES
    temporary_bytes: int = field(default_factory=lambda: TRIAL_SPACE_BYTES)


@dataclass(frozen=True)
class TrainLimits:
    """Limits of a train in the sandbox: total memory and number of processes, run time, and size of the results."""

    memory_bytes: int = SANDBOX_MEMORY_BYTES
    tasks: int = SANDBOX_TASKS
    hours: float = SANDBOX_HOURS
    results_bytes: int = SANDBOX_RESULTS_BYTES

    def check(self) -> None:
        """Raise OptionError unless all limits are positive."""
        if min(self.memory_bytes, self.tasks, self.hours, self.results_bytes) <= 0:
            raise OptionError("the limits of a train on memory, processes, hours and results must be positive")

    def of_processes(self) -> SandboxLimits:
        """Return the limits that the kernel enforces for each process of the train."""
        cpu_s = int(3600 * self.hours * SANDBOX_THREADS_OF_PROCESS)
        return SandboxLimits(self.memory_bytes, max(cpu_s, 1), self.tasks, self.results_bytes, TRIAL_SPACE_BYTES)


def on_data(files: Sequence[str], data: Sequence[Path], network_hint: str) -> list[str]:
    """Return the lines of a dataset with symbolic links resolved.

    Raises OptionError for a path outside of the folders ``data``, because the sandbox can read only these folders.
    Raises OptionError with ``network_hint`` for a URL, because the sandbox has no network. Patterns and lists of files
    are not expanded, because user code must not learn which other files the server can read; the sandbox expands them.
    """
    return [
        BETWEEN_REPLICAS.join(
            _placed(one, *split_location(one), data, network_hint) for one in line.split(BETWEEN_REPLICAS)
        )
        for line in files
    ]


def _placed(shown: str, path: str, tree: str | None, data: Sequence[Path], network_hint: str) -> str:
    """Return the location of a file with symbolic links resolved. ``shown`` is the location in error messages."""
    if "://" in path or "::" in path:
        raise OptionError(f"{shown!r:.200} is a remote file, and the sandbox has no network", hint=network_hint)
    place = os.path.realpath(path)
    if not os.path.isabs(path) or not any(Path(place).is_relative_to(one) for one in data):
        where = ", ".join(map(str, data)) or "none"
        what = f"{shown!r:.200} is not in a data folder that wagons may read here: {where}"
        raise OptionError(what, hint="the administrator of the server can add folders with --data")
    # realpath removes the trailing slash. Restore the slash, because it marks a folder.
    place = f"{place}/" if path.endswith("/") else place
    return f"{place}:{tree}" if tree else place
