"""Versions of what the results of a job depend on."""

from __future__ import annotations

import hashlib
import importlib.metadata
import inspect
import platform
import sys
from functools import cache
from pathlib import Path
from typing import Any

from branchline import _core

#: Packages whose versions are recorded: always, and if something of the job has imported them.
_ALWAYS, _IF_USED = ("numpy", "awkward"), ("hist", "boost-histogram", "coffea", "numba", "uproot", "pandas", "pyarrow")


def branchline_version() -> str:
    """The version of Branchline."""
    return str(_core.__version__)


def versions() -> dict[str, str]:
    """The versions of Python, numpy and awkward, and of the packages of the field that this process has imported."""
    used = [name for name in _IF_USED if name.replace("-", "_") in sys.modules]
    found = {"python": platform.python_version()}
    for name in (*_ALWAYS, *used):
        if version := _installed(name):
            found[name] = version
    return found


@cache
def _installed(name: str) -> str:
    """The version of a package that is imported, which stays the one that it is; empty where there is none."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def code_sha256(kind: Any) -> str | None:
    """The SHA-256 of the file that a class or a function is written in, of the class alone where there is no file, as
    in a notebook; None where neither is known.
    """
    try:
        content = Path(inspect.getfile(kind)).read_bytes()
    except (TypeError, OSError):
        try:
            content = inspect.getsource(kind).encode()
        except (TypeError, OSError):
            return None
    return hashlib.sha256(content).hexdigest()
