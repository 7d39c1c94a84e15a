"""A wrong value of an environment variable is an error that names it, and never a silent default."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import uproot

import branchline
from branchline.errors import OptionError


@pytest.fixture
def path(tmp_path: Path) -> str:
    with uproot.recreate(tmp_path / "f.root") as file:
        file["events"] = {"x": np.arange(3)}
    return str(tmp_path / "f.root")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("BRANCHLINE_STORAGE_TIMEOUT", "a minute"),
        ("BRANCHLINE_STORAGE_TIMEOUT", "0"),
        ("BRANCHLINE_STORAGE_WAIT", "1e9"),
        ("BRANCHLINE_STORAGE_TRIES", "0"),
        ("BRANCHLINE_STORAGE_PAUSE", "-1"),
        ("BRANCHLINE_DECODER_STUCK", "nan"),
    ],
)
def test_a_wrong_value_is_an_error_that_names_the_variable(
    path: str, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(OptionError, match=f'{name} cannot be "{value}": give a number from '):
        branchline.open(path)


def test_an_empty_value_is_none(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "")
    assert branchline.open(path)["events"].num_entries == 3
