"""`branchline reproduce`: a train runs again with the code that it had, and what differs is said."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.branchline_command import Ended, run_branchline

from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.record_parts import CHANGED, COMMITTED, NOT_IN_GIT, DatasetFile, SourceRecord
from branchline.trains.rerun import conditions

WAGONS = """
import hist
import numpy as np
from cuts import LOWEST


class Spectrum:
    def process(self, events):
        px = np.asarray(events.px)
        return hist.Hist.new.Reg(20, -3, 3, name="px").Weight().fill(px[px > LOWEST])
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two files, wagons in a repository of git, and the results of a train."""
    (tmp_path / "wagons.py").write_text(WAGONS)
    (tmp_path / "cuts.py").write_text("LOWEST = -1.0\n")
    (tmp_path / "data").mkdir()
    for index in range(2):
        with uproot.recreate(tmp_path / "data" / f"f{index}.root") as file:
            file["events"] = {"px": np.random.default_rng(index).normal(size=1000)}
    git(tmp_path, "init", "--quiet")
    git(tmp_path, "add", "wagons.py", "cuts.py")
    git(tmp_path, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", "Wagons")
    ended = branchline(tmp_path, "run", "wagons.py", "data", "-o", "out", "--pictures", "none", "-j", "1")
    assert ended.returncode == 0, ended.stderr
    return tmp_path


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def branchline(folder: Path, *words: str) -> Ended:
    return run_branchline(folder, words)


def record_in(folder: Path) -> JobRecord:
    return JobRecord.from_dict(json.loads((folder / "job.json").read_text()))


def test_an_undisturbed_train_has_the_same_results_bit_for_bit(folder: Path) -> None:
    ended = branchline(folder, "reproduce", "out", "-j", "1")
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("bitwise identical results: ")
    assert "changed since then" not in ended.stdout
    assert record_in(folder / "out-again").events == 2000
    # It would replace these results only if it is told to.
    assert branchline(folder, "reproduce", "out").returncode == 1
    assert branchline(folder, "reproduce", "out", "-o", "out").returncode == 2


def test_the_code_of_then_runs_though_the_files_changed(folder: Path) -> None:
    cuts = folder / "cuts.py"
    cuts.write_text("LOWEST = 0.5\n")
    ended = branchline(folder, "reproduce", "out")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert f"the code of the first run is used, since {cuts} changed" in ended.stderr
    assert "bitwise identical results" in ended.stdout
    ended = branchline(folder, "reproduce", "out", "-o", "present", "--present-code")
    assert ended.returncode == 3, ended.stdout + ended.stderr
    assert f"changed since then: the source {cuts} differs" in ended.stdout
    assert "of 22 bins differ" in ended.stdout


def test_tables_at_another_place_are_the_same_results(folder: Path) -> None:
    lines = ["import branchline", "class Rows:", "    def process(self, events):"]
    lines += ["        return branchline.Table({'px': events.px})"]
    (folder / "rows.py").write_text("\n".join(lines))
    ended = branchline(folder, "run", "rows.py", "data", "-o", "table", "--pictures", "none", "-j", "1")
    assert ended.returncode == 0, ended.stderr
    ended = branchline(folder, "reproduce", "table", "-j", "1")
    assert ended.returncode == 0, ended.stdout
    assert "bitwise identical results: 2 files" in ended.stdout


def test_the_record_says_where_the_code_comes_from(folder: Path) -> None:
    head = git(folder, "rev-parse", "HEAD")
    sources = {Path(one.path).name: (one.commit, one.state) for one in record_in(folder / "out").sources}
    assert sources == {"wagons.py": (head, COMMITTED), "cuts.py": (head, COMMITTED)}
    (folder / "more.py").write_text("HIGHEST = 2.0\n")
    (folder / "cuts.py").write_text("from more import HIGHEST\n\nLOWEST = -HIGHEST\n")
    assert branchline(folder, "run", "wagons.py", "data", "-o", "out", "--force", "-j", "1").returncode == 0
    record = record_in(folder / "out")
    states = {Path(one.path).name: one.state for one in record.sources}
    assert states == {"wagons.py": COMMITTED, "cuts.py": CHANGED, "more.py": NOT_IN_GIT}
    assert record.versions["hist"]


def test_nothing_is_reproduced_where_no_train_is_kept(tmp_path: Path) -> None:
    ended = branchline(tmp_path, "reproduce", "nowhere")
    assert ended.returncode == 1
    assert "cannot read the record of a run" in ended.stderr


def test_other_versions_variables_and_files_are_named() -> None:
    first = JobRecord(branchline="0.1.0", versions={"hist": "1"}, environment={"OMP_NUM_THREADS": "1"})
    second = JobRecord(branchline="0.2.0", versions={"hist": "2", "vector": "1"}, environment={"OMP_NUM_THREADS": "4"})
    first.sources, second.sources = [SourceRecord("a", "/a.py", "1")], [SourceRecord("a", "/a.py", "2")]
    assert list(conditions(first, second)) == [
        "Branchline was 0.1.0, and is 0.2.0 now",
        "hist was 1, and is 2 now",
        "the variable OMP_NUM_THREADS was 1, and is 4 now",
        "the source /a.py differs",
    ]


def test_a_file_whose_name_has_braces_is_named_like_any_other() -> None:
    first, second = JobRecord(), JobRecord()
    first.dataset = [DatasetFile("run{0}{x.root", None, None, 10, 2000)]
    second.dataset = [DatasetFile("run{0}{x.root", None, None, 11, 2100)]
    expected = "run{0}{x.root had 2000 bytes and 10 entries, and has 2100 bytes and 11 entries now"
    assert list(conditions(first, second))[-1] == expected
