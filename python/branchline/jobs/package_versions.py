"""Versions of the interpreter and of installed packages, as a process has loaded them."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from branchline.errors import BranchlineError

INTERPRETER = "python"
#: The version of a package that is not installed.
MISSING = "missing"
# Between the times of processes, which count in hundredths of a second, and those of files.
_CLOCKS_DIFFER_S = 0.05


@cache
def version_of(top: str) -> str | None:
    """Return the version of the installed package that a module is of; None for a module of no package.

    It stays the same in a process, which does not load a package again that is upgraded meanwhile.
    """
    return _installed_version(top)


def version_text(name: str) -> str:
    """Return the version of a package or of the interpreter, for a key."""
    if name == INTERPRETER:
        return f"{platform.python_implementation()} {platform.python_version()}"
    return version_of(name) or MISSING


class OtherVersionsError(BranchlineError):
    """A worker refuses the job, which was planned with other versions of packages than it has."""


def require_versions(planned: Mapping[str, str], host: str) -> None:
    """Raise OtherVersionsError if this process has other versions than planned, with both of each package."""
    differences = VersionCheck(planned).differences()
    if differences:
        pairs = [f"{name} {here} (planned: {planned[name]})" for name, here in sorted(differences.items())]
        hint = "install the same versions on both sides; a worker process imports what is installed now"
        raise OtherVersionsError(f"the worker on {host} has {', '.join(pairs)}", hint=hint, retry=True)


class VersionCheck:
    """Compares the versions that a process works with to those that a job was planned with.

    Packages may be upgraded at any time, and be imported late: a version that was there at any check counts.
    """

    def __init__(self, planned: Mapping[str, str]) -> None:
        self._planned = planned
        self._seen: tuple[object, ...] | None = None
        self._differences: dict[str, str] = {}

    def differences(self) -> dict[str, str]:
        """Return the version here of each package that is, or was at an earlier check, another one than planned."""
        folders = _folders_state()
        if folders != self._seen:
            self._seen = folders
            importlib.invalidate_caches()
            _packages.cache_clear()
            for name, planned in self._planned.items():
                # As it was loaded, and as it is installed now, since it may be imported only now.
                found = [version_text(name)]
                if name != INTERPRETER:
                    found.append(_installed_version(name) or MISSING)
                differing = [here for here in found if here != planned]
                if differing:
                    self._differences[name] = differing[-1]
        return dict(self._differences)


def remember_versions(modules: Iterable[str]) -> None:
    """Note the versions of packages that were imported just now, as this process and those forked from it have them."""
    for name in modules:
        version_of(name.partition(".")[0])


def is_new_to_process(top: str) -> bool:
    """Return whether the package that a module is of was installed after this process began, which may have loaded an
    earlier version of it.
    """
    if top not in sys.modules:
        return False
    for one in _distributions_of(top):
        folder = getattr(one, "_path", None)
        with suppress(OSError, TypeError, ValueError):
            if os.stat(folder or "").st_ctime > _process_began_s() - _CLOCKS_DIFFER_S:
                return True
    return False


def _process_began_s() -> float:
    """Return when this process was started or forked, in seconds since 1970."""
    try:
        # The 22nd field, behind the name of the program, counts since the machine was started (proc(5)).
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        since_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - since_s
    except (OSError, ValueError, AttributeError):
        import psutil

        return psutil.Process().create_time()


def _installed_version(top: str) -> str | None:
    if top in sys.stdlib_module_names or top in sys.builtin_module_names:
        return INTERPRETER
    try:
        return importlib.metadata.version(top)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        names = _packages().get(top, ())
    return ", ".join(f"{one} {importlib.metadata.version(one)}" for one in sorted(set(names))) or None


def _distributions_of(top: str) -> list[importlib.metadata.Distribution]:
    """Return the installed package of a name, or those that have the module of this name."""
    try:
        return [importlib.metadata.distribution(top)]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return [importlib.metadata.distribution(one) for one in sorted(set(_packages().get(top, ())))]


@cache
def _packages() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _folders_state() -> tuple[object, ...]:
    """Return what changes when a package is installed or removed: the times of the folders that are searched."""
    found = []
    for folder in sys.path:
        try:
            status = os.stat(folder or ".")
        except OSError:
            continue
        found.append((folder, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(found)
