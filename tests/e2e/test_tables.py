"""Wagons that return tables: one file of the train, in the order of the input, as ROOT, uproot and Arrow read it."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pyarrow.parquet as pq
import pytest
import uproot
from tests.clusters.conformance import when
from tests.clusters.event_files import write_events
from tests.peers.peers import imported
from tests.sampled import long_but

import branchline
from branchline.trains.plan import TrainRequest
from branchline.trains.run import run_quietly
from branchline.trains.run_options import RunOptions
from branchline.trains.running.result import TrainResult

FILES, EVENTS_PER_FILE = 6, 900
FORMATS = ("ttree", "rntuple", "parquet")
Run = Callable[..., TrainResult]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tables")
    write_events(folder, FILES, EVENTS_PER_FILE)
    return folder


@pytest.fixture(autouse=True)
def small_subjobs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is a sub-job of its own."""
    largest_bytes = max(one.stat().st_size for one in data.iterdir())
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest_bytes)


@pytest.fixture
def run(data: Path, tmp_path: Path) -> Run:
    def with_defaults(wagons: Any, **settings: Any) -> TrainResult:
        where = {"out": tmp_path / "out", "data": data} | {
            name: settings.pop(name) for name in ("out", "data") if name in settings
        }
        usual = {"pictures": "none", "workers": 2, "step_size": 250, "memory_limit": "256 MiB"}
        checked = RunOptions(**{**usual, **settings})
        return run_quietly(TrainRequest(wagons, str(where["data"]), checked), where["out"])

    return with_defaults


class Skim:
    """A row for each event above a cut, and one for each particle in it; and a number beside them."""

    name = "skim"

    def __init__(self, format: str = "ttree") -> None:  # noqa: A002 - as in Table
        self.format = format

    def process(self, events: Any) -> dict[str, Any]:
        good = events.px > 0.3
        pt = events.pt[good]
        objects = {"pt": ak.flatten(pt), "run": ak.flatten(ak.broadcast_arrays(events.run[good], pt)[0])}
        rows = {"px": events.px[good], "run": events.run[good], "pt": pt, "double": np.asarray(events.px[good]) * 2}
        return {
            "events": branchline.Table(rows, format=self.format, tree="Events"),
            "objects": branchline.Table(objects, format=self.format),
            "count": int(ak.sum(good)),
        }


def expected(data: Path) -> ak.Array:
    """The rows in the order of the dataset, by uproot."""
    every = ak.concatenate([uproot.open(data / f"f{index}.root")["events"].arrays() for index in range(FILES)])
    return every[every.px > 0.3]


def rows_by_uproot(file: Any) -> ak.Array:
    return uproot.open(file.path)[file.tree].arrays()


def rows_by_arrow(file: Any) -> ak.Array:
    return ak.from_arrow(pq.read_table(file.path))


def check_rows(result: TrainResult, data: Path) -> None:
    wanted, outputs = expected(data), result.outputs["skim"]
    read = rows_by_arrow if outputs["events"].format == "parquet" else rows_by_uproot
    rows = read(outputs["events"])
    assert outputs["count"] == outputs["events"].rows == len(rows) == len(wanted)
    assert ak.to_list(rows.px) == ak.to_list(wanted.px)
    assert ak.to_list(rows.run) == ak.to_list(wanted.run)
    assert ak.to_list(rows.pt) == ak.to_list(wanted.pt)
    assert ak.to_list(rows.double) == ak.to_list(wanted.px * 2)
    objects = read(outputs["objects"])
    assert len(objects) == outputs["objects"].rows == ak.sum(ak.num(wanted.pt))
    assert ak.to_list(objects.pt) == ak.to_list(ak.flatten(wanted.pt))


@pytest.mark.parametrize("format_", FORMATS)
@pytest.mark.parametrize("workers", long_but([0, 2], [2]))
def test_a_table_has_the_rows_of_the_input_in_its_order(run: Run, data: Path, format_: str, workers: int) -> None:
    result = run(Skim(format_), workers=workers)
    assert result.errors == []
    check_rows(result, data)
    out = result.out
    assert out is not None
    assert not list(out.glob(".pieces-*"))
    events, objects = result.record.tables
    assert (events.wagon, events.key, events.tree, events.pieces) == ("skim", "events", "Events", FILES)
    assert events.rows == result.outputs["skim"]["count"]
    assert events.columns == {"px": "float64", "run": "int32", "pt": "var * float64", "double": "float64"}
    assert events.merge_stages == (0 if format_ == "parquet" else 1)
    assert objects.tree == "objects"
    job = json.loads((out / "job.json").read_text())
    assert {name for table in job["tables"] for name in table["files"]} <= set(job["written"])
    assert all((out / name).exists() for name in job["written"])


@pytest.mark.parametrize("format_", ["ttree", "rntuple"])
def test_root_reads_a_table(run: Run, data: Path, format_: str) -> None:
    root = imported("ROOT")
    file = run(Skim(format_)).outputs["skim"]["events"]
    frame = root.RDataFrame(file.tree, file.path)
    wanted = expected(data)
    assert frame.Count().GetValue() == len(wanted)
    assert frame.Sum("px").GetValue() == pytest.approx(float(ak.sum(wanted.px)), rel=1e-12)
    assert frame.Define("n", "pt.size()").Sum("n").GetValue() == ak.sum(ak.num(wanted.pt))
    assert list(frame.AsNumpy(["run"])["run"]) == ak.to_list(wanted.run)


def baskets_of(file: Any) -> list[tuple[str, str]]:
    """The bytes of every basket, in order, by branch."""
    if file.format == "parquet":
        return [("file", hashlib.sha256(one.read_bytes()).hexdigest()) for one in sorted(Path(file.path).iterdir())]
    found = []
    for branch in uproot.open(file.path)[file.tree].branches:
        for number in range(branch.num_baskets):
            content = branch.basket(number).raw_data.tobytes()
            found.append((branch.name, hashlib.sha256(content).hexdigest()))
    return found


@pytest.mark.parametrize("format_", long_but(["ttree", "parquet"], ["ttree"]))
def test_baskets_do_not_depend_on_the_number_of_workers(run: Run, tmp_path: Path, format_: str) -> None:
    alone = run(Skim(format_), workers=0, out=tmp_path / "alone").outputs["skim"]
    three = run(Skim(format_), workers=3, out=tmp_path / "three").outputs["skim"]
    for key in ("events", "objects"):
        assert baskets_of(alone[key]) == baskets_of(three[key])


def test_pieces_are_merged_in_stages(run: Run, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.trains.tables.piece_merging.TABLE_FAN_IN", 2)
    result = run(Skim())
    assert result.errors == []
    check_rows(result, data)
    assert [table.merge_stages for table in result.record.tables] == [3, 3]


class Empty:
    """No event passes."""

    def process(self, events: Any) -> Any:
        none = events[events.px > 1e9]
        return branchline.Table({"px": none.px, "pt": none.pt}, format="ttree")


def test_a_table_without_rows_has_its_columns(run: Run) -> None:
    result = run(Empty())
    assert result.errors == []
    file = result.outputs["Empty"]
    assert file.rows == 0
    tree = uproot.open(file.path)["Empty"]
    assert tree.num_entries == 0
    assert tree.keys() == ["px", "pt"]


class OneFileEmpty:
    """The rows of one file alone; elsewhere Python's empty lists stand for none."""

    def process(self, events: Any) -> Any:
        rows = ak.to_list(events.px[events.run == 3])
        return branchline.Table({"px": rows}, format="rntuple")


def test_empty_chunks_need_no_types(run: Run) -> None:
    result = run(OneFileEmpty())
    assert result.errors == []
    assert len(rows_by_uproot(result.outputs["OneFileEmpty"])) == EVENTS_PER_FILE


class Changing:
    """Columns that are not the same in file 3."""

    name = "changing"

    def __init__(self, change: str) -> None:
        self.change = change

    def process(self, events: Any) -> Any:
        columns = {"px": events.px, "run": events.run}
        if int(events.run[0]) == 3 and int(events.metadata["entrystart"]) == (225 if "late" in self.change else 0):
            if "type" in self.change:
                columns["px"] = ak.values_astype(events.px, "float32")
            if "missing" in self.change:
                del columns["run"]
            if "more" in self.change:
                columns["more"] = events.px
        return {"table": branchline.Table(columns), "events": len(events)}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param("type", "column 'px' is float32, in earlier rows float64", marks=pytest.mark.long),
        ("type late", "column 'px' is float32, in earlier rows float64"),
        pytest.param("missing late", "it lacks column 'run'", marks=pytest.mark.long),
        ("more late", "it has a column 'more', which earlier rows lack"),
    ],
)
def test_columns_that_change_stop_the_wagon_there(run: Run, change: str, message: str) -> None:
    result = run([Changing(change), Skim()])
    [wagon, other] = result.record.wagons
    assert wagon.error is not None
    assert message in wagon.error.message
    assert "table changing/table" in wagon.error.message
    assert (wagon.error.path or "").endswith("f3.root")
    assert re.search(r"f3.root, entries \d+ to \d+", wagon.error.message)
    # What is in the table is what counts.
    rows = result.outputs["changing"]["table"].rows
    assert (
        rows
        == result.outputs["changing"]["events"]
        == wagon.events
        == len(rows_by_uproot(result.outputs["changing"]["table"]))
    )
    assert rows == 3 * EVENTS_PER_FILE + (225 if "late" in change else 0)
    assert other.error is None


class Failing:
    """Raises in the second chunk of file 3."""

    def process(self, events: Any) -> Any:
        if int(events.run[0]) == 3 and events.metadata["entrystart"] == 225:
            raise ValueError("a mistake of the wagon")
        return {"table": branchline.Table({"px": events.px}), "events": len(events)}


def test_a_failing_wagon_keeps_the_rows_before(run: Run) -> None:
    result = run(Failing())
    outputs = result.outputs["Failing"]
    assert outputs["table"].rows == outputs["events"] == 3 * EVENTS_PER_FILE + 225
    assert len(rows_by_uproot(outputs["table"])) == outputs["events"]
    assert result.exit_code == 3


def test_a_table_needs_a_directory(run: Run) -> None:
    result = run(Skim(), out=None)
    [wagon] = result.record.wagons
    assert wagon.error is not None
    assert "no output directory for its file" in wagon.error.message


def content_of(result: TrainResult) -> list[list[tuple[str, str]]]:
    """The bytes of every basket of both tables."""
    return [baskets_of(result.outputs["skim"][name]) for name in ("events", "objects")]


@pytest.fixture
def skim(tmp_path: Path) -> str:
    """A file with the wagon Skim. Here, statements beside it, such as fixtures, would count for it."""
    text = "from typing import Any\n\nimport awkward as ak\nimport numpy as np\n\nimport branchline\n\n\n"
    (tmp_path / "wagons.py").write_text(text + inspect.getsource(Skim))
    return str(tmp_path / "wagons.py")


def test_rows_of_tables_are_reused(run: Run, data: Path, skim: str) -> None:
    first = content_of(run(skim))
    again = run(skim)
    assert again.errors == []
    check_rows(again, data)
    [wagon] = again.record.wagons
    assert wagon.subjobs_reused == again.record.subjobs
    assert wagon.not_reusable == ""
    assert content_of(again) == first


def test_rows_are_in_the_order_of_the_files_also_if_some_are_reused(
    run: Run, data: Path, skim: str, tmp_path: Path
) -> None:
    paths = sorted(data.glob("*.root"))
    later = tmp_path / "data"
    later.mkdir()
    for path in paths[1:]:
        shutil.copy2(path, later)
    run(skim, data=later)
    # A new first file changes the numbers of the other sub-jobs.
    shutil.copy2(paths[0], later)
    again = run(skim, data=later)
    [wagon] = again.record.wagons
    assert 0 < wagon.subjobs_reused < again.record.subjobs
    check_rows(again, later)
    assert content_of(again) == content_of(run(skim, data=later, reuse=False))


def test_tables_that_are_too_large_are_not_cached(
    run: Run, data: Path, skim: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.trains.reuse.reuse.ROWS_KEPT_MAX_BYTES", 1000)
    first = run(skim)
    assert f"{FILES} results with tables were too large to be cached (limit: 2.00 GB)" in first.record.reuse_notes
    again = run(skim)
    check_rows(again, data)
    [wagon] = again.record.wagons
    assert wagon.subjobs_reused == 0


def test_a_later_run_removes_the_tables_of_the_one_before(run: Run) -> None:
    first = run(Skim())
    run(Empty())
    assert not Path(first.outputs["skim"]["events"].path).exists()


class Killing:
    """Ends its process once, when rows of the sub-job are written."""

    def __init__(self, mark: Path) -> None:
        self.mark = str(mark)

    def process(self, events: Any) -> Any:
        if int(events.run[0]) == 2 and events.metadata["entrystart"] == 450 and not os.path.exists(self.mark):
            Path(self.mark).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return {"table": branchline.Table({"px": events.px, "run": events.run}), "events": len(events)}


def test_a_killed_worker_leaves_nothing_in_the_table(run: Run, tmp_path: Path) -> None:
    result = run(Killing(tmp_path / "mark"))
    assert (tmp_path / "mark").exists()
    assert result.errors == []
    outputs = result.outputs["Killing"]
    assert outputs["events"] == outputs["table"].rows == FILES * EVENTS_PER_FILE
    assert ak.to_list(rows_by_uproot(outputs["table"]).run) == [
        run for run in range(FILES) for _ in range(EVENTS_PER_FILE)
    ]


class Dying:
    """Ends its process each time in file 2."""

    def process(self, events: Any) -> Any:
        if int(events.run[0]) == 2 and events.metadata["entrystart"] == 450:
            os._exit(9)
        return {"table": branchline.Table({"run": events.run}), "events": len(events)}


def test_what_is_set_aside_is_not_in_the_table(run: Run) -> None:
    result = run(Dying(), allow_missing=0.5)
    outputs = result.outputs["Dying"]
    assert outputs["events"] == outputs["table"].rows == (FILES - 1) * EVENTS_PER_FILE
    assert set(ak.to_list(rows_by_uproot(outputs["table"]).run)) == {0, 1, 3, 4, 5}
    assert [one.files for one in result.record.missing]
    assert result.record.status == "partial"


def test_forecasts_write_no_tables(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    forecast = branchline.forecast(Skim(), str(data))
    assert [one.error for one in forecast.wagons] == [None]
    assert list(tmp_path.iterdir()) == []


class Slow:
    """Takes its time, so that it can be interrupted."""

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)

    def process(self, events: Any) -> Any:
        where = f"{int(events.run[0])}.{events.metadata['entrystart']}"
        Path(self.folder, where).touch()
        time.sleep(0.2)
        return {"table": branchline.Table({"px": events.px}), "events": len(events)}


@pytest.mark.parametrize("workers", long_but([0, 2], [2]))
def test_ctrl_c_keeps_the_rows_that_count(run: Run, tmp_path: Path, workers: int) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    with when(lambda: len(list(marks.iterdir())) >= 6, lambda: os.kill(os.getpid(), signal.SIGINT)):
        result = run(Slow(marks), workers=workers)
    assert result.record.interrupted
    outputs = result.outputs["Slow"]
    assert 0 < outputs["events"] == outputs["table"].rows == result.record.events < FILES * EVENTS_PER_FILE
    assert len(rows_by_uproot(outputs["table"])) == outputs["events"]
    assert (tmp_path / "out" / "PARTIAL.txt").exists()


class Large:
    """Many rows of what does not compress."""

    def process(self, events: Any) -> Any:
        random = np.random.default_rng(int(events.run[0]) * 10_000 + int(events.metadata["entrystart"]))
        return {"table": branchline.Table({"noise": random.random(100_000)}), "events": len(events)}


def test_a_full_disk_stops_the_wagon_and_counts_no_lost_rows(run: Run, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", disk], capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        result = run([Large(), Skim()], out=disk / "out")
        wagon = next(one for one in result.record.wagons if one.name == "Large")
        assert wagon.error is not None
        assert "table Large/table" in wagon.error.message
        assert "space" in wagon.error.message
        outputs = result.outputs["Large"]
        assert result.exit_code != 0
        table = outputs["table"]
        files = sorted(Path(table.path).iterdir()) if Path(table.path).is_dir() else [Path(table.path)]
        rows = sum(uproot.open(one)["table"].num_entries for one in files)
        assert rows == table.rows == 100_000 * wagon.chunks
        assert not list((disk / "out").glob(".pieces-*"))
    finally:
        subprocess.run(["umount", disk], check=True)


class Muons:
    """Records of the events as they come."""

    def process(self, events: Any) -> dict[str, Any]:
        good = events[events.MET_pt > 0.5]
        hard = ak.firsts(good.Muon.pt)
        columns = {"muon": good.Muon, "met": good.MET_pt}
        return {
            "tree": branchline.Table(columns | {"hard": ak.fill_none(hard, -1)}),
            "ntuple": branchline.Table(columns | {"hard": hard}, format="rntuple"),
            "parquet": branchline.Table(columns | {"hard": hard}, format="parquet"),
        }


def test_records_and_missing_values(run: Run, tmp_path: Path) -> None:
    random = np.random.default_rng(1)
    counts = random.poisson(1.5, 1000)
    pt, eta = (ak.unflatten(random.random(counts.sum()), counts) for _ in range(2))
    met = random.random(1000)
    with uproot.recreate(tmp_path / "nano.root") as file:
        file["Events"] = {"Muon": ak.zip({"pt": pt, "eta": eta}), "MET_pt": met}
    result = run(Muons(), data=tmp_path / "nano.root", step_size=300)
    assert result.errors == []
    outputs = result.outputs["Muons"]
    good = met > 0.5
    hard = ak.firsts(pt[good])
    tree = rows_by_uproot(outputs["tree"])
    assert ak.to_list(tree["muon_eta"]) == ak.to_list(eta[good])
    assert ak.to_list(tree["hard"]) == ak.to_list(ak.fill_none(hard, -1))
    ntuple, parquet = rows_by_uproot(outputs["ntuple"]), rows_by_arrow(outputs["parquet"])
    for rows in (ntuple, parquet):
        assert ak.to_list(rows["muon"]["pt"]) == ak.to_list(pt[good])
        assert ak.to_list(rows["hard"]) == ak.to_list(hard)


@pytest.mark.long
def test_a_killed_run_leaves_nothing_for_the_next_one(run: Run, data: Path, tmp_path: Path) -> None:
    marks = tmp_path / "marks"
    marks.mkdir()
    script = (
        f"import branchline; from tests.e2e.test_tables import Slow; from pathlib import Path\n"
        f"slow = Slow(Path({str(marks)!r}))\n"
        f"branchline.run([slow], {str(data)!r}, {str(tmp_path / 'out')!r}, workers=1, step_size=250)"
    )
    process = subprocess.Popen([sys.executable, "-c", script], cwd=Path(__file__).parents[2])
    with when(lambda: len(list(marks.iterdir())) >= 3, process.kill):
        assert process.wait(60) == -signal.SIGKILL
    assert len(list((tmp_path / "out").glob(".pieces-*"))) == 1
    result = run(Skim())
    assert result.errors == []
    check_rows(result, data)
    assert not list((tmp_path / "out").glob(".pieces-*"))
