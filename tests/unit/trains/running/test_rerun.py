"""One sub-job of an earlier run, in this process: the same result, a changed one, and its error in a debugger."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.branchline_command import Ended, run_branchline

from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.ledger import LEDGER_NAME
from branchline.trains.rerun import EarlierRun
from branchline.trains.reuse.stored_train import Learning, StoredTrain
from branchline.trains.submitted.submission_folder import BatchFolder

FILES = 3
WAGONS = """
import numpy as np
from cuts import LOWEST


class Sums:
    name = "sums"

    def process(self, events):
        px = np.asarray(events.px)
        return {"sum": float(np.sum(px[px > LOWEST])), "events": len(events)}


class Fails:
    name = "fails"

    def process(self, events):
        culprit = int(np.asarray(events.run)[0])
        if culprit == 1:
            raise ValueError("not in this file")
        return culprit
"""


def made(folder: Path) -> Path:
    """Files that are a sub-job each, wagons with a module beside them, and a run of them."""
    (folder / "data").mkdir()
    (folder / "wagons.py").write_text(WAGONS)
    (folder / "cuts.py").write_text("LOWEST = -1.0\n")
    for index in range(FILES):
        random = np.random.default_rng(index)
        with uproot.recreate(folder / "data" / f"f{index}.root", compression=None) as file:
            tree = file.mktree("events", {"px": "float64", "run": "int32"})
            tree.extend({"px": random.normal(size=400_000), "run": np.full(400_000, index, "i4")})
    ended = branchline(folder, "run", "wagons.py", "data", "-o", "out", "--pictures", "none", "-j", "1")
    assert ended.returncode == 3, ended.stderr
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A run of one test alone, which changes it."""
    return made(tmp_path)


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that no test changes."""
    return made(tmp_path_factory.mktemp("kept"))


def branchline(folder: Path, *words: str, typed: str = "") -> Ended:
    return run_branchline(folder, words, typed=typed)


def test_a_sub_job_gives_the_kept_result_from_any_directory(
    kept: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = {one: one.read_bytes() for one in (kept / "out").iterdir() if one.is_file()}
    assert kept / "out" / LEDGER_NAME in before
    ended = branchline(tmp_path_factory.mktemp("elsewhere"), "rerun", str(kept / "out"), "0")
    assert ended.returncode == 0, ended.stderr
    assert f"sub-job 0: {kept}/data/f0.root, 400 000 events" in ended.stdout
    assert "sums: identical to the stored result" in ended.stdout
    assert "fails: identical to the stored result" in ended.stdout
    assert ended.stderr == ""
    assert {one: one.read_bytes() for one in (kept / "out").iterdir() if one.is_file()} == before


def test_changed_code_is_run_and_not_compared_with_another_one(folder: Path) -> None:
    (folder / "wagons.py").write_text(WAGONS.replace("px > LOWEST", "px > 2 * LOWEST"))
    ended = branchline(folder, "rerun", "out", "data/f0.root")
    assert ended.returncode == 0, ended.stderr
    assert "sums: succeeded" in ended.stdout
    assert "fails: identical to the stored result" in ended.stdout


def test_another_result_of_the_same_code_is_said(folder: Path) -> None:
    # A wagon that depends on what nobody can see in its code.
    wagons = folder / "wagons.py"
    wagons.write_text(WAGONS.replace("float(np.sum", "np.random.default_rng().normal() + float(np.sum"))
    branchline(folder, "run", "wagons.py", "data", "-o", "out", "--pictures", "none", "-j", "1", "--force")
    ended = branchline(folder, "rerun", "out", "0")
    assert ended.returncode == 3
    assert "sums: DIFFERENT from the stored result" in ended.stdout


def test_the_debugger_opens_where_the_wagon_raises(kept: Path) -> None:
    ended = branchline(kept, "rerun", "out", "1", "--pdb", typed="p culprit + 41\nq\n")
    assert "(Pdb) 42" in ended.stdout
    assert ended.returncode == 3
    assert "fails: failed, ValueError: not in this file" in ended.stdout
    assert "sums: identical to the stored result" in ended.stdout


@pytest.mark.parametrize(
    ("which", "says"),
    [("3", "no sub-job has the number 3"), ("data/f9.root", "no sub-job reads data/f9.root")],
)
def test_a_sub_job_that_is_not_there_is_refused(kept: Path, which: str, says: str) -> None:
    ended = branchline(kept, "rerun", "out", which)
    assert ended.returncode == 2
    assert says in ended.stderr


def test_the_status_of_a_run_here_is_shown(kept: Path) -> None:
    ended = branchline(kept, "status", "out")
    assert ended.returncode == 3
    assert "3 sub-jobs: 3 done, 0 running, 0 queued, 0 failed; 1 200 000 events done" in ended.stdout
    assert "ValueError: not in this file" in ended.stdout
    assert "partial; see" in ended.stdout


def test_a_directory_without_a_train_is_refused(tmp_path: Path) -> None:
    ended = branchline(tmp_path, "rerun", str(tmp_path), "0")
    assert ended.returncode == 1
    assert "no train is stored in this directory" in ended.stderr
    assert not (tmp_path / LEDGER_NAME).exists()


def test_a_run_whose_directory_is_gone_is_looked_for_from_here_and_this_is_said(folder: Path) -> None:
    before = folder / "data"
    (folder / "began").mkdir()
    again = ("run", "../wagons.py", str(before), "-o", "../out", "--force", "--pictures", "none", "-j", "1")
    assert branchline(folder / "began", *again).returncode == 3
    (folder / "began").rmdir()
    ended = branchline(folder, "rerun", "out", "0")
    assert ended.returncode == 0, ended.stderr
    assert "sums: identical to the stored result" in ended.stdout
    assert f"where the run started (No such file or directory): {folder / 'began'}" in ended.stdout + ended.stderr


def test_a_kept_result_that_is_damaged_is_said(tmp_path: Path) -> None:
    batch = BatchFolder(tmp_path)
    batch.units.mkdir(parents=True, exist_ok=True)
    earlier = EarlierRun(StoredTrain.__new__(StoredTrain), Learning((), None, 0), None, tmp_path, unit_of_subjob=True)
    assert earlier.kept_in_units(0) == {}
    assert earlier.notes == []
    batch.result(FoldNode(0, 0)).write_bytes(b"no result")
    assert earlier.kept_in_units(0) == {}
    assert len(earlier.notes) == 1
    assert "the stored result cannot be read" in earlier.notes[0]
