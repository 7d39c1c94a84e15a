"""The analyses in `examples` run from data to a fit, with the same results as coffea, uproot and ROOT."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.branchline_command import command
from tests.conftest import REPOSITORY
from tests.peers.peers import imported, missing

EXAMPLES = REPOSITORY / "examples"
#: How many events to make of each example.
EVENTS = {"lhcb": 20_000, "higgs": 2_000, "spectrum": 2_000, "adl": 4_000}
#: For each example with a fit: the wagon, how to name the data, options of the command, and the words of the fit before
#: its first number.
ANALYSES = {
    "lhcb": ("candidates", "{}:DecayTree", [], "asymmetry"),
    "higgs": ("four_leptons", "{}", [], "signal strength"),
    "spectrum": (
        "from_ao2d",
        "{}:DF_*/O2collision_001",
        ["--join", "Tracks=O2track_iu + O2trackextra_002 by fIndexCollisions"],
        "scale",
    ),
}
#: What the fits find, from what the data are drawn with, and how far from it they may be.
TRUTH = {"lhcb": (0.02, 0.07), "higgs": (1.0, 1.0), "spectrum": (1.1, 0.1)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Makes the data of an example once, and returns the name of its files."""
    made: dict[str, str] = {}

    def make(name: str) -> str:
        if name not in made:
            words = [sys.executable, EXAMPLES / name / "make_data.py", tmp_path_factory.mktemp(name)]
            found = subprocess.run([*words, str(EVENTS[name])], capture_output=True, text=True, check=True)
            made[name] = found.stdout.strip()
        return made[name]

    return make


@pytest.mark.parametrize("name", ANALYSES)
def test_an_analysis_runs_from_data_to_a_fit(name: str, data: Callable[[str], str], tmp_path: Path) -> None:
    imported("cabinetry")  # also brings iminuit and pyhf
    wagon, place, options, words = ANALYSES[name]
    what = f"{EXAMPLES / name / 'analysis.py'}:{wagon}"
    run = command("run", what, place.format(data(name)), "-o", "out", "--workers", "2", *options)
    subprocess.run(run, cwd=tmp_path, check=True, capture_output=True, timeout=200)
    fit = [sys.executable, EXAMPLES / name / "fit.py", "out"]
    found = subprocess.run(fit, cwd=tmp_path, check=True, capture_output=True, text=True, timeout=200).stdout
    value, error = (float(one.split()[0]) for one in found.partition(words)[2].split("+-")[:2])
    truth, within = TRUTH[name]
    assert abs(value - truth) < min(4 * error, within)
    assert all(one.stat().st_size > 1000 for one in tmp_path.glob("*.pdf"))


@pytest.mark.long
@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", EVENTS)
def test_an_analysis_is_as_with_its_peers(name: str, data: Callable[[str], str]) -> None:
    check_peers()
    assert rows(name, data(name)) == dict.fromkeys(("branchline", "coffea", "rdataframe"), "equal")


@pytest.mark.long
def test_the_spectrum_of_a_real_esd_file_is_as_with_its_peers(shared: Path) -> None:
    check_peers()
    assert set(rows("spectrum", str(shared / "root" / "AliESDs-0.root")).values()) == {"equal"}


def check_peers() -> None:
    imported("coffea")
    if importlib.util.find_spec("ROOT") is None:
        missing("ROOT")


def rows(name: str, files: str) -> dict[str, str]:
    """What the table of `compare.py` says on the bins of each program."""
    words = [sys.executable, EXAMPLES / "compare.py", name, files]
    ended = subprocess.run(words, check=True, capture_output=True, text=True, timeout=280)
    cells = [line.strip("| ").split(" | ") for line in ended.stdout.splitlines() if line.startswith("| ")]
    return {one[0]: one[-1] for one in cells[1:]}
