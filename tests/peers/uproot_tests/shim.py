"""What uproot's tests import instead of uproot and of the package that fetches its test files."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.peers.peers import imported, shared_data

import branchline

#: Files with the same trees under another name: the packages hold them once.
SAME = {
    "uproot-Zmumu.root": "uproot-Zmumu-zlib.root",
    "test_int_5e4_rntuple_v1-0-0-0.root": "test_ntuple_int_5e4.root",
}


class Shim(ModuleType):
    """Branchline under the name of uproot. What it does not have raises what branchline raises."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(branchline, name)


def data_path(name: str, **_: Any) -> str:
    """A file of uproot's tests, out of the collection; a test whose file is not there is skipped by its name."""
    folder = shared_data()
    path = Path(folder or ".") / "root" / SAME.get(name, name)
    if folder is None or not path.is_file():
        pytest.skip(f"missing file: {name}")
    return str(path)


def with_test_files() -> None:
    """Let tests find the files of the collection."""
    data = ModuleType("skhep_testdata")
    data.data_path = data_path  # type: ignore[attr-defined]
    data.known_files = {}  # type: ignore[attr-defined]
    sys.modules["skhep_testdata"] = data


def replace_uproot() -> None:
    """Put Branchline where tests import uproot. Its inner modules stay importable, for tests that are not counted."""
    imported("uproot")
    shim = Shim("uproot")
    shim.__path__ = []
    sys.modules["uproot"] = shim


def replace_writers() -> None:
    """Put Branchline's `recreate`, `create` and `update` into uproot, which reads what they write.

    `uproot.writing.writable` keeps its own: Branchline has uproot write uproot's objects.
    """
    uproot = imported("uproot")
    for name in ("recreate", "create", "update"):
        for module in (uproot, uproot.writing):
            setattr(module, name, getattr(branchline, name))
