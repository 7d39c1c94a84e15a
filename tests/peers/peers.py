"""Access to the peers. If a peer is missing, its tests are skipped, or fail in CI."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import warnings
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]


def missing(what: str) -> NoReturn:
    """Skip the test with a message that names the missing requirement. In CI, fail instead."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, but CI requires it", pytrace=False)
    pytest.skip(f"{what} is missing", allow_module_level=True)


def imported(name: str) -> Any:
    """Import a module of a peer. If it is missing, skip the test, or fail in CI."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name)


def import_root() -> Any:
    """Return the module ROOT, or None if ROOT is not installed."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import ROOT  # type: ignore[import-untyped]
    except ImportError:
        return None
    ROOT.gROOT.SetBatch(True)
    ROOT.gErrorIgnoreLevel = ROOT.kError
    return ROOT


def shared_data() -> Path | None:
    """Return the data folder of the shared test data, or None if it does not exist."""
    folder = Path(os.environ.get("BRANCHLINE_SHARED", REPOSITORY.parent / "shared")) / "data"
    return folder if (folder / "oracles.json").exists() else None


def load_digest(folder: Path) -> ModuleType:
    """Load the module digest.py from the folder with the oracles."""
    spec = importlib.util.spec_from_file_location("oracle_digest", folder / "digest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
