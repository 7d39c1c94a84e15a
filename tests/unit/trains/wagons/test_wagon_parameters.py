"""Parameters of wagons are set by their types, recorded, and part of what kept results are found by."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import awkward as ak
import pytest
from tests.command_line import run_command
from tests.unit.trains.wagons.conftest import run_in_chunks

import branchline
from branchline.errors import MissingFileError, OptionError
from branchline.trains.wagons.wagon_settings import settings_of, settings_of_file, settings_of_texts, with_settings
from branchline.trains.wagons.wagons import load_wagons, wagons_of

SOURCE = '''
import dataclasses
import awkward as ak

class Above:
    """Counts what lies above a cut."""

    name = "above"
    label = "all"
    edges = (0.0, 1.0)

    def __init__(self, cut: float = 1.0, times: int = 2, on: bool = True, runs: list[int] | None = None):
        self.cut, self.times, self.on, self.runs = cut, times, on, runs or []
        self.threshold = cut * times

    def process(self, events):
        return {"count": int(ak.sum(events.px > self.threshold)), "label": self.label, "edges": self.edges[-1]}

@dataclasses.dataclass
class Window:
    low: float = -1.0
    high: float = 1.0

    def process(self, events):
        return int(ak.sum((events.px > self.low) & (events.px < self.high)))

def spread(events, power: int = 2):
    return float(ak.sum(events.px**power))
'''


@pytest.fixture
def wagons_file(tmp_path: Path) -> str:
    path = tmp_path / "cuts.py"
    path.write_text(SOURCE)
    return str(path)


def counts(folder: Path, above: float) -> int:
    return int(sum(ak.sum(one.px > above) for one in branchline.iterate(f"{folder}/*.root:events", ["px"])))


def test_arguments_attributes_and_fields_are_set_and_recorded(folder: Path, wagons_file: str) -> None:
    parameters = {"above.cut": 0.25, "above": {"label": "high", "edges": [0, 3]}, "Window.low": 0}
    result = run_in_chunks(wagons_file, f"{folder}/*.root", parameters=parameters)
    chunks = result.record.wagons[0].chunks
    assert result.outputs["above"] == {"count": counts(folder, 0.5), "label": "high", "edges": 3.0 * chunks}
    by_name = {one.name: one for one in result.record.wagons}
    recorded = {one.name: (one.kind, one.value, one.is_set) for one in by_name["above"].parameters}
    assert recorded["cut"] == ("float", 0.25, True)
    assert recorded["times"] == ("int", 2, False)
    assert recorded["edges"] == ("list[float]", [0.0, 3.0], True)
    assert [(one.name, one.value, one.is_set) for one in by_name["Window"].parameters] == [
        ("low", 0.0, True),
        ("high", 1.0, False),
    ]


def test_texts_have_the_types_of_the_parameters(wagons_file: str) -> None:
    wagons = load_wagons(wagons_file)[0]
    texts = ["above.cut=2", "above.times=3", "above.on=false", "above.runs=1,2", "above.label=a=b"]
    above = with_settings(wagons, settings_of_texts(texts))[0].thing
    assert (above.cut, above.times, above.on, above.runs, above.label) == (2.0, 3, False, [1, 2], "a=b")
    assert above.threshold == 6.0
    assert wagons[0].thing.threshold == 2.0, "the wagon of the caller stays as it was"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("abov.cut=1", "unknown wagon 'abov' .*did you mean 'above'"),
        ("above.cuts=1", "has no parameter 'cuts' .*did you mean 'cut'"),
        ("above.cut=high", "above.cut cannot be 'high' .*of type float"),
        ("above.times=1.5", "of type int"),
        ("above.on=maybe", "of type bool"),
        ("above.cut=nan", "of type float"),
        ("above.branches=px", "no parameter 'branches'"),
        ("above.threshold=1", "no parameter 'threshold'"),
        ("cut=1", "invalid parameter"),
        ("above.cut", "invalid parameter"),
    ],
)
def test_what_cannot_be_set_is_refused_with_a_sentence(wagons_file: str, text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        with_settings(load_wagons(wagons_file)[0], settings_of_texts([text]))


@pytest.mark.parametrize("value", ["20", True, None, [1.0], float("inf"), {}])
def test_a_value_of_another_type_is_refused(wagons_file: str, value: Any) -> None:
    with pytest.raises(OptionError, match=r"above\.cut cannot be|no parameter"):
        with_settings(load_wagons(wagons_file)[0], settings_of({"above": {"cut": value}}))


def test_a_file_and_the_command_line_go_together(wagons_file: str, tmp_path: Path) -> None:
    values = tmp_path / "values.toml"
    values.write_text("[above]\ncut = 3\ntimes = 5\n")
    settings = settings_of_file(str(values)) + settings_of_texts(["above.times=7"])
    above = with_settings(load_wagons(wagons_file)[0], settings)[0].thing
    assert (above.cut, above.times) == (3.0, 7)
    with pytest.raises(MissingFileError):
        settings_of_file(str(tmp_path / "none.toml"))
    values.write_text("[above\n")
    with pytest.raises(OptionError, match="TOML"):
        settings_of_file(str(values))


class Hidden:
    """Keeps its argument under no name of it."""

    def __init__(self, cut: float = 1.0, other: int = 3) -> None:
        self._cut = cut
        self.something = other

    def process(self, _events: Any) -> int:
        """Nothing."""
        return 0


def test_a_wagon_that_hides_an_argument_is_not_made_again_by_guess() -> None:
    wagons = wagons_of(Hidden())[0]
    with pytest.raises(OptionError, match=r"does not store its argument 'other'.*self\.other = other"):
        with_settings(wagons, settings_of({"Hidden.cut": 2.0}))


def test_kept_results_are_of_the_same_values(folder: Path, wagons_file: str, tmp_path: Path) -> None:
    def run(cut: float) -> tuple[int, int]:
        parameters, wagons = {"above.cut": cut / 2}, f"{wagons_file}:Above"
        result = branchline.run(
            wagons, f"{folder}/*.root", tmp_path / "out", workers=0, parameters=parameters, pictures="none"
        )
        assert result.record.wagons[0].not_reusable == ""
        return result.outputs["above"]["count"], result.record.subjobs_reused

    first, again, other = run(0.5), run(0.5), run(0.75)
    assert first == (counts(folder, 0.5), 0)
    assert again == (counts(folder, 0.5), 1)
    assert other == (counts(folder, 0.75), 0)


def test_parameters_travel_to_workers_elsewhere(folder: Path, wagons_file: str) -> None:
    parameters = {"above.cut": 0.25, "spread.power": 4}
    with ThreadPoolExecutor(1) as executor:
        there = branchline.run(
            f"{wagons_file}:Above,spread", f"{folder}/*.root", on=executor, parameters=parameters, step_size=400
        )
    here = run_in_chunks(f"{wagons_file}:Above,spread", f"{folder}/*.root", parameters=parameters)
    assert there.outputs == here.outputs
    assert here.outputs["above"]["count"] == counts(folder, 0.5)


def test_the_command_line_sets_them_and_a_trial_has_them(folder: Path, wagons_file: str, tmp_path: Path) -> None:
    values = tmp_path / "values.toml"
    values.write_text("[Window]\nhigh = 0.5\n")
    options = ["--set", "above.cut=0.25", "--set-from", str(values)]
    ended = run_command(["run", wagons_file, f"{folder}/*.root", "-o", str(tmp_path / "out"), *options])
    assert ended.exit_code == 0, ended.stderr
    assert branchline.load(tmp_path / "out")["above"]["count"] == counts(folder, 0.5)
    assert "above.cut = 0.25, Window.high = 0.5" in (tmp_path / "out/report.html").read_text()
    wrong = run_command(["test", wagons_file, f"{folder}/*.root", "--set", "above.cut=x"])
    assert wrong.exit_code == 2
    assert "above.cut cannot be 'x'" in wrong.stderr
