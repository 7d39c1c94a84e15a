"""Variations of columns reach a wagon by each name that leads to the column, and what cannot be one is said."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import run_in_chunks

import branchline

PT = ak.Array([[1.0, 2.0], [], [3.0]])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same events as a TTree, where jets are branches with a counter, and as an RNTuple with collections."""
    folder = tmp_path_factory.mktemp("files")
    jets, met = ak.zip({"pt": PT, "eta": PT}), np.arange(3.0)
    with branchline.recreate(folder / "tree.root") as file:
        file.mktree("events", {"Jet": jets, "MET_pt": met, "MET_phi": met})
    with branchline.recreate(folder / "ntuple.root") as file:
        ntuple = file.mkrntuple(
            "events", {"Jet": jets.type.content, "MET": ak.zip({"pt": met, "phi": met}).type.content}
        )
        ntuple.extend({"Jet": jets, "MET": ak.zip({"pt": met, "phi": met})})
    return {"tree": folder / "tree.root", "ntuple": folder / "ntuple.root"}


def varied(file: Path, make: Callable[[Any], Any], columns: dict[str, Callable[[Any], Any]], **others: Any) -> Any:
    """What the wagon makes of varied events."""
    wagon = branchline.varied(lambda_of(make), columns={"changed": columns}, **others)
    result = run_in_chunks(wagon, f"{file}")
    errors = [one.error.message for one in result.record.wagons if one.error is not None]
    return errors[0] if errors else result.outputs["seeing"]["changed"]


def lambda_of(make: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def seeing(events: Any) -> Any:
        return make(events)

    return seeing


PT_NAMES = {"tree": ["Jet.pt", "Jet_pt"], "ntuple": ["Jet.pt"]}
MET_NAMES = {"tree": ["MET.pt", "MET_pt"], "ntuple": ["MET.pt"]}
SEEN = {
    "as a member": lambda events: float(ak.sum(events.Jet.pt)),
    "of selected events": lambda events: float(ak.sum(events[[True, True, True]].Jet[["pt"]].pt)),
    "as a branch": lambda events: float(ak.sum(events["Jet_pt" if "Jet_pt" in events.fields else "Jet.pt"])),
}


@pytest.mark.parametrize("seen", SEEN)
@pytest.mark.parametrize("kind", ["tree", "ntuple"])
def test_each_name_leads_to_the_varied_column(files: dict[str, Path], kind: str, seen: str) -> None:
    for name in PT_NAMES[kind]:
        assert varied(files[kind], SEEN[seen], {name: lambda events: events.Jet.pt * 10}) == 60
    whole = {"Jet": lambda events: ak.with_field(events.Jet, events.Jet.pt * 10, "pt")}
    assert varied(files[kind], SEEN[seen], whole) == 60


@pytest.mark.parametrize("kind", ["tree", "ntuple"])
def test_a_record_of_each_event_is_varied_too(files: dict[str, Path], kind: str) -> None:
    for name in MET_NAMES[kind]:
        columns = {name: lambda events: events.MET.pt + 1}
        assert varied(files[kind], lambda events: float(ak.sum(events.MET.pt)), columns) == 6
        assert varied(files[kind], lambda events: float(ak.sum(events.MET.phi)), columns) == 3


def test_several_columns_are_varied_one_after_the_other(files: dict[str, Path]) -> None:
    columns: dict[str, Callable[[Any], Any]] = {
        "Jet": lambda events: events.Jet[events.Jet.pt > 1.5],
        "Jet_eta": lambda events: events.Jet.eta[events.Jet.pt > 1.5] * 2,
    }

    def seen(events: Any) -> Any:
        return [ak.to_list(one) for one in (events.Jet.pt, events.Jet_eta, events.Jet.eta, events.nJet)]

    found = varied(files["tree"], seen, columns)
    assert found == [[[2.0], [], [3.0]], [[4.0], [], [6.0]], [[4.0], [], [6.0]], [1, 0, 1]]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"MET_ptt": lambda events: events.MET_pt}, 'no branch "MET_ptt" (did you mean MET_pt'),
        ({"Jet.ptt": lambda events: events.Jet.pt}, "no group 'Jet' with a member 'ptt'"),
        ({"Jett.pt": lambda events: events.Jet.pt}, 'no branch "Jett.pt"'),
        ({"MET_pt": lambda events: events.MET_pt[:2]}, "'MET_pt' has 2 entries, but there are 3 events"),
        ({"MET_pt": lambda _: 3.0}, "'MET_pt' has 0 entries, but there are 3 events"),
    ],
)
def test_what_is_no_column_of_these_events_is_said(
    files: dict[str, Path], columns: dict[str, Callable[[Any], Any]], message: str
) -> None:
    assert message in varied(files["tree"], len, columns)


def test_weights_of_other_events_are_refused(files: dict[str, Path]) -> None:
    found = varied(files["tree"], len, {}, weight=lambda events: events.MET_pt[:2])
    assert "'weight' has 2 entries, but there are 3 events" in found


def test_a_weight_may_be_one_number(files: dict[str, Path]) -> None:
    assert varied(files["tree"], lambda events: float(ak.sum(events.weight)), {}, weight=lambda _: 2.5) == 7.5


def test_each_variation_has_outputs_and_metadata_of_its_own(files: dict[str, Path]) -> None:
    def first(events: Any) -> Any:
        return {"values": np.ones(len(events))}

    def second(events: Any) -> Any:
        events.metadata["seen"] = events.metadata.get("seen", 0) + 1
        values = events.outputs["first"]["values"]
        values += 1
        return {"seen": events.metadata["seen"], "sum": float(values.sum()), "weights": ak.sum(events.weight)}

    second.requires = ["first"]  # type: ignore[attr-defined]
    same = {"MET_pt": lambda events: events.MET_pt}
    wagon = branchline.varied(second, weights={"up": lambda _: 2.0}, columns={"a": same, "b": same})
    found = run_in_chunks([first, wagon], f"{files['tree']}").outputs["second"]
    assert list(found) == ["nominal", "up", "a", "b"]
    assert all(one["seen"] == 1 and one["sum"] == 6 for one in found.values())


class Keeping:
    """Returns the same histogram for each chunk and variation, with what was filled before."""

    name = "keeping"

    def __init__(self) -> None:
        self.filled = hist.Hist.new.Reg(3, 0, 9).Double()

    def process(self, events: Any) -> Any:
        self.filled.fill(events.px)
        return {"filled": self.filled, "sum": ak.sum(events.weight)}


@pytest.mark.parametrize("of", ["weights", "columns"])
def test_one_histogram_for_all_is_refused(folder: Path, of: str) -> None:
    same = {"px": lambda events: events.px}
    given: dict[str, Any] = {"weights": {"up": lambda _: 2.0}} if of == "weights" else {"columns": {"up": same}}
    (wagon,) = run_in_chunks(branchline.varied(Keeping(), **given), f"{folder}/f0.root").record.wagons
    assert wagon.error is not None
    assert "create a new object in process()" in wagon.error.message


DECORATED = """
import branchline


def up(events):
    return {factor} + 0 * events.MET_pt


def doubled(events):
    return events.MET_pt * 2


@branchline.varied(weights={{"up": up}}, columns={{"jes_up": {{"MET_pt": doubled}}}})
def total(events, scale: float = 1.0):
    return {{"events": len(events), "weights": [scale * float(one) for one in events.weight]}}
"""


def test_a_function_is_varied_by_a_decorator_in_a_file_of_wagons(files: dict[str, Path], tmp_path: Path) -> None:
    wagons, out = tmp_path / "wagons.py", tmp_path / "out"

    def run(factor: float) -> Any:
        wagons.write_text(DECORATED.format(factor=factor))
        return branchline.run(
            f"{wagons}:total",
            f"{files['tree']}",
            out,
            workers=1,
            force=True,
            parameters={"total.scale": 10.0},
            pictures="none",
        )

    first = run(2.0).outputs["total"]
    assert {name: one["weights"] for name, one in first.items()} == {
        "nominal": [10.0] * 3,
        "up": [20.0] * 3,
        "jes_up": [10.0] * 3,
    }
    # What the decorator is given belongs to the wagon: its results are kept, and made anew when it changes.
    (record,) = run(2.0).record.wagons
    assert (record.subjobs_reused, record.not_reusable) == (1, "")
    assert run(3.0).outputs["total"]["up"]["weights"] == [30.0] * 3


def test_the_variations_of_a_decorated_function_are_known(files: dict[str, Path]) -> None:
    @branchline.varied(weights={"up": lambda events: 2.0})
    def total(events: Any) -> int:
        return len(events)

    assert total.variations == ("nominal", "up")
    assert repr(total) == "<wagon total, varied: nominal, up>"
    (wagon,) = branchline.forecast(total, f"{files['tree']}", workers=1).wagons
    assert wagon.variations == ("nominal", "up")
    assert branchline.run(total, f"{files['tree']}", workers=1).outputs["total"] == {"nominal": 3, "up": 3}
