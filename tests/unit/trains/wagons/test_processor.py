"""Coffea processors get a real awkward array, of which only what they look into is read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.peers.peers import imported
from tests.unit.trains.wagons.conftest import run_in_chunks

import branchline
from branchline.errors import BranchlineError, WagonError
from branchline.trains.wagons.coffea_events import ProcessorEvents
from branchline.trains.wagons.wagons import Wagon, wagons_of


def test_columns_are_read_when_looked_into(folder: Path, first_chunk: Any) -> None:
    expected = uproot.open(folder / "f0.root")["events"].arrays(entry_stop=500)
    with first_chunk(folder / "f0.root", ["px"]) as columns:
        events = ProcessorEvents().of(columns, {"dataset": "zh"})
        assert isinstance(events, ak.Array)
        assert len(events) == 500
        assert columns.touched == {}
        selected = events[events.px > 0]
        assert columns.touched == {"this": {"px"}}
        assert ak.array_equal(selected.pt, expected.pt[expected.px > 0], check_parameters=False)
        assert columns.touched == {"this": {"px", "pt"}}
        assert columns.misses == {"this": {"pt"}}
        assert selected.metadata == {"dataset": "zh"}


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 800 events with muons, named as in NanoAOD."""
    rng = np.random.default_rng(2)
    counts = rng.poisson(2, 800)
    names = ("pt", "eta", "phi", "mass")
    muons = {name: ak.unflatten(rng.exponential(5, counts.sum()).astype("f4"), counts) for name in names}
    muons["charge"] = ak.ones_like(muons["pt"], dtype="i4")
    columns = {"Muon": ak.zip(muons), "MET_pt": rng.exponential(5, 800), "MET_phi": rng.normal(0, 1, 800)}
    columns |= {name: np.arange(800, dtype="u8") for name in ("run", "luminosityBlock", "event")}
    path = tmp_path_factory.mktemp("nano") / "nano.root"
    with uproot.recreate(path) as file:
        file.mktree("events", {name: ak.type(ak.Array(column)).content for name, column in columns.items()})
        file["events"].extend(columns)
    return path


@pytest.mark.filterwarnings("ignore:Missing cross-reference:RuntimeWarning")
def test_a_schema_gives_nano_events(nano: Path, first_chunk: Any) -> None:
    schema = imported("coffea.nanoevents").NanoAODSchema
    expected = uproot.open(nano)["events"].arrays(entry_stop=500)
    maker = ProcessorEvents()
    with first_chunk(nano, []) as columns:
        events = maker.of(columns, {"dataset": "zh"}, schema)
        assert columns.touched == {}
        assert events.metadata == {"dataset": "zh"}
        assert ak.to_list(events.Muon.pt) == ak.to_list(expected.Muon_pt)
        assert columns.touched == {"this": {"nMuon", "Muon_pt"}}
        hard = events.Muon[events.Muon.pt > 5]
        assert ak.sum(hard.px) == pytest.approx(
            ak.sum((expected.Muon_pt * np.cos(expected.Muon_phi))[expected.Muon_pt > 5]), rel=1e-4
        )
        assert columns.touched == {"this": {"nMuon", "Muon_pt", "Muon_phi"}}
        # Without a schema the branches are as they are.
        assert "Muon_pt" in maker.of(columns, {}).fields


def test_the_schema_of_a_processor_is_one_of_coffea() -> None:
    schema = imported("coffea.nanoevents").BaseSchema
    from coffea.processor import ProcessorABC

    class Processor(ProcessorABC):
        def process(self, events: Any) -> Any:
            return events

        def postprocess(self, accumulator: Any) -> Any:
            return accumulator

    processor = Processor()
    assert Wagon(processor).schema is None
    for given, wanted in ((schema, schema), ("a text", None), (dict, None)):
        processor.schema = given
        assert Wagon(processor).schema is wanted


def test_fixed_arrays_are_not_looked_into_before_they_are_wanted(folder: Path, first_chunk: Any) -> None:
    expected = uproot.open(folder / "f0.root")["events/vertex"].array(entry_stop=500)
    with first_chunk(folder / "f0.root", ["vertex"]) as columns:
        events = ProcessorEvents().of(columns, {})
        assert columns.touched == {}
        assert str(events.vertex[:, 0].type) == "500 * float64"
        assert ak.to_list(events.vertex) == ak.to_list(expected)
        assert columns.touched == {"this": {"vertex"}}


def test_awkward_does_with_them_what_it_does_with_any_array(folder: Path, first_chunk: Any) -> None:
    expected = uproot.open(folder / "f0.root")["events"].arrays(entry_stop=500)
    with first_chunk(folder / "f0.root", []) as columns:
        events = ProcessorEvents().of(columns, {})
        more = ak.with_field(events, events.px * 2, "double")
        assert ak.to_list(more.double) == ak.to_list(expected.px * 2)
        zipped = ak.zip({"px": events.px, "pt": events.pt})
        assert ak.sum(zipped.px * zipped.pt) == pytest.approx(ak.sum(expected.px * expected.pt))
        assert ak.to_list(events[["px", "run"]][:3]) == ak.to_list(expected[["px", "run"]][:3])


def test_the_next_chunk_uses_what_is_known_of_the_tree(folder: Path, first_chunk: Any) -> None:
    maker = ProcessorEvents()
    for index in range(2):
        with first_chunk(folder / f"f{index}.root", ["run"]) as columns:
            assert ak.to_list(maker.of(columns, {}).run) == [index] * 500


def test_a_branch_that_is_not_there_is_named_with_the_nearest(folder: Path, first_chunk: Any) -> None:
    with first_chunk(folder / "f0.root", []) as columns:
        events = ProcessorEvents().of(columns, {})
        with pytest.raises(AttributeError, match="no branch 'runn'; did you mean run"):
            _ = events.runn
        with pytest.raises(KeyError, match="no branch 'runn'"):
            events["runn"]
        assert not hasattr(events, "genWeight")


def test_a_branch_that_changes_its_type_between_files_is_told(folder: Path, tmp_path: Path, first_chunk: Any) -> None:
    with uproot.recreate(tmp_path / "other.root") as file:
        types = {"px": "float32", "run": "int32", "pt": "var * float32", "vertex": np.dtype(("f8", (3,)))}
        events = file.mktree("events", types)
        pt = ak.Array([[np.float32(1)]] * 500)
        values = {"px": np.ones(500, "f4"), "run": np.ones(500, "i4"), "pt": pt, "vertex": np.ones((500, 3))}
        events.extend(values)
    maker = ProcessorEvents()
    with first_chunk(folder / "f0.root", []) as columns:
        maker.of(columns, {})
    with first_chunk(tmp_path / "other.root", []) as columns:
        events = maker.of(columns, {})
        with pytest.raises(BranchlineError, match="px has type float32, but type float64 in previous files"):
            ak.sum(events.px)


class PlainNano:
    """A wagon that is no processor of coffea."""

    def __init__(self, schema: Any, name: str = "plain", requires: tuple[str, ...] = ()) -> None:
        self.schema, self.name, self.requires = schema, name, requires

    def process(self, events: Any) -> dict[str, int]:
        return {type(events).__name__: len(events), "muons": int(ak.sum(ak.num(events.Muon.pt)))}


@pytest.mark.filterwarnings("ignore:Missing cross-reference:RuntimeWarning")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_schema_of_a_plain_wagon_or_a_function_gives_nano_events(nano: Path, workers: int) -> None:
    schema = imported("coffea.nanoevents").NanoAODSchema

    def function(events: Any) -> dict[str, int]:
        return {type(events).__name__: len(events), "muons": int(ak.sum(ak.num(events.Muon.pt)))}

    function.schema = schema  # type: ignore[attr-defined]
    result = run_in_chunks([PlainNano(schema), function], str(nano), workers=workers)
    assert result.errors == []
    muons = int(ak.sum(uproot.open(nano)["events/nMuon"].array()))
    for output in result.outputs.values():
        assert output == {"NanoEventsArray": 800, "muons": muons}


def test_a_schema_that_cannot_be_used_is_refused() -> None:
    schema = imported("coffea.nanoevents").NanoAODSchema
    for wrong in ("NanoAODSchema", dict, 1):
        with pytest.raises(WagonError, match="which is not a schema of coffea"):
            wagons_of(PlainNano(wrong))
    with pytest.raises(WagonError, match="cannot require other wagons"):
        wagons_of([PlainNano(schema, "first"), PlainNano(schema, "second", ("first",))])
    varied = branchline.varied(PlainNano(schema), weights={"up": lambda events: 1.0})
    with pytest.raises(WagonError, match="cannot be varied"):
        wagons_of(varied)


def test_without_coffea_the_package_is_named(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "coffea", None)
    monkeypatch.setitem(sys.modules, "coffea.nanoevents", None)
    (tmp_path / "nano.py").write_text("from coffea.nanoevents import NanoAODSchema\n")
    with pytest.raises(WagonError, match=r"coffea.*pip install 'branchline\[coffea\]'"):
        run_in_chunks(tmp_path / "nano.py", str(folder))

    class Named:
        schema = "NanoAODSchema"

        def process(self, events: Any) -> int:
            return len(events)

    with pytest.raises(WagonError, match=r"not a schema of coffea \(pip install 'branchline\[coffea\]'\)"):
        run_in_chunks(Named(), str(folder))
