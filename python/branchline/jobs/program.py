"""The code that a job's processes run: the callable, the user modules that it needs, and the installed Branchline.

New processes load the installed Branchline, so the installation must not change while the job runs. User modules that
are not installed are loaded from the current content of their files, without Python's bytecode cache.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import platform
import site
import sys
import sysconfig
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from importlib import machinery
from importlib.metadata import distributions
from pathlib import Path
from typing import NoReturn

from branchline.base.limits import PATHS_KEPT
from branchline.errors import BranchlineError

#: Two files that every installation of Branchline replaces. If they change, Branchline was reinstalled.
_WATCHED_FILES = tuple(Path(str(sys.modules[name].__file__)) for name in ("branchline", "branchline._core"))
_VERSION = str(sys.modules["branchline"].__version__)
#: Folder of the package branchline, which need not be installed during development.
_OWN_FOLDER = Path(__file__).parents[1]
#: Names of folders with installed packages, which may also be on PYTHONPATH, for example for software on CVMFS.
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class Program:
    """The pickled callable, and the user's files that it needs.

    - ``load`` lists the user modules to load before the callable is unpickled. Further user modules are loaded when
      they are imported.
    - ``sources`` has the files of all user modules, including those in ``load``.
    - ``directory`` is the job's working directory, to which relative paths refer; a worker changes to it if it exists.
    - ``module`` is the callable's module.
    - ``packages`` are the package versions that the callable was planned with.
    """

    work: bytes
    load: tuple[ModuleFile, ...] = ()
    sources: tuple[SourceFile, ...] = ()
    directory: str = ""
    module: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """A hash of the program's content."""
        digest = hashlib.sha256(self.work + self.directory.encode())
        for one in self.sources:
            digest.update(one.path.encode() + one.content)
        return digest.hexdigest()

    @property
    def size_bytes(self) -> int:
        """Number of bytes to transfer to a worker."""
        return len(self.work) + sum(len(one.content) for one in self.sources)


@dataclass(frozen=True)
class SourceFile:
    """A Python file that is sent with a job: its path relative to a folder in ``sys.path``, and its content."""

    path: str
    content: bytes


@dataclass(frozen=True)
class ModuleFile:
    """A user module that is loaded from a file: the module's name and the file's path."""

    name: str
    path: str


@dataclass(frozen=True)
class WorkerStart:
    """The first message to a worker process.

    - ``begin_s`` is the time at which the worker's startup began (``time.monotonic`` on the worker's machine).
    - ``threads`` is the number of threads that the worker may use; None if the callable decides.
    - ``directory`` is the working directory, to which the worker changes if it exists.
    - ``packages`` are the planned package versions; the worker rejects the job if its own versions differ.
    """

    number: int
    path: tuple[str, ...]
    modules: tuple[ModuleFile, ...]
    work: bytes
    begin_s: float
    threads: int | None = None
    directory: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)


def own_path() -> tuple[str, ...]:
    """Return the module search path of this process."""
    return tuple(sys.path)


@dataclass(frozen=True)
class Versions:
    """Versions that must be the same in a job and its workers, because they exchange Python objects."""

    python: str = field(default_factory=lambda: ".".join(platform.python_version_tuple()[:2]))
    branchline: str = field(default_factory=lambda: importlib.metadata.version("branchline"))

    def difference_from(self, job: Versions) -> str:
        """Return a text that compares the versions that differ from the job's; empty if all versions match."""
        pairs = (("Python", self.python, job.python), ("Branchline", self.branchline, job.branchline))
        return " and ".join(f"{name} {here}, the job {there}" for name, here, there in pairs if here != there)


# --- the installed Branchline -----------------------------------------------------------------------------------------


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


# --- modules of the user ----------------------------------------------------------------------------------------------


def load_uncached() -> None:
    """Make this process compile every user module that it imports from now on. Installed modules still use the bytecode
    cache.
    """
    if _uncached_finder in sys.path_hooks:
        return
    # Called before the finder is registered: Python 3.13 imports a module to determine these folders, which would fail
    # inside a finder.
    _installed_folders()
    sys.path_hooks.insert(0, _uncached_finder)
    # Remove finders that Python has already created for user folders. The loop uses a copy, because `is_cached` may
    # import modules and so change the dict.
    for path in [one for one in list(sys.path_importer_cache) if not is_cached(one)]:
        del sys.path_importer_cache[path]


class UncachedLoader(machinery.SourceFileLoader):
    """Compiles a file whenever it is loaded.

    Python's bytecode cache does not notice that a file was rewritten within a second with the same size. Python would
    then run the old code, and its results would be attributed to the new code.
    """

    def path_stats(self, path: str) -> NoReturn:
        """Raise OSError, so that Python neither reads nor writes the cache."""
        raise OSError(f"{path} is not cached")


def _uncached_finder(path: str) -> machinery.FileFinder:
    """Return a finder for modules in a user folder. Raises ImportError for other folders, so that Python uses its own
    finders there.
    """
    if not Path(path).is_dir() or is_cached(path):
        raise ImportError(f"{path} is not a folder of user modules")
    return machinery.FileFinder(
        path,
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (UncachedLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )


def is_cached(path: str) -> bool:
    """Return whether a file or folder is installed or belongs to Branchline. Otherwise, it is the user's own."""
    return is_installed(path) or Path(path).is_relative_to(_OWN_FOLDER)


@lru_cache(maxsize=PATHS_KEPT)
def is_installed(path: str | None) -> bool:
    """Return whether a file belongs to Python or to installed packages."""
    if path is None or not _PACKAGE_FOLDERS.isdisjoint(Path(path).parts):
        return True
    return any(Path(path).is_relative_to(one) for one in _installed_folders())


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[one] for one in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    found = [Path(one) for one in folders]
    return tuple(dict.fromkeys([*found, *(one.resolve() for one in found)]))
