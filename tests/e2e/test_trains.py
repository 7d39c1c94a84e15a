"""The command as a user calls it: a train from files to results, the trial of its wagons, the look at a file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pyarrow.parquet as pq
import pytest
import uproot
from tests.peers.peers import imported

pytestmark = pytest.mark.slow

EVENTS = 360_000


def test_a_train_leaves_results_pictures_records_and_a_report(
    branchline: Any, wagons: Path, data: Path, tmp_path: Path
) -> None:
    ended = branchline("run", wagons, data, "-o", "out", "--workers", 2)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    lines = ended.stdout.splitlines()
    # Between what limits the job and where its report lies stands advice, if there is any: its times decide that.
    assert 3 <= len(lines) <= 4
    assert lines[0].startswith("finished: 360 000 events in ")
    assert "events/s" in lines[0]
    assert "B/s read from storage" in lines[0]
    assert "%" in lines[1]
    assert lines[-1] == "results: out/report.html"

    out = tmp_path / "out"
    job = json.loads((out / "job.json").read_text())
    assert job["status"] == "finished"
    assert job["events"] == job["events_expected"] == EVENTS
    assert job["subjobs"] == job["subjobs_done"] == 6
    assert job["workers"] == 2
    pt = np.concatenate([uproot.open(one)["events/pt"].array(library="np") for one in sorted(data.iterdir())])
    expected = hist.Hist.new.Reg(50, 0, 10).Double().fill(np.concatenate(pt))
    with uproot.open(out / "results.root") as results:
        (key,) = results.keys(recursive=True, filter_classname="TH1*")
        assert results[key].values() == pytest.approx(0.1 * expected.values())
    rows = pq.read_table(out / "sensors.parquet").to_pylist()
    assert {"job", "file", "wagon", "branch", "storage_element"} == {row["scope"] for row in rows}
    assert list((out / "pictures").iterdir())
    assert (out / "report.html").stat().st_size > 1000
    assert not [one for one in out.rglob("*") if one.name.startswith(".")]


@pytest.mark.parametrize("workers", [1, 2])
def test_the_parts_add_up_to_the_wall_time_written(
    branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path, workers: int
) -> None:
    ended = branchline("run", plain_wagons, data, "-o", "out", "--workers", workers)
    assert ended.returncode == 0, ended.stderr
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert sum(job["phases"].values()) == pytest.approx(job["wall_s"], rel=0.05)
    assert job["phases"]["wagons"] > 0
    assert job["phases"]["write"] > 0
    # Most of the time is in phases that have names. A part of it, because other programs delay this short job.
    assert job["phases"]["other"] < 0.5 * job["wall_s"]
    for worker in job["worker_phases"]:
        assert sum(worker[phase] for phase in job["phases"]) == pytest.approx(worker["wall_s"], rel=0.05)


def test_results_do_not_depend_on_the_number_of_workers(
    branchline: Any, wagons: Path, data: Path, tmp_path: Path
) -> None:
    values = []
    for workers in (1, 2, 3):
        ended = branchline("run", wagons, data, "-o", f"out{workers}", "--workers", workers)
        assert ended.returncode == 0, ended.stderr
        with uproot.open(tmp_path / f"out{workers}" / "results.root") as results:
            (key,) = results.keys(recursive=True, filter_classname="TH1*")
            sums = [one.read_bytes() for one in sorted((tmp_path / f"out{workers}" / "results").glob("*.json"))]
            values.append((results[key].values().tobytes(), results[key].variances().tobytes(), sums))
    assert values[0] == values[1] == values[2]


def test_what_is_in_the_directory_for_results_is_not_lost(
    branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "thesis.tex").write_text("three years")
    ended = branchline("run", plain_wagons, data / "f0.root", "-o", "out", "--workers", 1)
    assert (ended.returncode, "not written by a train" in ended.stderr) == (1, True)
    ended = branchline("run", plain_wagons, data / "f0.root", "-o", "out", "--workers", 1, "--force")
    assert (ended.returncode, "not written by a train" in ended.stderr) == (1, True)
    assert [one.name for one in out.iterdir()] == ["thesis.tex"]
    assert branchline("run", plain_wagons, data / "f0.root", "-o", "new", "--workers", 1).returncode == 0
    ended = branchline("run", plain_wagons, data / "f0.root", "-o", "new", "--workers", 1)
    assert (ended.returncode, "--force" in ended.stderr) == (1, True)
    ended = branchline("run", plain_wagons, data / "f1.root", "-o", "new", "--workers", 1, "--force")
    assert ended.returncode == 0, ended.stderr
    assert json.loads((tmp_path / "new" / "job.json").read_text())["dataset"][0]["path"].endswith("f1.root")


def test_every_wagon_is_tried_alone_and_the_train_forecast(branchline: Any, wagons: Path, data: Path) -> None:
    ended = branchline("test", wagons, data)
    assert ended.returncode == 0, ended.stderr
    assert "spectra reads pt" in ended.stdout
    assert "momenta reads pt, px" in ended.stdout
    assert "forecast for " in ended.stdout
    assert "extrapolated from" in ended.stdout


def test_the_trial_of_a_wagon_that_fails_tells(branchline: Any, data: Path, tmp_path: Path) -> None:
    file = tmp_path / "failing.py"
    file.write_text(
        "import os\n"
        "class Good:\n  def process(self, events): return float(events.px[0])\n"
        "class Bad:\n  def process(self, events): return events.px['x']\n"
        "class Dies:\n  def process(self, events): os.kill(os.getpid(), 9)\n"
    )
    ended = branchline("test", file, data)
    assert ended.returncode == 3
    assert "wagon Bad stopped at " in ended.stdout
    assert "f0.root, entries 0 to " in ended.stdout
    assert "killed by signal 9" in ended.stdout
    assert "Good reads px" in ended.stdout
    assert "Traceback" not in ended.stderr
    assert "Traceback" in branchline("test", file, data, "--debug").stderr


def test_a_narrow_terminal_gets_the_forecast_below_each_other(wagons: Path, data: Path, tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "branchline", "test", wagons, data],
        env=os.environ | {"COLUMNS": "60"},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "\N{HORIZONTAL ELLIPSIS}" not in ended.stdout
    assert "   events tried  30000" in ended.stdout
    assert " to start them and " in ended.stdout
    assert "(histograms: 1)" in ended.stdout


def test_the_version_is_told_as_commands_do(branchline: Any) -> None:
    assert branchline("--version").stdout == branchline("version").stdout != ""


def test_a_memory_limit_that_nothing_fits_is_refused(branchline: Any, plain_wagons: Path, data: Path) -> None:
    ended = branchline("run", plain_wagons, data, "-o", "out", "--memory-limit", "1kB")
    assert ended.returncode == 1
    assert "memory limit of 1kB (give 16 MiB or more" in ended.stderr


def test_show_prints_the_branches(branchline: Any, data: Path) -> None:
    for location in (data / "f0.root", f"{data / 'f0.root'}:events"):
        ended = branchline("show", location)
        assert ended.returncode == 0, ended.stderr
        assert "px" in ended.stdout
        assert "60000" in ended.stdout.replace(",", "").replace(" ", "") or "60 000" in ended.stdout


def test_wrong_usage_is_exit_code_2(branchline: Any, wagons: Path) -> None:
    assert branchline("run", wagons).returncode == 2
    assert branchline("run", wagons, "x.root", "-o", "out", "--workers", "0").returncode == 2
    assert branchline("walk").returncode == 2


def test_a_coffea_processor_is_a_wagon_as_it_stands(branchline: Any, data: Path, tmp_path: Path) -> None:
    imported("coffea.processor")
    (tmp_path / "analysis.py").write_text(COFFEA)
    fileset = {
        "zh": {"files": {str(data / "f0.root"): "events"}, "metadata": {"xsec": 2.0}},
        "ww": {"files": {str(data / "f1.root"): "events"}, "metadata": {"xsec": 3.0}},
    }
    (tmp_path / "fileset.json").write_text(json.dumps(fileset))
    ended = branchline("run", "analysis.py", "fileset.json", "-o", "out", "--workers", 2, "--step-size", "20000")
    assert ended.returncode == 0, ended.stderr
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    (wagon,) = job["wagons"]
    assert wagon["branches"] == ["pt", "px"]
    assert job["misses"] == {}
    (plain,) = (tmp_path / "out" / "results").glob("*.json")
    outcome = json.loads(plain.read_text())
    assert "postprocessed" in json.dumps(outcome)
    assert "60000" in json.dumps(outcome)


COFFEA = """
import awkward as ak
import hist
from coffea import processor


class Analysis(processor.ProcessorABC):
    def process(self, events):
        dataset = events.metadata["dataset"]
        selected = events[(ak.num(events.pt) > 2) & (events.px > 0)]
        leading = ak.max(selected.pt, axis=1)
        pairs = ak.combinations(selected.pt, 2)
        histogram = (
            hist.Hist.new.StrCat([], growth=True, name="dataset").Reg(20, 0, 10, name="pt").Weight()
        )
        histogram.fill(dataset=dataset, pt=leading, weight=events.metadata["xsec"])
        assert selected.metadata["xsec"] == events.metadata["xsec"]
        return {dataset: {"entries": len(events), "pairs": int(ak.sum(ak.num(pairs)))}, "pt": histogram}

    def postprocess(self, accumulator):
        accumulator["postprocessed"] = 1
        return accumulator
"""
