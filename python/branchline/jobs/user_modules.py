"""User modules, which are not installed: they are loaded from the current content of their files, without Python's
bytecode cache.
"""

from __future__ import annotations

import site
import sys
import sysconfig
from functools import cache, lru_cache
from importlib import machinery
from pathlib import Path
from typing import NoReturn

from branchline.base.limits import PATHS_KEPT

#: Folder of the package branchline, which need not be installed during development.
_OWN_FOLDER = Path(__file__).parents[1]
#: Names of folders with installed packages, which may also be on PYTHONPATH, for example for software on CVMFS.
_PACKAGE_FOLDERS = {"site-packages", "dist-packages"}


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
