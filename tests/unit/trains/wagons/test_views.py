"""Each wagon has a view of its own: what one changes in its events or in another's output, no other wagon sees."""

from __future__ import annotations

from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
import uproot
from tests.peers.peers import imported
from tests.unit.trains.wagons.conftest import run_in_chunks

EVENTS = 900


@pytest.fixture(scope="module")
def nano(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A file of 900 events with muons, named as in NanoAOD."""
    random = np.random.default_rng(3)
    counts = random.poisson(2, EVENTS)
    muons = {
        name: ak.unflatten(random.exponential(5, counts.sum()).astype("f4"), counts)
        for name in ("pt", "eta", "phi", "mass")
    }
    muons["charge"] = ak.ones_like(muons["pt"], dtype="i4")
    columns: dict[str, Any] = {"Muon": ak.zip(muons), "MET_pt": random.exponential(5, EVENTS)}
    columns |= {name: np.arange(EVENTS, dtype="u8") for name in ("run", "luminosityBlock", "event")}
    path = tmp_path_factory.mktemp("nano") / "nano.root"
    with uproot.recreate(path) as file:
        file.mktree("events", {name: ak.type(ak.Array(column)).content for name, column in columns.items()})
        file["events"].extend(columns)
    return str(path)


def processors(schema: Any) -> tuple[Any, Any]:
    """Two processors of coffea: the first changes its events, the second adds up what it sees."""
    base = imported("coffea.processor").ProcessorABC

    class Scales(base):
        name = "scales"

        def __init__(self) -> None:
            self.schema = schema

        def process(self, events: Any) -> float:
            if schema is None:
                events["Muon_pt"] = events.Muon_pt * 1.05
                return float(ak.sum(events.Muon_pt))
            events["Muon", "pt"] = events.Muon.pt * 1.05
            events.metadata["scaled"] = True
            return float(ak.sum(events.Muon.pt))

        def postprocess(self, accumulator: Any) -> Any:
            return accumulator

    class Sums(Scales):
        name = "sums"

        def process(self, events: Any) -> float:
            assert "scaled" not in events.metadata
            return float(ak.sum(events.Muon_pt if schema is None else events.Muon.pt))

    return Scales(), Sums()


@pytest.mark.filterwarnings("ignore:Missing cross-reference:RuntimeWarning")
@pytest.mark.parametrize("has_schema", [False, True])
def test_a_processor_changes_its_own_events_alone(nano: str, has_schema: bool) -> None:
    schema = imported("coffea.nanoevents").NanoAODSchema if has_schema else None
    first, second = processors(schema)
    alone = run_in_chunks([second], nano)
    together = run_in_chunks([first, second], nano)
    assert not together.errors
    assert together.outputs["sums"] == alone.outputs["sums"]
    assert together.outputs["scales"] == pytest.approx(1.05 * alone.outputs["sums"])


@pytest.mark.filterwarnings("ignore:Missing cross-reference:RuntimeWarning")
@pytest.mark.parametrize("has_schema", [False, True])
def test_a_shared_column_counts_for_every_processor_that_reads_it(nano: str, has_schema: bool) -> None:
    schema = imported("coffea.nanoevents").NanoAODSchema if has_schema else None
    job = run_in_chunks(list(processors(schema)), nano).job
    read = {wagon["name"]: wagon["branches"] for wagon in job["wagons"]}
    assert "Muon_pt" in read["scales"]
    assert read["sums"] == read["scales"]


class Assigns:
    name = "assigns"

    def process(self, events: Any) -> float:
        muon = events.Muon
        muon["pt"] = muon.pt * 2
        events.metadata["seen"] = True
        return float(ak.sum(events.Muon.pt))


class Reads:
    name = "reads"

    def process(self, events: Any) -> float:
        assert "seen" not in events.metadata
        return float(ak.sum(events.Muon.pt))


def test_a_wagon_changes_its_own_records_alone(nano: str) -> None:
    alone = run_in_chunks([Reads()], nano)
    together = run_in_chunks([Assigns(), Reads()], nano)
    assert not together.errors
    assert together.outputs["reads"] == alone.outputs["reads"]
    assert together.outputs["assigns"] == pytest.approx(2 * alone.outputs["reads"])


class Makes:
    name = "makes"

    def process(self, events: Any) -> dict[str, Any]:
        histogram = hist.Hist.new.Reg(10, 0, 50, name="pt").Weight().fill(events.MET_pt)
        selected = ak.Array({"met": events.MET_pt[:3]})
        return {"h": histogram, "mask": np.ones(4), "list": [1], "nested": {"n": 1}, "selected": selected}


class Spoils:
    """Changes in place what another wagon made."""

    requires = ("makes",)

    def __init__(self, name: str) -> None:
        self.name = name

    def process(self, events: Any) -> int:
        made = events.outputs["makes"]
        assert "new" not in made["selected"].fields
        made["h"].fill([1.0, 2.0])
        made["mask"][:] = 7
        made["list"].append(2)
        made["nested"]["n"] = 5
        made["selected"]["new"] = made["selected"].met * 2
        made["more"] = 1
        return len(events)


def test_an_output_that_another_wagon_changes_stays_as_it_was(nano: str) -> None:
    alone = run_in_chunks([Makes()], nano).outputs["makes"]
    result = run_in_chunks([Makes(), Spoils("one"), Spoils("two")], nano)
    assert not result.errors
    made = result.outputs["makes"]
    assert made["h"] == alone["h"]
    assert made.keys() == alone.keys()
    assert (made["mask"] == alone["mask"]).all()
    assert made["list"] == alone["list"]
    assert made["nested"] == alone["nested"]
    assert made["selected"].fields == ["met"]


class WritesToColumns:
    name = "writes"

    def process(self, events: Any) -> int:
        np.asarray(events.MET_pt)[:] = 0
        return len(events)


def test_the_memory_of_columns_cannot_be_written_to(nano: str) -> None:
    """Else a wagon that goes around awkward would change what the next one sees."""
    result = run_in_chunks([WritesToColumns(), Reads()], nano)
    assert "read-only" in result.errors[0]
    assert result.outputs["reads"] == run_in_chunks([Reads()], nano).outputs["reads"]
