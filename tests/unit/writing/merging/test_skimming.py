"""Skims: what selects entries, and what of a file is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline.base.quantities import count
from branchline.errors import BadFileError, ExpressionError
from branchline.writing.merging.skim import skim
from branchline.writing.merging.verify import verify

EVENTS = 2500
WAGONS = """
import awkward as ak

class Hard:
    def process(self, events):
        return ak.any(events.Muon.pt > 40, axis=1)

class Selecting:
    requires = ("Hard",)
    def process(self, events):
        raise AssertionError("select says it")
    def select(self, events):
        assert events.metadata["treename"] == "Events"
        return events.outputs["Hard"] & (events.MET_pt > 20)

class Failing:
    def process(self, events):
        return events.Muon.ptt > 40
"""


def nano(path: Path, seed: int = 1, hlt: tuple[str, ...] = ("HLT_IsoMu24",)) -> dict[str, Any]:
    """A small file as NanoAOD is: events, sums of weights of its runs, and a histogram; the content of events."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, EVENTS)
    muons = ak.unflatten(rng.exponential(20, counts.sum()).astype("f4"), counts)
    content = {
        "Muon": ak.zip({"pt": muons, "eta": muons * 0 + 1}),
        "MET_pt": rng.exponential(30, EVENTS).astype("f4"),
        **{name: rng.random(EVENTS) < 0.5 for name in hlt},
    }
    with uproot.recreate(path) as file:
        write_tree(file, "Events", content)
        write_tree(file, "Runs", {"run": np.array([seed], "u4"), "genEventSumw": np.array([100.0 * seed])})
        file["counts"] = np.histogram(np.asarray(content["MET_pt"]), bins=10, range=(0, 1000))
    return content


def write_tree(file: Any, name: str, content: dict[str, Any]) -> None:
    """Writes a TTree whose branches are named as those of NanoAOD."""
    types = {one: array.type.content if isinstance(array, ak.Array) else array.dtype for one, array in content.items()}
    tree = file.mktree(name, types, field_name=lambda outer, inner: f"{outer}_{inner}" if outer else inner)
    tree.extend(content)


def wanted(content: dict[str, Any]) -> Any:
    return ak.any(content["Muon"].pt > 40, axis=1)


def test_a_function_or_the_class_of_a_wagon_selects(tmp_path: Path) -> None:
    content = nano(tmp_path / "in.root")
    (tmp_path / "only.py").write_text("def high(events):\n    return events.MET_pt > 20\n")
    (tmp_path / "named.py").write_text(
        "class Base:\n    name = 'base'\n\n    def process(self, events):\n        return events.MET_pt > 20\n\n\n"
        "class Higher:\n    name = 'higher'\n    requires = ['base']\n\n    def process(self, events):\n"
        "        return events.outputs['base']\n"
    )
    for number, wagon in enumerate(("only.py:high", "named.py:Higher", "named.py:higher")):
        output = tmp_path / f"{number}.root"
        asked = ["--tree", "Events", "-o", output, "--wagon", f"{tmp_path}/{wagon}"]
        done = run_command(["skim", tmp_path / "in.root", *asked])
        assert done.exit_code == 0, done.output
        assert branchline.open(f"{output}:Events").num_entries == ak.sum(content["MET_pt"] > 20)


@pytest.mark.parametrize("name", ["Hard", "Selecting"])
def test_a_wagon_that_selects_sees_events_as_in_a_train(tmp_path: Path, name: str) -> None:
    content = nano(tmp_path / "in.root")
    (tmp_path / "wagons.py").write_text(WAGONS)
    output = tmp_path / "out.root"
    wagon = f"{tmp_path / 'wagons.py'}:{name}"
    done = run_command(["skim", tmp_path / "in.root", "--tree", "Events", "-o", output, "--wagon", wagon])
    assert done.exit_code == 0, done.output
    mask = wanted(content) & ((content["MET_pt"] > 20) if name == "Selecting" else True)
    assert uproot.open(output)["Events/Muon_pt"].array().tolist() == content["Muon"].pt[mask].tolist()


def test_a_wagon_that_fails_is_named(tmp_path: Path) -> None:
    nano(tmp_path / "in.root")
    (tmp_path / "wagons.py").write_text(WAGONS)
    wagon = f"{tmp_path / 'wagons.py'}:Failing"
    done = run_command(["skim", tmp_path / "in.root", "--tree", "Events", "-o", tmp_path / "o.root", "--wagon", wagon])
    assert done.exit_code == 1
    assert "wagon 'Failing'" in done.output
    assert "ptt" in done.output
    assert not (tmp_path / "o.root").exists()


UNUSUAL = """
import asyncio, os, random, numpy as np

class NoText(Exception):
    def __str__(self): return "%d of %s" % (self.args)

def cancelled(events): raise asyncio.CancelledError("the server went away")
def no_text(events): raise NoText("x")
def exits(events): raise SystemExit(5)

def forks(events):
    os.fork()
    return events.MET_pt > 20

def changes(events):
    os.chdir("/")
    np.seterr(all="raise")
    return events.MET_pt > 20

def draws(events):
    return np.random.uniform(size=len(events)) + random.random() > 0.5
"""
MESSAGES = {
    "cancelled": "CancelledError: the server went away",
    "no_text": "NoText: NoText, whose __str__ failed with TypeError",
    "exits": "SystemExit: 5",
    "forks": "a forked child process returned from the wagon",
}


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_a_wagon_that_fails_in_an_unusual_way_is_named(tmp_path: Path, name: str) -> None:
    nano(tmp_path / "in.root")
    (tmp_path / "unusual.py").write_text(UNUSUAL)
    wagon = f"{tmp_path / 'unusual.py'}:{name}"
    done = run_command(["skim", tmp_path / "in.root", "--tree", "Events", "-o", tmp_path / "o.root", "--wagon", wagon])
    assert done.exit_code == 1
    assert f"wagon '{name}' failed: {MESSAGES[name]}" in done.output
    assert not (tmp_path / "o.root").exists()


def test_a_wagon_changes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of files are below the directory that the wagon leaves, and random numbers are the same again."""
    content = nano(tmp_path / "in.root")
    (tmp_path / "unusual.py").write_text(UNUSUAL)
    monkeypatch.chdir(tmp_path)
    before = np.geterr()
    done = run_command(["skim", "in.root", "--tree", "Events", "-o", "out.root", "--wagon", "unusual.py:changes"])
    assert done.exit_code == 0, done.output
    assert np.geterr() == before
    assert branchline.open("out.root:Events").num_entries == ak.sum(content["MET_pt"] > 20)
    drawn = []
    for output in ("1.root", "2.root"):
        done = run_command(["skim", "in.root", "--tree", "Events", "-o", output, "--wagon", "unusual.py:draws"])
        assert done.exit_code == 0, done.output
        drawn.append(branchline.open(f"{output}:Events")["MET_pt"].array().tolist())
    assert drawn[0] == drawn[1]
    assert 0 < len(drawn[0]) < len(content["MET_pt"])


def test_a_function_selects_by_flat_names_and_by_records(tmp_path: Path) -> None:
    content = nano(tmp_path / "in.root")
    for number, where in enumerate(
        (lambda events: ak.any(events.Muon.pt > 40, axis=1), lambda events: ak.any(events.Muon_pt > 40, axis=1))
    ):
        output = tmp_path / f"{number}.root"
        skim(tmp_path / "in.root", output, where=where, tree="Events")
        assert branchline.open(f"{output}:Events").num_entries == ak.sum(wanted(content))


def test_a_selection_by_floats_is_refused_as_nan_would_be_kept(tmp_path: Path) -> None:
    path, output = tmp_path / "in.root", tmp_path / "out.root"
    with uproot.recreate(path) as file:
        file["events"] = {"pt": np.array([1.0, 0.0]), "mass": np.array([0.0, 0.0]), "n": np.array([3, 0])}
    for where in ("pt", lambda events: events.pt * 0 + np.nan):
        with pytest.raises(ExpressionError, match=r"in\.root.* returns float64 instead of a truth value.*compare it"):
            skim(path, output, where=where)
    assert not output.exists()
    assert skim(path, output, where="n").entries == 1


def test_a_skim_keeps_all_other_trees_whole_and_says_so(tmp_path: Path) -> None:
    inputs = [tmp_path / f"{seed}.root" for seed in (1, 2)]
    expected = sum(int(ak.sum(nano(path, seed)["MET_pt"] > 50)) for seed, path in enumerate(inputs, 1))
    output = tmp_path / "out.root"
    done = run_command(["skim", *inputs, "-o", output, "--where", "MET_pt > 50", "--verify"])
    assert done.exit_code == 0, done.output
    with uproot.open(output) as file:
        assert file["Events"].num_entries == expected
        assert file["Runs/genEventSumw"].array().tolist() == [100.0, 200.0]
        assert file["Runs/run"].array().tolist() == [1, 2]
        assert file["counts"].values().sum() == 2 * EVENTS
    assert f"tree Events: kept {count(expected)} of {count(2 * EVENTS)} entries" in done.stderr
    assert "kept completely: tree Runs and 1 other object" in done.stderr


@pytest.mark.parametrize("codec", [None, "zstd:3"])
def test_the_baskets_of_other_trees_are_copied_as_bytes(tmp_path: Path, codec: str | None) -> None:
    inputs = [tmp_path / f"{seed}.root" for seed in (1, 2)]
    for seed, path in enumerate(inputs, 1):
        nano(path, seed)
        with uproot.update(path) as file:
            write_tree(file, "Lumi", {"number": np.arange(1000.0)})
            # Small baskets, which a tree that is written again would not have.
            for start in range(1000, 5000, 1000):
                file["Lumi"].extend({"number": np.arange(start, start + 1000.0)})
    output = tmp_path / "out.root"
    made = skim(inputs, output, where="MET_pt > 50", tree="Events", codec=codec, verify=True)
    found = {tree.path: tree for tree in verify(output, inputs).trees}
    assert (found["Lumi"].entries, found["Lumi"].baskets, found["Lumi"].differences) == (10000, 10, ())
    assert (found["Lumi"].copied, found["Lumi"].equal) == ((1, ()) if codec is None else (0, ("number",)))
    assert uproot.open(output)["Lumi/number"].array().tolist() == 2 * list(range(5000))
    assert made.baskets == sum(tree.baskets for tree in found.values())
    skim(inputs, tmp_path / "new.root", where="MET_pt > 50", tree="Events", cluster_events=5000)
    assert len(uproot.open(tmp_path / "new.root")["Lumi/number"].member("fBasketSeek").nonzero()[0]) == 2


def test_the_baskets_of_other_trees_are_not_decompressed(tmp_path: Path) -> None:
    nano(tmp_path / "in.root")
    with uproot.update(tmp_path / "in.root") as file:
        write_tree(file, "Lumi", {"number": np.zeros(5000)})
    branch = uproot.open(tmp_path / "in.root")["Lumi/number"]
    end = int(branch.member("fBasketSeek")[0] + branch.member("fBasketBytes")[0])
    content = bytearray((tmp_path / "in.root").read_bytes())
    # Whoever decompresses this basket fails.
    content[end - 4 : end] = bytes(255 - byte for byte in content[end - 4 : end])
    (tmp_path / "in.root").write_bytes(content)
    skim(tmp_path / "in.root", tmp_path / "out.root", where="MET_pt > 50", tree="Events")
    (lumi,) = verify(tmp_path / "out.root", tmp_path / "in.root", tree="Lumi").trees
    assert (lumi.copied, lumi.equal, lumi.differences) == (1, (), ())
    with pytest.raises(BadFileError):
        skim(tmp_path / "in.root", tmp_path / "new.root", where="MET_pt > 50", tree="Events", cluster_events=100)


def test_only_the_tree_is_kept_if_that_is_asked_for(tmp_path: Path) -> None:
    nano(tmp_path / "in.root")
    for number, command in enumerate((["skim", "--where", "MET_pt > 50"], ["slim", "--drop", "HLT_*"])):
        output = tmp_path / f"{number}.root"
        done = run_command([*command, tmp_path / "in.root", "-o", output, "--only-tree"])
        assert done.exit_code == 0, done.output
        assert uproot.open(output).keys(cycle=False) == ["Events"]
        assert "left out: tree Runs and 1 other object" in done.stderr


def test_a_slim_keeps_all_other_trees_whole_and_says_so(tmp_path: Path) -> None:
    nano(tmp_path / "in.root")
    output = tmp_path / "out.root"
    done = run_command(["slim", tmp_path / "in.root", "-o", output, "--branches", "MET_*"])
    assert done.exit_code == 0, done.output
    with uproot.open(output) as file:
        assert file["Events"].keys() == ["MET_pt"]
        assert file["Runs"].keys() == ["run", "genEventSumw"]
        assert "counts" in file
    assert "kept completely: tree Runs and 1 other object" in done.stderr


def test_of_several_trees_that_fit_one_has_to_be_named(tmp_path: Path) -> None:
    with uproot.recreate(tmp_path / "in.root") as file:
        for name in ("one", "two"):
            write_tree(file, name, {"x": np.arange(10)})
    done = run_command(["skim", tmp_path / "in.root", "-o", tmp_path / "o.root", "--where", "x > 7"])
    assert done.exit_code == 1
    assert "one, two" in done.stderr
    assert "--tree" in done.stderr
    for named in (["--tree", "two", tmp_path / "in.root"], [f"{tmp_path / 'in.root'}:two"]):
        done = run_command(["skim", "-o", tmp_path / "o.root", "--force", "--where", "x > 7", *named])
        assert done.exit_code == 0, done.output
        with uproot.open(tmp_path / "o.root") as file:
            assert (file["one"].num_entries, file["two"].num_entries) == (10, 2)


def test_a_name_that_no_tree_has_is_refused_with_the_near_ones(tmp_path: Path) -> None:
    nano(tmp_path / "in.root")
    done = run_command(["skim", tmp_path / "in.root", "-o", tmp_path / "o.root", "--where", "MET_ptt > 5"])
    assert done.exit_code == 1
    assert "MET_ptt" in done.stderr
    done = run_command(["slim", tmp_path / "in.root", "-o", tmp_path / "o.root", "--branches", "none*"])
    assert done.exit_code == 1
    assert "none*" in done.stderr
