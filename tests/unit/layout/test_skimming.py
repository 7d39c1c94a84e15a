"""Skims: what selects entries, and what of a file is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline.layout import skim

EVENTS = 2500
WAGONS = """
import awkward as ak

class Hard:
    def process(self, events):
        return ak.any(events.Muon.pt > 40, axis=1)

class Selecting:
    requires = ("Hard",)
    def process(self, events):
        raise AssertionError("select says it")
    def select(self, events):
        assert events.metadata["treename"] == "Events"
        return events.outputs["Hard"] & (events.MET_pt > 20)

class Failing:
    def process(self, events):
        return events.Muon.ptt > 40
"""


def nano(path: Path, seed: int = 1, hlt: tuple[str, ...] = ("HLT_IsoMu24",)) -> dict[str, Any]:
    """A small file as NanoAOD is: events, sums of weights of its runs, and a histogram; the content of events."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, EVENTS)
    muons = ak.unflatten(rng.exponential(20, counts.sum()).astype("f4"), counts)
    content = {
        "Muon": ak.zip({"pt": muons, "eta": muons * 0 + 1}),
        "MET_pt": rng.exponential(30, EVENTS).astype("f4"),
        **{name: rng.random(EVENTS) < 0.5 for name in hlt},
    }
    with uproot.recreate(path) as file:
        write_tree(file, "Events", content)
        write_tree(file, "Runs", {"run": np.array([seed], "u4"), "genEventSumw": np.array([100.0 * seed])})
        file["counts"] = np.histogram(np.asarray(content["MET_pt"]), bins=10)
    return content


def write_tree(file: Any, name: str, content: dict[str, Any]) -> None:
    """Writes a TTree whose branches are named as those of NanoAOD."""
    types = {one: array.type.content if isinstance(array, ak.Array) else array.dtype for one, array in content.items()}
    tree = file.mktree(name, types, field_name=lambda outer, inner: f"{outer}_{inner}" if outer else inner)
    tree.extend(content)


def wanted(content: dict[str, Any]) -> Any:
    return ak.any(content["Muon"].pt > 40, axis=1)


@pytest.mark.parametrize("name", ["Hard", "Selecting"])
def test_a_wagon_that_selects_sees_events_as_in_a_train(tmp_path: Path, name: str) -> None:
    content = nano(tmp_path / "in.root")
    (tmp_path / "wagons.py").write_text(WAGONS)
    output = tmp_path / "out.root"
    wagon = f"{tmp_path / 'wagons.py'}:{name}"
    done = run_command(["skim", tmp_path / "in.root", "--tree", "Events", "-o", output, "--wagon", wagon])
    assert done.exit_code == 0, done.output
    mask = wanted(content) & ((content["MET_pt"] > 20) if name == "Selecting" else True)
    assert uproot.open(output)["Events/Muon_pt"].array().tolist() == content["Muon"].pt[mask].tolist()


def test_a_wagon_that_fails_is_named(tmp_path: Path) -> None:
    nano(tmp_path / "in.root")
    (tmp_path / "wagons.py").write_text(WAGONS)
    wagon = f"{tmp_path / 'wagons.py'}:Failing"
    done = run_command(["skim", tmp_path / "in.root", "--tree", "Events", "-o", tmp_path / "o.root", "--wagon", wagon])
    assert done.exit_code == 1
    assert "wagon 'Failing'" in done.output
    assert "ptt" in done.output
    assert not (tmp_path / "o.root").exists()


def test_a_function_selects_by_flat_names_and_by_records(tmp_path: Path) -> None:
    content = nano(tmp_path / "in.root")
    for number, where in enumerate(
        (lambda events: ak.any(events.Muon.pt > 40, axis=1), lambda events: ak.any(events.Muon_pt > 40, axis=1))
    ):
        output = tmp_path / f"{number}.root"
        skim(tmp_path / "in.root", output, where=where, tree="Events")
        assert branchline.open(f"{output}:Events").num_entries == ak.sum(wanted(content))
