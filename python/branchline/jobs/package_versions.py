"""Versions of the interpreter and of installed packages, as loaded by a process."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
import platform
import sys
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from branchline.errors import BranchlineError

INTERPRETER = "python"
#: Version recorded for a package that is not installed.
MISSING = "missing"
# Tolerance for comparing the start time of a process, which has a resolution of 0.01 s, with file times.
_CLOCKS_DIFFER_S = 0.05


@cache
def version_of(top: str) -> str | None:
    """Return the version of the installed package that provides a module; None if no package provides it.

    The result is cached: a process keeps the version that it has loaded, even if the package is upgraded later.
    """
    return _installed_version(top)


def version_text(name: str) -> str:
    """Return the version of a package or of the interpreter, for use in a key."""
    if name == INTERPRETER:
        return f"{platform.python_implementation()} {platform.python_version()}"
    return version_of(name) or MISSING


class OtherVersionsError(BranchlineError):
    """Raised by a worker whose package versions differ from the versions with which the job was planned."""


def require_versions(planned: Mapping[str, str], host: str) -> None:
    """Raise OtherVersionsError if versions in this process differ from ``planned``. The message has both versions of
    each such package.
    """
    differences = VersionCheck(planned).differences()
    if differences:
        pairs = [f"{name} {here} (planned: {planned[name]})" for name, here in sorted(differences.items())]
        hint = "install the same versions here and on the workers; workers import the versions installed now"
        raise OtherVersionsError(f"the worker on {host} has {', '.join(pairs)}", hint=hint, retry=True)


class VersionCheck:
    """Compares the package versions in a process with the planned versions of a job.

    Packages may be upgraded or imported between two checks, so a difference found in one check is remembered.
    """

    def __init__(self, planned: Mapping[str, str]) -> None:
        self._planned = planned
        self._seen: tuple[object, ...] | None = None
        self._differences: dict[str, str] = {}

    def differences(self) -> dict[str, str]:
        """Return the packages whose version differed from the plan in this or an earlier check, with the version that
        was found.
        """
        folders = _folders_state()
        if folders != self._seen:
            self._seen = folders
            importlib.invalidate_caches()
            for name, planned in self._planned.items():
                # Compare the loaded version and the installed version, which a later import would load.
                found = [version_text(name)]
                if name != INTERPRETER:
                    found.append(_installed_version(name) or MISSING)
                for here in found:
                    if here != planned:
                        self._differences[name] = here
        return dict(self._differences)


def remember_versions(modules: Iterable[str]) -> None:
    """Record the versions of packages that were just imported, for this process and its later forks."""
    for name in modules:
        version_of(name.partition(".")[0])


def is_new_to_process(top: str) -> bool:
    """Return whether the package of a module was installed after the start of this process, which may have loaded an
    older version.
    """
    if top not in sys.modules or _is_of_interpreter(top):
        return False
    try:
        found = [importlib.metadata.distribution(top)]
    except (importlib.metadata.PackageNotFoundError, ValueError):
        # All installed packages that provide a module with the given name.
        found = [importlib.metadata.distribution(one) for one in sorted(set(_packages().get(top, ())))]
    for one in found:
        folder = getattr(one, "_path", None)
        with suppress(OSError, TypeError, ValueError):
            if os.stat(folder or "").st_ctime > _process_began_s() - _CLOCKS_DIFFER_S:
                return True
    return False


def _process_began_s() -> float:
    """Return the time when this process was started or forked, as a Unix timestamp."""
    try:
        # Field 22 is the start time in clock ticks since boot; an earlier field, the process name, may contain spaces
        # (proc(5)).
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        since_s = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
        return time.time() - since_s
    except (OSError, ValueError, AttributeError):
        import psutil

        return psutil.Process().create_time()


def _installed_version(top: str) -> str | None:
    if _is_of_interpreter(top):
        return INTERPRETER
    try:
        return importlib.metadata.version(top)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        names = _packages().get(top, ())
    return ", ".join(f"{one} {importlib.metadata.version(one)}" for one in sorted(set(names))) or None


def _is_of_interpreter(top: str) -> bool:
    return top in sys.stdlib_module_names or top in sys.builtin_module_names


def _packages() -> dict[str, list[str]]:
    """Return the names of the installed packages by the names of the modules that they provide."""
    return _packages_in(_folders_state())


# Cached because a call takes 0.4 s for 100 packages and every train needs the result. Few entries suffice, because
# `sys.path` rarely changes.
@lru_cache(maxsize=4)
def _packages_in(_folders: tuple[object, ...]) -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def _folders_state() -> tuple[object, ...]:
    """Return the modification times of the folders on sys.path, which change when a package is installed or removed."""
    found = []
    for folder in sys.path:
        try:
            status = os.stat(folder or ".")
        except OSError:
            continue
        found.append((folder, status.st_mtime_ns, status.st_ctime_ns))
    return tuple(found)
