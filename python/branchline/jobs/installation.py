"""The installed Branchline, which must not change while a job runs, because new processes load it."""

from __future__ import annotations

import sys
import time
from importlib.metadata import distributions
from pathlib import Path

from branchline.errors import BranchlineError

#: Two files that every installation of Branchline replaces. If they change, Branchline was reinstalled.
_WATCHED_FILES = tuple(Path(str(sys.modules[name].__file__)) for name in ("branchline", "branchline._core"))
_VERSION = str(sys.modules["branchline"].__version__)


def check_installation() -> None:
    """Raise InstallationChangedError if Branchline was reinstalled after this process had loaded it."""
    change = installation_change()
    if change is not None:
        raise change


def installation_change() -> InstallationChangedError | None:
    """Return an error if the installation has changed; None if no change is known."""
    if _LOADED is None:
        return None
    folder = _WATCHED_FILES[0].parent
    try:
        signs = _signs()
    except FileNotFoundError:
        now = "gone"
    except OSError:
        # If the file system does not respond, the files have not necessarily changed.
        return None
    else:
        if signs == _LOADED:
            return None
        version = next((one.version for one in distributions(name="branchline", path=[str(folder.parent)])), "?")
        now = f"version {version} (modified {_when(signs)})"
    return InstallationChangedError(
        f"Branchline at {folder} was version {_VERSION} (modified {_when(_LOADED)}) when this job started"
        f" and is now {now}",
        hint="start the job again; in a notebook, restart the kernel first",
    )


class InstallationChangedError(BranchlineError):
    """Raised if Branchline was reinstalled while a job ran, because new workers would run other code than the job."""


def _signs() -> tuple[tuple[int, int], ...]:
    """Return the sizes and modification times (in seconds) of `_WATCHED_FILES`. Raises OSError."""
    return tuple((found.st_size, int(found.st_mtime)) for found in (one.stat() for one in _WATCHED_FILES))


def _signs_at_begin() -> tuple[tuple[int, int], ...] | None:
    try:
        return _signs()
    except OSError:
        return None


#: Sizes and modification times of `_WATCHED_FILES` when this process loaded Branchline; None if unknown.
_LOADED = _signs_at_begin()


def _when(signs: tuple[tuple[int, int], ...]) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(max(changed_s for _, changed_s in signs)))
