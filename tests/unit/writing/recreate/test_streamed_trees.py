"""A tree that was opened is written into another file step by step, with every value and its arrays' counters."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import awkward as ak
import numpy as np
import pytest
import uproot

import branchline

COUNTS = np.array([2, 0, 1])
JAGGED = ak.unflatten(np.array([1.5, 2.5, 3.5], "f4"), COUNTS)


def test_a_tree_keeps_its_values_types_title_and_shared_counters(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        tree = file.mktree(
            "events",
            {"Muon_pt": JAGGED.type.content, "Muon_id": "var * int8", "x": "uint16", "text": "string"},
            title="two muons",
            counter_name=lambda _: "nMuon",
        )
        tree.extend(
            {
                "Muon_pt": JAGGED,
                "Muon_id": ak.values_astype(JAGGED, "i1"),
                "x": np.array([1, 2, 3], "u2"),
                "text": ["", "b", "c"],
            }
        )
    with branchline.recreate(tmp_path / "b.root") as file, branchline.open(tmp_path / "a.root") as source:
        file["dir/again"] = source["events"]
        assert file["dir/again"].num_entries == 3
    again, given = (branchline.open(tmp_path / one) for one in ("b.root:dir/again", "a.root:events"))
    assert again.title == "two muons"
    assert again.typenames() == given.typenames()
    assert ak.array_equal(again.arrays(), given.arrays())
    by_uproot = uproot.open(tmp_path / "b.root")["dir/again"]
    assert by_uproot.keys() == ["nMuon", "Muon_pt", "Muon_id", "x", "text"]
    assert by_uproot["Muon_pt"].array().to_list() == JAGGED.to_list()


def test_an_rntuple_stays_one_with_its_records(tmp_path: Path) -> None:
    values = {
        "jet": ak.zip({"pt": JAGGED, "eta": JAGGED * 2}),
        "n": [1, 2, 3],
        "empty": ak.Array([[[1]], [], [[], [2]]]),
    }
    with branchline.recreate(tmp_path / "a.root") as file:
        file.mkrntuple("events", values)
        file.mkrntuple("none", {name: ak.Array(one).type.content for name, one in values.items()})
    with branchline.recreate(tmp_path / "b.root") as file, branchline.open(tmp_path / "a.root") as source:
        file.update({name: source[name] for name in ("events", "none")})
    again, given = (branchline.open(tmp_path / one) for one in ("b.root", "a.root"))
    assert set(again.classnames().values()) == {"ROOT::RNTuple"}
    assert ak.array_equal(again["events"].arrays(), given["events"].arrays())
    assert again["none"].typenames() == given["none"].typenames()


def test_names_that_other_branches_have_are_no_names_of_counters(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root") as file:
        values = {"hits": ak.Array([["a"], [], ["b", "c"]]), "nhits": [1, 0, 2], "n_": [5, 6, 7]}
        file.mktree("events", values)
    with branchline.recreate(tmp_path / "b.root") as file, branchline.open(tmp_path / "a.root") as source:
        file["events"] = source["events"]
    assert branchline.open(tmp_path / "b.root:events").arrays(list(values)).to_list() == ak.zip(values, 1).to_list()


def test_a_tree_that_cannot_be_read_to_its_end_is_not_written(tmp_path: Path) -> None:
    with branchline.recreate(tmp_path / "a.root", compression="zstd") as file:
        file.mktree("events", {"x": np.random.default_rng(1).normal(size=100_000)})
    damaged = bytearray((tmp_path / "a.root").read_bytes())
    middle = damaged.find(b"ZS\x01", len(damaged) // 2)
    damaged[middle : middle + 2] = b"??"
    (tmp_path / "bad.root").write_bytes(damaged)
    with branchline.recreate(tmp_path / "b.root") as file:
        file.mktree("events", {"x": [1.0]})
        with branchline.open(tmp_path / "bad.root") as source, pytest.raises(branchline.BranchlineError):
            file["events"] = source["events"]
        assert file.keys() == ["events;1"]
    assert branchline.open(tmp_path / "b.root:events").arrays()["x"].to_list() == [1.0]


def test_a_large_tree_is_never_held_whole(tmp_path: Path) -> None:
    """Of 800 MB of values a process holds a few steps, and the cluster that is being filled."""
    with branchline.recreate(tmp_path / "a.root", compression="lz4:1") as file:
        tree = file.mktree("events", {"x": "float64"})
        for number in range(10):
            tree.extend({"x": np.full(10_000_000, number, "f8")})
    script = f"""
import resource
import branchline
source = branchline.open({str(tmp_path / "a.root")!r})
with branchline.recreate({str(tmp_path / "b.root")!r}, compression="lz4:1") as file:
    source["events"].arrays(entry_stop=10)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    file["events"] = source["events"]
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000)
"""
    grown_mb = float(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout)
    assert grown_mb < 400
    read = branchline.open(tmp_path / "b.root:events").arrays(library="np")["x"]
    assert np.array_equal(read, np.repeat(np.arange(10.0), 10_000_000))
