"""Events give columns when they are touched, and remember who touched what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from branchline.errors import NoSuchKeyError
from branchline.trains.wagons.events import Events


def test_columns_are_what_uproot_reads(folder: Path, first_chunk: Any) -> None:
    expected = uproot.open(folder / "f0.root")["events"].arrays(entry_stop=500)
    with first_chunk(folder / "f0.root", ["px"]) as columns:
        events = Events(columns, {"dataset": "zh"})
        assert len(events) == 500
        assert {"px", "run", "pt"} <= set(events.fields)
        assert ak.array_equal(events.px, expected.px, check_parameters=False)
        assert ak.array_equal(events["pt"], expected.pt, check_parameters=False)
        assert events.metadata["dataset"] == "zh"


def test_selections_of_selections_and_several_columns(folder: Path, first_chunk: Any) -> None:
    expected = uproot.open(folder / "f0.root")["events"].arrays(entry_stop=500)
    with first_chunk(folder / "f0.root", ["px", "pt"]) as columns:
        events = Events(columns, {"dataset": "zh"})
        selected = events[events.px > 0][:50]
        chosen = expected[expected.px > 0][:50]
        assert len(selected) == 50
        assert selected.metadata["dataset"] == "zh"
        assert selected.pt.to_list() == chosen.pt.to_list()
        both = selected[["px", "pt"]]
        assert both.fields == ["px", "pt"]
        assert both.px.to_list() == chosen.px.to_list()
        assert len(events[np.array([3, 1])]) == 2
        assert len(events[events.px > 1e9]) == 0


def test_branches_that_belong_together_are_records(tmp_path: Path, first_chunk: Any) -> None:
    counts = np.arange(600) % 4
    numbers = np.arange(counts.sum(), dtype="f4")
    columns = {"Muon": ak.zip({"pt": ak.unflatten(numbers, counts), "eta": ak.unflatten(-numbers, counts)})}
    columns |= {"MET_pt": np.arange(600), "MET_phi": np.zeros(600)}
    with uproot.recreate(tmp_path / "nano.root") as file:
        file.mktree("events", {name: ak.type(ak.Array(column)).content for name, column in columns.items()})
        file["events"].extend(columns)
    with first_chunk(tmp_path / "nano.root", ["Muon_pt"]) as columns_of_chunk:
        events = Events(columns_of_chunk, {})
        muons = events.Muon
        assert columns_of_chunk.touched == {}
        assert muons.pt.to_list() == columns["Muon"].pt[:500].to_list()
        assert columns_of_chunk.touched == {"this": {"nMuon", "Muon_pt"}}
        assert columns_of_chunk.misses == {"this": {"nMuon"}}
        some = events[events.MET.pt > 250]
        hard = some.Muon[some.Muon.pt > 500]
        wanted = columns["Muon"][251:500]
        assert hard.eta.to_list() == wanted.eta[wanted.pt > 500].to_list()
        assert columns_of_chunk.touched["this"] == {"nMuon", "Muon_pt", "Muon_eta", "MET_pt"}
        assert events["Muon_pt"].to_list() == muons.pt.to_list()
        for name in ("Muons", "muon", "Moun"):
            with pytest.raises(AttributeError, match=r"did you mean Muon or"):
                getattr(events, name)


def test_touches_and_misses_are_counted_by_wagon(folder: Path, first_chunk: Any) -> None:
    with first_chunk(folder / "f0.root", ["px"]) as columns:
        events = Events(columns, {})
        _ = events.px, events.pt, events.pt
        columns.wagon = "other"
        _ = Events(columns, {}).pt
        assert columns.touched == {"this": {"px", "pt"}, "other": {"pt"}}
        assert columns.misses == {"this": {"pt"}, "other": {"pt"}}


def test_while_learning_nothing_is_a_miss(folder: Path, first_chunk: Any) -> None:
    with first_chunk(folder / "f0.root", [], learning=True) as columns:
        _ = Events(columns, {}).pt
        assert columns.touched == {"this": {"pt"}}
        assert columns.misses == {}


def test_a_branch_that_is_not_there_is_named_with_the_nearest(folder: Path, first_chunk: Any) -> None:
    with first_chunk(folder / "f0.root", ["px"]) as columns:
        events = Events(columns, {})
        with pytest.raises(NoSuchKeyError, match="px"):
            events["pxx"]
        assert not hasattr(events, "pxx")
        assert columns.touched == {}


def test_what_is_no_use_of_columns_is_refused(folder: Path, first_chunk: Any) -> None:
    with first_chunk(folder / "f0.root", ["px"]) as columns:
        events = Events(columns, {})
        with pytest.raises(TypeError, match=r"events\[i:i\+1\]"):
            events[3]
        with pytest.raises(TypeError, match=r"loop over events\.px"):
            list(events)
