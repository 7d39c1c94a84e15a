"""Functions of events are wagons: of a file, of a notebook, in lists, and on workers elsewhere."""

from __future__ import annotations

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from tests.unit.trains.wagons.conftest import EVENTS_PER_FILE, FILES, run_in_chunks

import branchline
from branchline.errors import WagonError
from branchline.trains.wagons.wagons import load_wagons, wagons_of

SOURCE = """
import awkward as ak
import hist

def momentum(events, bins: int = 10):
    return hist.Hist.new.Reg(bins, 0, 5, name="pt").Double().fill(ak.flatten(events.pt))

def count(events):
    return {"events": len(events), "half": events.outputs["momentum"].sum() / 2}

count.requires = ["momentum"]
count.postprocess = lambda total: total | {"done": True}

def bad(events, cut):
    return 0

class Length:
    def process(self, events):
        return len(events)

length = Length()
other = Length()
other.name = "another"
"""


@pytest.fixture
def wagons_file(tmp_path: Path) -> str:
    path = tmp_path / "functions.py"
    path.write_text(SOURCE)
    return str(path)


def test_functions_of_a_file_are_named(folder: Path, wagons_file: str) -> None:
    result = run_in_chunks(f"{wagons_file}:count,momentum", f"{folder}/*.root")
    assert list(result.outputs) == ["momentum", "count"]
    assert result.outputs["count"]["events"] == FILES * EVENTS_PER_FILE
    assert result.outputs["count"]["done"] is True
    assert result.outputs["count"]["half"] == result.outputs["momentum"].sum() / 2
    assert [one.branches for one in result.record.wagons] == [["pt"], []]
    assert all(one.code_sha256 for one in result.record.wagons)


def test_functions_run_in_other_processes_and_their_results_are_kept(
    folder: Path, wagons_file: str, tmp_path: Path
) -> None:
    wagons = f"{wagons_file}:momentum"
    first = branchline.run(wagons, f"{folder}/*.root", tmp_path / "out", workers=2, pictures="none")
    again = branchline.run(wagons, f"{folder}/*.root", tmp_path / "out", workers=2, pictures="none")
    assert again.record.subjobs_reused == again.record.subjobs
    assert again.outputs["momentum"] == first.outputs["momentum"]
    with ThreadPoolExecutor(1) as executor:
        there = branchline.run(wagons, f"{folder}/*.root", on=executor)
    assert there.outputs["momentum"] == first.outputs["momentum"]
    source = Path(wagons_file)
    source.write_text(SOURCE.replace("0, 5", "0, 6"))
    changed = branchline.run(wagons, f"{folder}/*.root", tmp_path / "out", workers=2, pictures="none")
    assert changed.record.subjobs_reused == 0


def test_objects_and_classes_of_a_file_are_named_too(wagons_file: str) -> None:
    wagons, _ = load_wagons(f"{wagons_file}:Length,length,other")
    assert [one.name for one in wagons] == ["Length", "length", "another"]
    assert [one.name for one in load_wagons(wagons_file)[0]] == ["length", "another"]


def test_a_function_as_an_object(folder: Path) -> None:
    def mass(events: Any) -> float:
        return float(ak.sum(events.px))

    factor = 3

    def scaled(events: Any) -> float:
        return factor * float(ak.sum(events.px))

    alone = run_in_chunks(mass, f"{folder}/*.root")
    both = run_in_chunks([mass, scaled], f"{folder}/*.root", workers=2)
    assert both.outputs["mass"] == alone.outputs["mass"]
    assert both.outputs["scaled"] == pytest.approx(3 * alone.outputs["mass"])


def test_a_function_that_raises_is_named_with_its_line(folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "raises.py"
    path.write_text("def ratio(events):\n    return 1 / 0\n")
    result = run_in_chunks(f"{path}:ratio", f"{folder}/*.root")
    assert "wagon ratio stopped" in result.errors[0]
    assert "raises.py, line 2" in result.errors[0]


@pytest.mark.parametrize(
    "ask",
    [
        lambda jets: jets.ptt,
        lambda jets: jets[:, :1].ptt,
        lambda jets: [one.ptt for one in jets[0]],
        lambda jets: jets["ptt"],
        lambda jets: jets[["eta", "ptt"]],
    ],
)
def test_a_field_that_is_not_there_is_answered_with_the_near_ones(tmp_path: Path, ask: Callable[[Any], Any]) -> None:
    with branchline.recreate(tmp_path / "jets.root") as file:
        file.mktree("events", {"Jet": ak.Array([[{"pt": 1.0, "eta": 2.0}], []])})

    def asking(events: Any) -> int:
        ask(events.Jet)
        return 1

    (sentence,) = run_in_chunks(asking, f"{tmp_path / 'jets.root'}").errors
    assert "'ptt'" in sentence
    assert "(did you mean pt?)" in sentence


@pytest.fixture
def muons(tmp_path: Path) -> str:
    """A file with a collection of muons."""
    members = {"pt": [20.0, 30.0], "eta": [0.5, -0.5], "phi": [0.0, 3.0], "mass": [0.1, 0.1]}
    with branchline.recreate(tmp_path / "muons.root") as file:
        file.mktree("events", {"Muon": ak.zip({name: [values, []] for name, values in members.items()})})
    return str(tmp_path / "muons.root")


@pytest.mark.parametrize(
    "ask",
    [
        lambda muons: muons + muons,
        lambda muons: muons[:1, 0] + muons[:1, 1],
        lambda muons: sum(muons[0]),
        lambda muons: ak.sum(muons, axis=1),
        lambda muons: ak.with_name(muons, "FourVector") + muons,
        lambda muons: muons.deltaR(muons),
    ],
)
def test_records_that_are_no_vectors_are_answered_with_how_they_become_such(
    muons: str, ask: Callable[[Any], Any]
) -> None:
    def asking(events: Any) -> int:
        ask(events.Muon)
        return 1

    (sentence,) = run_in_chunks(asking, muons).errors
    assert 'vector.register_awkward() and ak.with_name(records, "Momentum4D")' in sentence


def test_collections_calculate_as_vectors_once_they_are_called_so(muons: str) -> None:
    vector = pytest.importorskip("vector")

    def masses(events: Any) -> list[float]:
        vector.register_awkward()
        named = ak.with_name(events.Muon, "Momentum4D")
        first, second = ak.unzip(ak.combinations(named, 2))
        return ak.flatten((first + second).mass).to_list()

    (mass,) = run_in_chunks(masses, muons).outputs["masses"]
    wanted = vector.obj(pt=20.0, eta=0.5, phi=0.0, mass=0.1) + vector.obj(pt=30.0, eta=-0.5, phi=3.0, mass=0.1)
    assert mass == pytest.approx(wanted.mass)


def test_a_lambda_is_a_wagon(folder: Path) -> None:
    count = lambda events: len(events)  # noqa: E731 - users write lambdas
    assert run_in_chunks([count], f"{folder}/f0.root").outputs == {"lambda": EVENTS_PER_FILE}
    with pytest.raises(WagonError, match=r"two wagons are named 'lambda' \(define functions with def\)"):
        wagons_of([count, lambda events: 1])


def test_the_error_of_an_incomplete_train_has_the_lines_of_the_wagons(folder: Path) -> None:
    def asking(events: Any) -> Any:
        return events.metadata["nothing"]

    with pytest.raises(branchline.PartialResultError) as caught:
        run_in_chunks(asking, f"{folder}/f0.root").raise_error()
    [note] = caught.value.__notes__
    assert re.fullmatch(r'wagon asking, test_function_wagons.py, line \d+: return events.metadata\["nothing"\]', note)


def test_errors_of_other_objects_are_as_they_are(folder: Path) -> None:
    def asking(events: Any) -> Any:
        return {}.ptt  # type: ignore[attr-defined]

    (sentence,) = run_in_chunks(asking, f"{folder}/f0.root").errors
    assert "AttributeError: 'dict' object has no attribute 'ptt' (test_function_wagons.py" in sentence


def test_what_is_no_wagon_is_refused(wagons_file: str) -> None:
    with pytest.raises(WagonError, match=r"bad\(events, cut\) cannot be called with only the events"):
        load_wagons(f"{wagons_file}:bad")
    with pytest.raises(WagonError, match=r"no 'momentun' .*did you mean 'momentum'"):
        load_wagons(f"{wagons_file}:momentun")
    with pytest.raises(WagonError, match="no such wagon file"):
        load_wagons(f"{wagons_file}.txt:momentum")
