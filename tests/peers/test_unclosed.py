"""Files left unclosed by a killed job are recovered like in ROOT, with a warning."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import branchline
from branchline import Access, RecoveredFileWarning
from branchline.tracing.recording import recording
from branchline.tracing.trace import REQUEST, read_trace

# The job is killed between two autosaves: some entries are lost, and part of a basket may remain in the file.
WRITER = """
import array, os, signal, sys
import ROOT
path, saves = sys.argv[1], int(sys.argv[2])
file = ROOT.TFile(path, "RECREATE", "", 101)
note = ROOT.TNamed("note", "written before")
note.Write()
trees = []
for name in ("events", "other"):
    tree = ROOT.TTree(name, name)
    number, count, hits = array.array("i", [0]), array.array("i", [0]), array.array("f", [0.0] * 10)
    values = ROOT.std.vector("double")()
    tree.Branch("number", number, "number/I", 4000)
    tree.Branch("count", count, "count/I", 4000)
    tree.Branch("hits", hits, "hits[count]/F", 4000)
    tree.Branch("values", values, 4000)
    trees.append((tree, number, count, hits, values))
for save in range(saves + 1):
    for entry in range(1300):
        for tree, number, count, hits, values in trees:
            number[0] = 10000 * save + entry
            count[0] = entry % 7
            hits[0] = entry
            values.clear()
            for index in range(entry % 3):
                values.push_back(entry + index)
            tree.Fill()
    if save < saves:
        for tree, *_ in trees:
            tree.AutoSave(sys.argv[3])
os.kill(os.getpid(), signal.SIGKILL)
"""

READER = """
import json, sys
import ROOT
ROOT.gErrorIgnoreLevel = ROOT.kFatal
file = ROOT.TFile(sys.argv[1])
found = {"keys": sorted({key.GetName() for key in file.GetListOfKeys()})}
for name in ("events", "other"):
    tree = file.Get(name)
    if tree:
        found[name] = [
            [event.number, event.count, list(event.hits)[:event.count], list(event.values)] for event in tree
        ]
print(json.dumps(found))
"""


def unclosed(path: Path, saves: int, option: str = "") -> Path:
    command = [sys.executable, "-c", WRITER, str(path), str(saves), option]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == -9, ended.stderr
    return path


def by_root(path: Path) -> dict[str, Any]:
    command = [sys.executable, "-c", READER, str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def by_branchline(file: branchline.File, name: str) -> list[list[Any]]:
    arrays = file[name].arrays()
    columns = [arrays[branch].tolist() for branch in ("number", "count", "hits", "values")]
    return [list(entry) for entry in zip(*columns, strict=True)]


@pytest.fixture(scope="module")
def folder(root: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("unclosed")
    unclosed(folder / "thrice.root", 3)
    unclosed(folder / "flushed.root", 2, "FlushBaskets")
    unclosed(folder / "never.root", 0)
    return folder


@pytest.mark.peer
@pytest.mark.parametrize("name", ["thrice", "flushed"])
def test_what_was_saved_is_read_as_root_recovers_it(folder: Path, name: str) -> None:
    path = folder / f"{name}.root"
    with pytest.warns(RecoveredFileWarning, match=r"was never closed: \d+ of its keys were recovered"):
        file = branchline.open(path)
    expected = by_root(path)
    assert sorted({key.partition(";")[0] for key in file.keys()}) == expected["keys"]
    for tree in ("events", "other"):
        assert len(expected[tree]) >= 1300
        assert by_branchline(file, tree) == expected[tree]


@pytest.mark.peer
def test_far_away_a_file_is_recovered_in_few_requests(folder: Path, tmp_path: Path) -> None:
    path = folder / "thrice.root"
    pieces = {}
    # In all other access modes, small files are read as a whole with one request.
    for name, access in (("near", Access(mode="plain")), ("far", Access(mode="plain", throttle="latency=1ms"))):
        with recording(tmp_path / f"{name}.parquet", "a test"), pytest.warns(RecoveredFileWarning):
            branchline.open(path, access=access)
        rows = read_trace(tmp_path / f"{name}.parquet").rows_of(REQUEST).to_pylist()
        pieces[name] = sum(row["what"] == "pread64" for row in rows)
    assert path.stat().st_size > 100_000
    # One request for the end of the file, and one for all records.
    assert pieces["far"] <= 4 < pieces["near"]


@pytest.mark.peer
def test_a_tree_that_was_never_saved_is_not_there(folder: Path) -> None:
    assert by_root(folder / "never.root")["keys"] == ["note"]
    with pytest.warns(RecoveredFileWarning), pytest.raises(branchline.NoSuchKeyError):
        branchline.open(f"{folder}/never.root:events")


@pytest.mark.peer
def test_what_was_saved_with_its_directory_is_no_recovery(root: Any, tmp_path: Path) -> None:
    path = unclosed(tmp_path / "self.root", 2, "SaveSelf")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        file = branchline.open(path)
    assert by_branchline(file, "events") == by_root(path)["events"]


@pytest.mark.peer
def test_steps_and_trains_tell_of_it(folder: Path, tmp_path: Path) -> None:
    location = f"{folder}/thrice.root:events"
    with pytest.warns(RecoveredFileWarning, match=r"thrice\.root was never closed"):
        steps = list(branchline.iterate(location, step_size=1000))

    class Counts:
        branches = ("number",)

        def process(self, events: Any) -> int:
            return len(events)

    result = branchline.run([Counts()], location, out=tmp_path / "out", workers=1)
    assert result.outputs["Counts"] == sum(len(step) for step in steps)
    assert [Path(one["path"]).name for one in result.job["recovered"]] == ["thrice.root"]
    assert "Recovered files" in (tmp_path / "out" / "report.html").read_text()
