"""Replacements for uproot, and for the package that downloads its test files, in uproot's tests."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.peers.peers import imported, shared_data

import branchline

#: Files that the shared test data contain under another name.
SAME = {
    "uproot-Zmumu.root": "uproot-Zmumu-zlib.root",
    "test_int_5e4_rntuple_v1-0-0-0.root": "test_ntuple_int_5e4.root",
}


class Shim(ModuleType):
    """Branchline under the name of uproot. Missing names raise the same error as in Branchline."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(branchline, name)


def data_path(name: str, **_: Any) -> str:
    """Return the path of a test file of uproot in the shared test data. If the file is missing, skip the test with a
    message that names the file.
    """
    folder = shared_data()
    path = Path(folder or ".") / "root" / SAME.get(name, name)
    if folder is None or not path.is_file():
        pytest.skip(f"missing file: {name}")
    return str(path)


def with_test_files() -> None:
    """Make tests use the files of the shared test data."""
    data = ModuleType("skhep_testdata")
    data.data_path = data_path  # type: ignore[attr-defined]
    data.known_files = {}  # type: ignore[attr-defined]
    sys.modules["skhep_testdata"] = data


def replace_uproot() -> None:
    """Replace the module uproot by Branchline. uproot's submodules that are already imported stay available."""
    imported("uproot")
    shim = Shim("uproot")
    shim.__path__ = []
    sys.modules["uproot"] = shim


def replace_writers() -> None:
    """Replace uproot's `recreate`, `create` and `update` by Branchline's. The tests read the written files with uproot.

    `uproot.writing.writable` keeps uproot's functions, because Branchline uses uproot to write uproot's objects.
    """
    uproot = imported("uproot")
    for name in ("recreate", "create", "update"):
        for module in (uproot, uproot.writing):
            setattr(module, name, getattr(branchline, name))
