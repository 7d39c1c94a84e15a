"""The results of a small train over samples with variations in the conventions of several experiments."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import hist
import numpy as np
import pytest

import branchline

EVENTS = 400
#: The weight of each variation, as a function of the column u, which is between 0 and 1.
VARIATIONS = {
    "nominal": lambda u: 1.0 + 0 * u,
    "jesUp": lambda u: 1.0 + 0.1 * u,
    "jesDown": lambda u: 1.0 - 0.08 * u,
    "btag__1up": lambda u: 1.05 + 0 * u,
    "btag__1down": lambda u: 0.95 + 0 * u,
    "pileup_up": lambda u: 1.02 + 0.01 * u,
    "muR_up": lambda u: 1.2 - 0.1 * u,
    "muR_down": lambda u: 0.85 + 0.1 * u,
    "muF_up": lambda u: 0.9 + 0.4 * u,
    "pdf_1": lambda u: 1.0 + 0.03 * u,
    "pdf_2": lambda u: 1.0 - 0.04 * u,
}
KINDS = {"ttbar": "signal", "wjets_A": "background", "wjets_B": "background", "data": "data"}


class Regions:
    """Histograms of two regions for each variation, one with two axes, one with categories, and a cutflow."""

    by_dataset = True

    def process(self, events: Any) -> Any:
        is_data = bool(events.metadata["is_data"])
        u, x = np.asarray(events.u), np.asarray(events.x)
        weights = {name: weight(u) for name, weight in VARIATIONS.items() if name == "nominal" or not is_data}
        varied = {name: self.filled(events, x, weight) for name, weight in weights.items()}
        flow = branchline.Cutflow.of(weights["nominal"])
        flow.cut("x > 20 & <50 %", x > 20)
        return {"varied": varied, "flow": flow}

    def filled(self, events: Any, x: np.ndarray, weight: np.ndarray) -> Any:
        found = {}
        for region, is_in in (("SR", x > 40), ("CR", x <= 40)):
            axis = hist.axis.Regular(5, 0, 80, name="x", label="x [GeV]")
            found[region] = hist.Hist(axis, storage=hist.storage.Weight()).fill(x[is_in], weight=weight[is_in])
        plane = hist.Hist.new.Reg(6, 0, 90, name="x", label="x [GeV]").Reg(4, 0, 1, name="u", label="u").Weight()
        channels = hist.Hist.new.StrCat(["ee", "em", "mm"], name="channel").Weight()
        names = np.array(["ee", "em", "mm", "other"])[np.asarray(events.channel)]
        empty = hist.Hist.new.Reg(3, 200, 230, name="x").Weight().fill(x, weight=weight)
        found |= {"plane": plane.fill(x, np.asarray(events.u), weight=weight)}
        return found | {"channels": channels.fill(names, weight=weight), "empty": empty}


@pytest.fixture(scope="session")
def regions_out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results."""
    folder = tmp_path_factory.mktemp("regions")
    random = np.random.default_rng(5)
    samples = {}
    for name, kind in KINDS.items():
        columns = {
            "x": random.exponential(25, EVENTS),
            "u": random.random(EVENTS),
            "channel": random.integers(0, 4, EVENTS).astype("int32"),
        }
        with branchline.recreate(folder / f"{name}.root") as file:
            file["Events"] = columns
        about: dict[str, Any] = {"kind": kind, "luminosity_per_fb": 2.0}
        if kind != "data":
            about = {"kind": kind, "cross_section_pb": {"ttbar": 0.03}.get(name, 0.07), "label": name.upper()}
            about["era"] = name.rpartition("_")[2] if "_" in name else "A"
        samples[name] = {"files": [str(folder / f"{name}.root")], "tree": "Events", "sample": about}
    branchline.run(Regions(), samples, folder / "out", workers=0, pictures="none")
    return folder / "out"
