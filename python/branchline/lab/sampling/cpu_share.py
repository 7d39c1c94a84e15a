"""Gives the jobs of each sample the same share of a busy machine, regardless of the number of their processes.

Linux divides the processors among processes. On a busy machine, an arm with more processes would therefore get more CPU
time per second than an arm with fewer. The jobs of a sample run in a control group with a fixed weight instead, if this
user may create one.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from branchline.records.sensors.this_process import cpu_count

_MOUNT = Path("/sys/fs/cgroup")
#: Weights of one process with default priority (cpu.shares, and cpu.weight of version 2), and the largest weight.
_SHARES, _WEIGHT, _WEIGHT_MAX = 1024, 100, 10_000
#: Time in seconds to wait for the end of killed processes. If a process left the job's session and lives on, a later
#: study removes the group.
_REMOVAL_S, _PAUSE_S = 2.0, 0.01
_NAME = "branchline-study"
_numbers = itertools.count()


@contextmanager
def equal_share(processes: Sequence[int]) -> Iterator[bool]:
    """Move processes to a control group with the CPU weight of as many processes as there are processors.

    Child processes that they start later belong to the group as well. All must have ended when the ``with`` block ends.

    Yields False if this user may not create control groups or move processes into them, or if the system has none.
    """
    group = _made()
    try:
        yield group is not None and _moved(processes, group)
    finally:
        if group is not None:
            _remove(group)


def _moved(processes: Sequence[int], group: Path) -> bool:
    """Move processes into a group, except processes that have ended. Without permission, move none and return False."""
    for one in processes:
        try:
            (group / "cgroup.procs").write_text(str(one), encoding="ascii")
        except ProcessLookupError:
            continue
        except OSError:
            return False
    return True


def _made() -> Path | None:
    """Create a control group below this process's group; None without permission."""
    name = f"{_NAME}-{os.getpid()}-{next(_numbers)}"
    for parent, file, weight in _parents():
        # The mount point of several hierarchies is an ordinary folder.
        if not (parent / "cgroup.procs").exists():
            continue
        _remove_left_groups(parent)
        group = parent / name
        try:
            group.mkdir()
        except OSError:
            continue
        try:
            (group / file).write_text(str(weight), encoding="ascii")
            return group
        except OSError:
            group.rmdir()
    return None


def _parents() -> Iterator[tuple[Path, str, int]]:
    """Yield each group of this process that controls processors, with the file name and the value of a group's weight.

    See cgroups(7): a line of /proc/self/cgroup has the number of a hierarchy, its controllers and the path of the
    group; version 2 has the number 0 and no controllers.
    """
    try:
        lines = Path("/proc/self/cgroup").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        number, controllers, path = line.split(":", 2)
        if "cpu" in controllers.split(","):
            yield _MOUNT / controllers / path.lstrip("/"), "cpu.shares", _SHARES * cpu_count()
        elif number == "0":
            yield _MOUNT / path.lstrip("/"), "cpu.weight", min(_WEIGHT_MAX, _WEIGHT * cpu_count())


def _remove_left_groups(parent: Path) -> None:
    """Remove the groups of studies that were killed."""
    for group in parent.glob(f"{_NAME}-*-*"):
        with suppress(OSError, ValueError):
            if not Path("/proc", str(int(group.name.split("-")[-2]))).exists():
                group.rmdir()


def _remove(group: Path) -> None:
    """Remove a group, which is only possible when its processes have ended."""
    end_s = time.monotonic() + _REMOVAL_S
    while time.monotonic() < end_s:
        try:
            group.rmdir()
        except OSError:
            time.sleep(_PAUSE_S)
        else:
            return
