"""A wagon of which a trial found that it changes the results of others is named by every later train with it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest
from tests.command_line import run_command

import branchline
from branchline.errors import BranchlineWarning
from branchline.trains.wagons.known_changes import ATTRIBUTE, known_changes
from branchline.trains.wagons.wagons import load_wagons

WAGONS = """
class Shared:
    scale = 1.0

class Changes:
    def process(self, events):
        Shared.scale = 2.0
        return len(events)

class Innocent:
    def process(self, events):
        return float(len(events) * Shared.scale)
"""


@pytest.fixture
def wagons(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / "wagons.py"
    path.write_text(WAGONS)
    return path


def run(wagons: Path, folder: Path, out: Path | None = None) -> list[str]:
    """The warnings of a train."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        branchline.run(str(wagons), str(folder), out, workers=1, pictures="none")
    return [str(one.message) for one in seen if issubclass(one.category, BranchlineWarning)]


def test_a_finding_of_a_trial_is_told_by_later_trains(wagons: Path, folder: Path, tmp_path: Path) -> None:
    assert run(wagons, folder) == []
    tried = run_command(["test", wagons, folder / "f0.root"])
    assert "Changes changes data that it uses" in tried.output.replace("\n", " ")
    [said] = run(wagons, folder, tmp_path / "out")
    assert "wagon Innocent: its result may have been changed by Changes" in said
    assert "found that it changes the results of Innocent" in said
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert {one["name"]: len(one["warnings"]) for one in job["wagons"]} == {"Changes": 1, "Innocent": 1}
    assert "Results that may be wrong" in (tmp_path / "out" / "report.html").read_text()
    done = run_command(["run", wagons, folder, "-o", tmp_path / "out", "--pictures", "none"])
    assert done.exit_code == 0, done.output
    assert "Warning: wagon Innocent: its result may have been changed by Changes" in done.output


def test_other_code_and_other_trains_have_no_finding(wagons: Path, folder: Path) -> None:
    run_command(["test", wagons, folder / "f0.root"])
    assert run(Path(f"{wagons}:Innocent"), folder) == []
    wagons.write_text(WAGONS.replace("Shared.scale = 2.0", "pass"))
    assert run(wagons, folder) == []


def test_what_a_control_room_says_of_a_wagon_is_told(wagons: Path) -> None:
    wagons.write_text(f"{WAGONS}\nChanges.{ATTRIBUTE} = 'trial 3 found\\x1b it'\n")
    assert known_changes(load_wagons(str(wagons))[0]) == {"Changes": "trial 3 found\N{REPLACEMENT CHARACTER} it"}


def test_a_damaged_finding_is_none(wagons: Path, folder: Path, tmp_path: Path) -> None:
    run_command(["test", wagons, folder / "f0.root"])
    [path] = (tmp_path / "state").rglob("wagons-that-change-others/*.json")
    for content in ("", "[]", "{}", '{"found": 1, "changed": 2}'):
        path.write_text(content)
        assert known_changes(load_wagons(str(wagons))[0]) == {}
