"""Fixtures for comparisons with peers: ROOT and the shared test data, both optional on a laptop and required in CI."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.peers.ntuple_files import compiled_peers
from tests.peers.peers import import_root, missing, shared_data


@pytest.fixture(scope="session")
def root() -> Any:
    """Return the ROOT module, in batch mode and with few messages."""
    module = import_root()
    if module is None:
        missing("ROOT (the package `root` of PyPI)")
    if shutil.which(os.environ.get("CXX", "c++")) is None:
        missing("a C++ compiler (g++), whose headers ROOT's interpreter uses,")
    return module


@pytest.fixture(scope="session")
def peers(root: Any) -> Any:
    """Return the compiled functions that write RNTuples with all kinds of fields, and read them with ROOT."""
    return compiled_peers(root)


@pytest.fixture(scope="session")
def shared() -> Path:
    """Return the folder with oracles.json, digest.py and root/."""
    folder = shared_data()
    if folder is None:
        missing("the shared test data (BRANCHLINE_SHARED, or ../shared next to the repository)")
    assert folder is not None
    return folder
