"""Modules of the user: those that are not installed. They are loaded as their files are now."""

from __future__ import annotations

import site
import sys
import sysconfig
from functools import cache, lru_cache
from importlib import machinery
from pathlib import Path
from typing import Any

from branchline.base.limits import PATHS_KEPT

#: The folder of Branchline, which need not be installed where it is developed.
_OWN_FOLDER = Path(__file__).parents[1]
#: Names of folders of installed packages, which PYTHONPATH may add, as it does for views of software on CVMFS.
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


class UncachedLoader(machinery.SourceFileLoader):
    """Compiles a file each time. Python's cache of bytecode takes a file that was written again within a second, with
    the same length, as unchanged, and results of the old code would be kept as those of the new.
    """

    def path_stats(self, path: str) -> Any:
        """Raises OSError, after which the cache is neither read nor written."""
        raise OSError(f"{path} is not cached")


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


@lru_cache(maxsize=PATHS_KEPT)
def is_installed(path: str | None) -> bool:
    """Whether a file belongs to Python or to a folder of installed packages."""
    if path is None or not _PACKAGE_FOLDERS.isdisjoint(Path(path).parts):
        return True
    return any(Path(path).is_relative_to(one) for one in _installed_folders())


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


@cache
def _installed_folders() -> tuple[Path, ...]:
    paths = sysconfig.get_paths()
    folders = [paths[one] for one in ("stdlib", "platstdlib", "purelib", "platlib")]
    folders += [*site.getsitepackages(), site.getusersitepackages()]
    found = [Path(one) for one in folders]
    return tuple(dict.fromkeys([*found, *(one.resolve() for one in found)]))
