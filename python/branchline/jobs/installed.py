"""Whether the Branchline that this process has loaded is still the installed one. Workers that start load that one."""

from __future__ import annotations

import sys
import time
from importlib.metadata import distributions
from pathlib import Path

from branchline.errors import BranchlineError

_FILES = tuple(Path(str(sys.modules[name].__file__)) for name in ("branchline", "branchline._core"))
_VERSION = str(sys.modules["branchline"].__version__)


class InstallationChangedError(BranchlineError):
    """Branchline was installed anew while a job ran. New workers would have other code than the job."""


def _signs() -> tuple[tuple[int, int], ...]:
    """Bytes and seconds of the last change of two files that every installation writes. Raises OSError."""
    return tuple((found.st_size, int(found.st_mtime)) for found in (one.stat() for one in _FILES))


def _signs_at_begin() -> tuple[tuple[int, int], ...] | None:
    try:
        return _signs()
    except OSError:
        return None


_LOADED = _signs_at_begin()


def check_installation() -> None:
    """Raises InstallationChangedError where new workers would load another Branchline than this process has."""
    change = installation_change()
    if change is not None:
        raise change


def installation_change() -> InstallationChangedError | None:
    """The error that says so; None if nothing is known to have changed."""
    if _LOADED is None:
        return None
    folder = _FILES[0].parent
    try:
        signs = _signs()
    except FileNotFoundError:
        now = "gone"
    except OSError:
        # A file system that does not answer says nothing about what is on it.
        return None
    else:
        if signs == _LOADED:
            return None
        version = next((one.version for one in distributions(name="branchline", path=[str(folder.parent)])), "one")
        now = f"{version} of {_when(signs)}"
    return InstallationChangedError(
        f"Branchline at {folder} was {_VERSION} of {_when(_LOADED)} when this job began, and is now {now}",
        hint="start the job again; in a notebook, restart the kernel first",
    )


def _when(signs: tuple[tuple[int, int], ...]) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(max(changed_s for _, changed_s in signs)))
