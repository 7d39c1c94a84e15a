"""Variations that apply to some samples only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import run_in_chunks

import branchline
from branchline.errors import OptionError, WagonError


def spectrum(events: Any) -> Any:
    return hist.Hist.new.Reg(3, 0, 3, name="x").Weight().fill(events.x, weight=events.weight)


def doubled(events: Any) -> Any:
    return 2 + 0 * events.x


COLUMNS = {"scaleUp": {"x": lambda events: events.x + 1}, "scaleDown": {"x": lambda events: events.x - 1}}


def test_variations_of_other_samples_are_left_out(tmp_path: Path) -> None:
    for name in ("ttbar_A", "wjets"):
        with branchline.recreate(tmp_path / f"{name}.root") as file:
            file["Events"] = {"x": np.array([0.5, 1.5, 2.5])}
    files = {name: {"files": [str(tmp_path / f"{name}.root")], "tree": "Events"} for name in ("ttbar_A", "wjets")}
    wagon = branchline.varied(
        spectrum,
        weights={"top_pt": doubled, "pu_up": doubled},
        columns=COLUMNS,
        samples={"top_pt": ["ttbar*"], "scale": ["wjets"]},
    )
    wagon.name, wagon.by_dataset = "spectrum", True
    found = run_in_chunks(wagon, files).outputs["spectrum"]
    assert list(found["ttbar_A"]) == ["nominal", "top_pt", "pu_up"]
    assert list(found["wjets"]) == ["nominal", "pu_up", "scaleUp", "scaleDown"]
    assert found["ttbar_A"]["top_pt"].sum().value == 6
    np.testing.assert_array_equal(found["wjets"]["scaleUp"].values(), [0, 1, 1])


def test_unknown_variations_and_single_names_are_refused() -> None:
    with pytest.raises(WagonError, match=r"unknown variation 'top'.*choose from top_pt"):
        branchline.varied(spectrum, weights={"top_pt": doubled}, samples={"top": ["ttbar"]})
    with pytest.raises(OptionError, match="samples cannot be 'ttbar'"):
        branchline.varied(spectrum, weights={"top_pt": doubled}, samples={"top_pt": "ttbar"})
