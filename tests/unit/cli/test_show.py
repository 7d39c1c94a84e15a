"""`branchline show`: what is in a file, whatever it holds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.command_line import run_command


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file with two trees, a histogram, and one within a directory."""
    path = tmp_path / "file.root"
    with uproot.recreate(path) as file:
        file.mktree("Events", {"Muon_pt": "f4", "Muon_eta": "f4", "MET_pt": "f4"})
        file["Events"].extend({name: np.arange(1234, dtype="f4") for name in ("Muon_pt", "Muon_eta", "MET_pt")})
        file.mktree("Runs", {"sumw": "f8"})
        file["Runs"].extend({"sumw": np.ones(1)})
        file["counts"] = np.histogram(np.arange(10), bins=3)
        file["plots/inner"] = np.histogram(np.arange(10), bins=4)
    return path


def shown(*words: object) -> list[str]:
    done = run_command(["show", *map(str, words)])
    assert done.exit_code == 0, done.output
    return done.stdout.splitlines()


def test_a_file_with_several_trees_is_listed(path: Path) -> None:
    lines = {line.split()[0]: " ".join(line.split()) for line in shown(path)}
    assert "TTree" in lines["Events"]
    assert "1 234 entries, 3 branches" in lines["Events"]
    assert "1 entry, 1 branch" in lines["Runs"]
    assert "TH1D" in lines["counts"]
    assert "TH1D" in lines["plots/inner"]
    assert "TDirectory" in lines["plots"]


def test_a_file_of_histograms_only_is_listed(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "h.root") as file:
        file["counts"] = np.histogram(np.arange(10), bins=3)
    assert any(line.startswith("counts") and "TH1D" in line for line in shown(tmp_path / "h.root"))


def test_one_tree_next_to_histograms_is_shown_with_its_branches(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "f.root") as file:
        file.mktree("Events", {"Muon_pt": "f4"})
        file["counts"] = np.histogram(np.arange(10), bins=3)
    text = "\n".join(shown(tmp_path / "f.root"))
    assert "counts" in text
    assert "Muon_pt" in text


@pytest.mark.parametrize(
    ("tree", "total"), [("Events", "Events: 1 234 entries, 3 branches, "), ("Runs", "Runs: 1 entry, 1 branch, ")]
)
def test_the_last_line_of_a_tree_counts_its_entries_and_branches(path: Path, tree: str, total: str) -> None:
    assert shown(f"{path}:{tree}")[-1].startswith(total)


def test_filters_choose_objects_or_branches(path: Path) -> None:
    assert [line.split()[0] for line in shown(path, "--filter", "co*")[2:-1]] == ["counts"]
    text = "\n".join(shown(f"{path}:Events", "--filter", "Muon_*"))
    assert "Muon_pt" in text
    assert "MET_pt" not in text
    assert "no object" in shown(path, "--filter", "none*")[-1]
    assert "0 branches" in shown(f"{path}:Events", "--filter", "none*")[-1]


def test_a_tree_a_directory_and_an_object_are_shown_by_name(path: Path) -> None:
    assert any(line.startswith("MET_pt") for line in shown(f"{path}:Events"))
    assert [line.split()[0] for line in shown(f"{path}:Events/MET_pt")[2:-1]] == ["MET_pt"]
    assert any(line.startswith("inner") for line in shown(f"{path}:plots"))
    assert "TH1D" in "\n".join(shown(f"{path}:counts"))
    done = run_command(["show", f"{path}:Event"])
    assert done.exit_code == 1
    assert "Events" in done.stderr


def test_versions_of_one_name_are_told_apart(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "h.root") as file:
        file["counts"] = np.histogram(np.arange(10), bins=3)
        file["counts"] = np.histogram(np.arange(10), bins=4)
    assert sum(line.startswith("counts;") for line in shown(tmp_path / "h.root")) == 2


def test_a_tree_that_cannot_be_opened_does_not_hide_the_others(path: Path) -> None:
    content = bytearray(path.read_bytes())
    with uproot.open(path) as file:
        key = file.key("Runs")
        seek, length = key.fSeekKey + key.fKeylen, key.fNbytes - key.fKeylen
    content[seek : seek + length] = b"\xff" * length
    path.write_bytes(content)
    lines = {line.split()[0]: line for line in shown(path)}
    assert "1 234 entries" in lines["Events"]
    assert "cannot be read" in lines["Runs"]
