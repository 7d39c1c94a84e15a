"""Where the peers are, and what happens when one is missing: a skip that names it, or a failure in CI."""

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
    """Skips the test by the name of what it needs; in CI that is a failure."""
    if os.environ.get("CI") == "true":
        pytest.fail(f"{what} is missing, and CI must have it", pytrace=False)
    pytest.skip(f"{what} is missing", allow_module_level=True)


def imported(name: str) -> Any:
    """A module of a peer; a test that needs one that is not there is skipped, and fails in CI."""
    try:
        return importlib.import_module(name)
    except ImportError:
        missing(name)


def import_root() -> Any:
    """ROOT, or None where it is not installed."""
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
    """The data folder of the shared test data, or None."""
    folder = Path(os.environ.get("BRANCHLINE_SHARED", REPOSITORY.parent / "shared")) / "data"
    return folder if (folder / "oracles.json").exists() else None


def load_digest(folder: Path) -> ModuleType:
    """The module digest.py in the folder of the oracles."""
    spec = importlib.util.spec_from_file_location("oracle_digest", folder / "digest.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
