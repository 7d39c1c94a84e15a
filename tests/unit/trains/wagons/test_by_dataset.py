"""Wagons with by_dataset: the results of each dataset of a list are those of a run over it alone."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import branchline

PARTS = {"data": 3, "signal": 2}
EVENTS = 40
WAGONS = """
import hist
import numpy as np

import branchline


class Apart:
    name = "apart"
    by_dataset = True

    def process(self, events):
        x = np.asarray(events.x)
        histogram = hist.Hist.new.Reg(10, 0, 400, name="x").Weight().fill(x, weight=0.1)
        return {"x": histogram, "sum": float(x.sum()), "table": branchline.Table({"x": events.x})}

    def postprocess(self, total):
        return {**total, "mean": total["sum"] / EVENTS}


class Together(Apart):
    name = "together"
    by_dataset = False


class After:
    requires = ["apart"]

    def process(self, events):
        return events.outputs["apart"]["sum"]


wagons = [Apart(), Together(), After()]
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("samples")
    number = 0
    for name, count in PARTS.items():
        for index in range(count):
            with uproot.recreate(folder / f"{name}{index}.root") as file:
                file.mktree("events", {"x": "f8"}).extend({"x": np.arange(EVENTS) * 0.1 + 50.0 * number})
            number += 1
    (folder / "wagons.py").write_text(WAGONS.replace("EVENTS", str(EVENTS)))
    named = {name: [str(folder / f"{name}{index}.root") for index in range(count)] for name, count in PARTS.items()}
    (folder / "samples.json").write_text(json.dumps({name: {"files": files} for name, files in named.items()}))
    return folder


@pytest.mark.parametrize("workers", [0, 2])
def test_each_dataset_has_the_results_of_a_run_over_it_alone(folder: Path, tmp_path: Path, workers: int) -> None:
    whole = branchline.run(folder / "wagons.py", folder / "samples.json", tmp_path / "whole", workers=workers)
    apart = whole.outputs["apart"]
    assert list(apart) == list(PARTS)
    for name in PARTS:
        alone = branchline.run(folder / "wagons.py", str(folder / f"{name}*.root"), tmp_path / name, workers=1)
        expected: Any = alone.outputs["together"]
        assert (apart[name]["sum"], apart[name]["mean"]) == (expected["sum"], expected["mean"])
        assert np.array_equal(apart[name]["x"].view(flow=True), expected["x"].view(flow=True))
        tables = [tmp_path / "whole" / apart[name]["table"].path, tmp_path / name / expected["table"].path]
        rows = [uproot.open(path)["table"]["x"].array().to_list() for path in tables]
        assert rows[0] == rows[1]
        saved = uproot.open(tmp_path / "whole" / "results.root")[f"apart/{name}/x"]
        assert np.array_equal(saved.values(), expected["x"].values())
    total = whole.outputs["together"]["sum"]
    assert sum(one["sum"] for one in apart.values()) == pytest.approx(total)
    assert whole.outputs["After"] == total, "a wagon that requires it gets what it returned"


def test_files_of_no_dataset_are_under_one_name(folder: Path, tmp_path: Path) -> None:
    result = branchline.run(folder / "wagons.py", str(folder / "data0.root"), tmp_path / "out", workers=0)
    assert list(result.outputs["apart"]) == ["all"]
