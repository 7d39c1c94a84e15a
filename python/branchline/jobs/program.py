"""The code that the processes of a job run: the callable, the modules that it needs, and the installed Branchline.

New processes load the installed Branchline, so it must still be the version that the job runs. Modules of the user,
which are not installed, are loaded from the current content of their files, without a cache.
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
from typing import Any

from branchline.base.limits import PATHS_KEPT
from branchline.errors import BranchlineError

#: Two files that every installation of Branchline writes, and the version that this process has loaded.
_WATCHED_FILES = tuple(Path(str(sys.modules[name].__file__)) for name in ("branchline", "branchline._core"))
_VERSION = str(sys.modules["branchline"].__version__)
#: The folder of Branchline, which need not be installed where it is developed.
_OWN_FOLDER = Path(__file__).parents[1]
#: Names of folders of installed packages, which PYTHONPATH may add, as it does for views of software on CVMFS.
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


@dataclass(frozen=True)
class Program:
    """The pickled callable, and the files of the user that it needs where they are not installed.

    ``load`` are those that are loaded before the callable is unpickled; all others are found when they are imported.
    ``sources`` have all of them. ``directory`` is the one of the job, by which relative paths are meant; a worker
    enters it if it is there. ``module`` is that of the callable, ``packages`` are the versions that it was planned
    with.
    """

    work: bytes
    load: tuple[ModuleFile, ...] = ()
    sources: tuple[Source, ...] = ()
    directory: str = ""
    module: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def key(self) -> str:
        """The same for the same content."""
        digest = hashlib.sha256(self.work + self.directory.encode())
        for one in self.sources:
            digest.update(one.path.encode() + one.content)
        return digest.hexdigest()

    @property
    def size_bytes(self) -> int:
        """What travels."""
        return len(self.work) + sum(len(one.content) for one in self.sources)


@dataclass(frozen=True)
class Source:
    """A file of Python that travels with a job: where it lies below a folder of ``sys.path``, and its bytes."""

    path: str
    content: bytes


@dataclass(frozen=True)
class ModuleFile:
    """A module of the user that is loaded from a file: its name, and the path of the file."""

    name: str
    path: str


@dataclass(frozen=True)
class WorkerStart:
    """What a worker process gets first. ``begin_s`` is when it began to be started (``time.monotonic`` of its machine),
    ``threads`` how many it may use, None where the callable knows. It works in ``directory`` if that is there, else
    where it was started. A process with other versions of ``packages`` refuses to work.
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
    """Where this process looks for modules."""
    return tuple(sys.path)


@dataclass(frozen=True)
class Versions:
    """What must be the same in a job and its workers, since they send each other Python objects."""

    python: str = field(default_factory=lambda: ".".join(platform.python_version_tuple()[:2]))
    branchline: str = field(default_factory=lambda: importlib.metadata.version("branchline"))

    def difference_from(self, job: Versions) -> str:
        """Says what is another version here than in the job; empty if nothing is."""
        pairs = (("Python", self.python, job.python), ("Branchline", self.branchline, job.branchline))
        return " and ".join(f"{name} {here}, the job {there}" for name, here, there in pairs if here != there)


# --- the installed Branchline -----------------------------------------------------------------------------------------


def check_installation() -> None:
    """Raises InstallationChangedError where new workers would load another Branchline than this process has."""
    change = installation_change()
    if change is not None:
        raise change


def installation_change() -> InstallationChangedError | None:
    """The error that says so; None if nothing is known to have changed."""
    if _LOADED is None:
        return None
    folder = _WATCHED_FILES[0].parent
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


class InstallationChangedError(BranchlineError):
    """Branchline was installed anew while a job ran. New workers would have other code than the job."""


def _signs() -> tuple[tuple[int, int], ...]:
    """Bytes and seconds of the last change of `_WATCHED_FILES`. Raises OSError."""
    return tuple((found.st_size, int(found.st_mtime)) for found in (one.stat() for one in _WATCHED_FILES))


def _signs_at_begin() -> tuple[tuple[int, int], ...] | None:
    try:
        return _signs()
    except OSError:
        return None


#: The signs of the installation that this process has loaded; None where they are not known.
_LOADED = _signs_at_begin()


def _when(signs: tuple[tuple[int, int], ...]) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(max(changed_s for _, changed_s in signs)))


# --- modules of the user ----------------------------------------------------------------------------------------------


def load_uncached() -> None:
    """From now on this process compiles every module of the user that it imports. Installed ones stay cached."""
    if _uncached_finder in sys.path_hooks:
        return
    # Python 3.13 imports a module to learn these folders, and fails if the finder below asks for them meanwhile.
    _installed_folders()
    sys.path_hooks.insert(0, _uncached_finder)
    # Finders that Python made before for folders of the user. Looking may import, which adds to this dict: copy it.
    for path in [one for one in list(sys.path_importer_cache) if not is_cached(one)]:
        del sys.path_importer_cache[path]


class UncachedLoader(machinery.SourceFileLoader):
    """Compiles a file each time. Python's cache of bytecode takes a file that was written again within a second, with
    the same length, as unchanged, and results of the old code would be kept as those of the new.
    """

    def path_stats(self, path: str) -> Any:
        """Raises OSError, after which the cache is neither read nor written."""
        raise OSError(f"{path} is not cached")


def _uncached_finder(path: str) -> machinery.FileFinder:
    """Finds modules in a folder of the user. Raises ImportError for others, for which Python has its own finders."""
    if not Path(path).is_dir() or is_cached(path):
        raise ImportError(f"{path} is no folder of the user's modules")
    return machinery.FileFinder(
        path,
        (machinery.ExtensionFileLoader, machinery.EXTENSION_SUFFIXES),
        (UncachedLoader, machinery.SOURCE_SUFFIXES),
        (machinery.SourcelessFileLoader, machinery.BYTECODE_SUFFIXES),
    )


def is_cached(path: str) -> bool:
    """Whether a file or folder is not the user's: installed, or of Branchline itself."""
    return is_installed(path) or Path(path).is_relative_to(_OWN_FOLDER)


@lru_cache(maxsize=PATHS_KEPT)
def is_installed(path: str | None) -> bool:
    """Whether a file belongs to Python or to a folder of installed packages."""
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
