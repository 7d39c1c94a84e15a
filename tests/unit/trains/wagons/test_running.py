"""A train over real files: what wagons get, what comes out, and how one that fails leaves the others alone."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward as ak
import hist
import numpy as np
import pytest
import uproot
from tests.unit.trains.wagons.conftest import run_in_chunks

from branchline.errors import BranchlineError, DatasetError, MissingFileError, NoSuchKeyError
from branchline.trains.running.result import TrainResult
from branchline.trains.running.train_run import _Run

EVENTS = 5 * 1500
Run = Callable[..., TrainResult]


@pytest.fixture
def run(folder: Path) -> Run:
    """Runs wagons over the five files in chunks of 400 entries, in this process unless ``workers`` says otherwise."""

    def with_defaults(wagons: Any, dataset: Any = None, **settings: Any) -> TrainResult:
        return run_in_chunks(wagons, str(folder) if dataset is None else dataset, **settings)

    return with_defaults


class Spectra:
    """Sums that depend on the order of adding in their last bits."""

    name = "spectra"

    def process(self, events: Any) -> dict[str, Any]:
        histogram = hist.Hist.new.Reg(40, 0, 5, name="pt").Weight()
        histogram.fill(ak.flatten(events.pt), weight=0.1)
        return {
            "pt": histogram,
            "events": len(events),
            "sum": float(ak.sum(events.px)),
            "runs": set(ak.to_list(events.run)),
        }


class Counting:
    """Needs the spectra of the same chunk."""

    name = "counting"
    requires = ("spectra",)
    branches = ("px",)

    def process(self, events: Any) -> dict[str, Any]:
        assert events.outputs["spectra"]["events"] == len(events)
        return {"same": events.outputs["spectra"]["sum"] == float(ak.sum(events.px))}


class FailsAt:
    """Raises in the chunk that holds entry 900 of run 2."""

    name = "fails"

    def process(self, events: Any) -> dict[str, int]:
        where = events.metadata
        if where["filename"].endswith("f2.root") and where["entrystart"] <= 900 < where["entrystop"]:
            raise ZeroDivisionError("this wagon divides by zero")
        return {"events": len(events), "runs": int(ak.sum(events.run))}


class Needs:
    name = "needs"
    requires = ("fails",)

    def process(self, events: Any) -> int:
        return len(events)


def bits_of(result: TrainResult) -> bytes:
    spectra = result.outputs["spectra"]
    return pickle.dumps((spectra["pt"].view(flow=True).tobytes(), spectra["sum"].hex(), sorted(spectra["runs"])))


def wagon_of(result: TrainResult, name: str) -> dict[str, Any]:
    (wagon,) = [one for one in result.job["wagons"] if one["name"] == name]
    return wagon


def test_all_events_reach_all_wagons_once(run: Run, folder: Path) -> None:
    result = run([Counting(), Spectra()])
    expected = uproot.concatenate([f"{one}:events" for one in sorted(folder.glob("*.root"))])
    assert result.exit_code == 0
    assert result.errors == []
    assert result.outputs["spectra"]["events"] == EVENTS
    assert result.outputs["spectra"]["sum"] == pytest.approx(ak.sum(expected.px), rel=1e-12)
    assert result.outputs["spectra"]["pt"].sum(flow=True).variance == pytest.approx(0.01 * ak.count(expected.pt))
    assert result.outputs["spectra"]["runs"] == {0, 1, 2, 3, 4}
    assert result.outputs["counting"] == {"same": 1 * result.job["wagons"][0]["chunks"]}
    assert result.job["events"] == result.job["events_expected"] == EVENTS
    assert result.job["status"] == "finished"


def test_results_are_the_same_bit_for_bit_whatever_the_workers(run: Run, small_subjobs: None) -> None:
    alone = run([Spectra(), Counting()])
    assert alone.job["subjobs"] == 5
    for workers in (2, 3):
        shared = run([Spectra(), Counting()], workers=workers)
        assert shared.job["workers"] == workers
        assert bits_of(shared) == bits_of(alone)
        assert wagon_of(shared, "spectra")["chunks"] == wagon_of(alone, "spectra")["chunks"]


@pytest.mark.parametrize("workers", [1, 2])
def test_phases_add_up_to_the_wall_time(run: Run, small_subjobs: None, workers: int) -> None:
    job = run([Spectra(), Counting()], workers=workers).job
    assert sum(job["phases"].values()) == pytest.approx(job["wall_s"], rel=0.05, abs=0.1)
    assert all(seconds >= 0 for seconds in job["phases"].values())
    for worker in job["worker_phases"]:
        known_s = sum(worker[phase] for phase in job["phases"])
        assert known_s == pytest.approx(worker["wall_s"], rel=0.05, abs=0.1)
    wagons_s = sum(wagon["seconds"] for wagon in job["wagons"])
    assert wagons_s == pytest.approx(job["phases"]["wagons"] * workers, rel=0.05, abs=0.1)
    last = job["timeline"][-1]
    assert last["events"] == EVENTS
    for name in ("machine_cpu_s", "machine_iowait_s", "machine_received_bytes"):
        assert job[name] >= last[name] >= 0


def test_a_wagon_that_raises_stops_alone_with_those_that_require_it(run: Run, small_subjobs: None) -> None:
    outcomes = []
    for workers in (1, 2):
        result = run([Needs(), FailsAt(), Spectra()], workers=workers)
        assert result.exit_code == 3
        assert result.outputs["spectra"]["events"] == EVENTS
        fails = wagon_of(result, "fails")
        assert fails["status"] == "partial"
        assert fails["error"]["type"] == "ZeroDivisionError"
        assert fails["error"]["message"] == "this wagon divides by zero"
        assert fails["error"]["path"].endswith("f2.root")
        assert fails["error"]["entry_start"] <= 900 < fails["error"]["entry_stop"]
        assert "this wagon divides by zero" in fails["error"]["traceback"]
        assert "branchline/trains/" not in fails["error"]["traceback"]
        assert "requires wagon 'fails'" in wagon_of(result, "needs")["error"]["message"]
        before = 2 * 1500 + fails["error"]["entry_start"] % 1500
        assert fails["events"] == wagon_of(result, "needs")["events"] == before
        assert result.outputs["fails"]["events"] == result.outputs["needs"] == before
        assert any("fails stopped at" in sentence and "f2.root" in sentence for sentence in result.errors)
        outcomes.append((result.outputs["fails"], result.outputs["needs"], bits_of(result)))
    assert outcomes[0] == outcomes[1]


def test_named_branches_are_read_at_once_and_no_others(run: Run) -> None:
    class OnlyPx:
        branches = ("px",)

        def process(self, events: Any) -> float:
            return float(ak.sum(events.px))

    job = run(OnlyPx()).job
    assert job["misses"] == {}
    assert [branch["name"] for branch in job["branches"]] == ["px"]
    assert sum(one["late_reads"] for one in job["files"]) == 0


def test_a_branch_touched_but_not_named_is_a_miss_until_it_is_known(run: Run, small_subjobs: None) -> None:
    class Forgot:
        branches = ("px",)

        def process(self, events: Any) -> int:
            return int(ak.count(events.pt))

    result = run(Forgot())
    chunks_per_file = wagon_of(result, "Forgot")["chunks"] // 5
    # The second sub-job is opened while the first one is still at work.
    assert chunks_per_file <= result.job["misses"]["pt"] <= 2 * chunks_per_file
    assert wagon_of(result, "Forgot")["misses"] == result.job["misses"]["pt"]


def test_branches_that_nobody_names_are_learned_on_the_first_entries(run: Run) -> None:
    job = run([Spectra()]).job
    assert job["misses"] == {}
    assert wagon_of(run([Spectra()]), "spectra")["branches"] == ["pt", "px", "run"]


def test_a_branch_touched_late_for_the_first_time_is_a_miss(run: Run, small_subjobs: None) -> None:
    class Later:
        def process(self, events: Any) -> float:
            late = events.metadata["filename"].endswith("f3.root")
            return float(ak.sum(events.px)) + (float(ak.sum(events.pt)) if late else 0.0)

    results = [run(Later(), workers=workers) for workers in (1, 2)]
    for result in results:
        assert set(result.job["misses"]) == {"pt"}
    assert results[0].outputs["Later"].hex() == results[1].outputs["Later"].hex()


class Learned:
    """Wants a branch that later files lack, unless it looks first."""

    def __init__(self, name: str, looks: bool) -> None:
        self.name, self.looks = name, looks

    def process(self, events: Any) -> dict[str, float]:
        if self.looks and "pt" not in events.fields:
            return {"without": float(len(events))}
        return {"with": float(ak.sum(events.pt))}


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("skip_bad_files", [False, True])
def test_a_branch_that_was_learned_and_that_later_files_lack_stops_who_wants_it_there_or_skips_them(
    run: Run, folder: Path, tmp_path: Path, small_subjobs: None, workers: int, skip_bad_files: bool
) -> None:
    for index in range(3):
        shutil.copy(folder / f"f{index}.root", tmp_path)
    with uproot.recreate(tmp_path / "f3.root") as file:
        file.mktree("events", {"px": "float64"}).extend({"px": np.ones(1500)})
    wagons = [Learned("blind", looks=False), Learned("careful", looks=True)]
    result = run(wagons, str(tmp_path), workers=workers, skip_bad_files=skip_bad_files)
    if skip_bad_files:
        (skipped,) = result.job["skipped"]
        assert (Path(skipped["path"]).name, skipped["entries_lost"]) == ("f3.root", 1500)
        assert [wagon_of(result, wagon.name)["error"] for wagon in wagons] == [None, None]
        return
    assert result.job["skipped"] == []
    assert result.outputs["careful"]["without"] == 1500
    assert wagon_of(result, "careful")["error"] is None
    fault = wagon_of(result, "blind")["error"]
    assert "pt" in fault["message"]
    assert "f3.root" in fault["message"] + fault["path"]
    assert fault["entry_start"] == 0


def test_the_same_object_returned_twice_does_not_count_double(run: Run) -> None:
    class Keeps:
        def __init__(self) -> None:
            self.counts = np.zeros(3)

        def process(self, events: Any) -> dict[str, Any]:
            self.counts[0] += len(events)
            return {"counts": self.counts}

    result = run(Keeps())
    assert result.exit_code == 3
    assert "create a new object in process()" in result.errors[0]


def test_outputs_that_do_not_add_name_the_wagon_and_the_key(run: Run) -> None:
    class Grows:
        name = "grows"

        def process(self, events: Any) -> dict[str, Any]:
            return {"px": {"all": np.asarray(events.px)[: len(events) - events.metadata["entrystart"] // 100]}}

    result = run(Grows())
    assert result.exit_code == 3
    assert "wagon grows" in result.errors[0]
    assert "['px']['all']: arrays of shapes" in result.errors[0]


def test_postprocess_sees_the_whole_sum_once(run: Run) -> None:
    calls = []

    class Finishes(Spectra):
        def postprocess(self, total: dict[str, Any]) -> dict[str, Any]:
            calls.append(total["events"])
            return {"mean": total["sum"] / total["events"]}

    assert set(run(Finishes()).outputs["spectra"]) == {"mean"}
    assert calls == [EVENTS]


def test_a_postprocess_that_raises_keeps_the_sum(run: Run) -> None:
    class Breaks(Spectra):
        def postprocess(self, total: dict[str, Any]) -> None:
            raise LookupError("no such sample")

    result = run(Breaks())
    assert result.exit_code == 3
    assert result.outputs["spectra"]["events"] == EVENTS
    assert "in postprocess: no such sample" in result.errors[0]


def test_metadata_of_a_fileset_reaches_the_wagon(run: Run, folder: Path) -> None:
    class Sees:
        def process(self, events: Any) -> dict[str, Any]:
            seen = events.metadata
            return {seen["dataset"]: {(seen["treename"], seen["year"], Path(seen["filename"]).name)}}

    fileset = {
        "zh": {"files": {str(folder / "f1.root"): "events"}, "metadata": {"year": 1}},
        "ww": {"files": {str(folder / "f0.root"): "events"}, "metadata": {"year": 2}},
    }
    outputs = run(Sees(), fileset).outputs["Sees"]
    assert outputs == {"zh": {("events", 1, "f1.root")}, "ww": {("events", 2, "f0.root")}}


def test_entry_ranges_of_a_fileset_are_kept_to(run: Run, folder: Path) -> None:
    steps = {"object_path": "events", "steps": [[100, 200], [1200, 1300]]}
    result = run(Spectra(), {"zh": {"files": {str(folder / "f0.root"): steps}}})
    expected = uproot.open(folder / "f0.root")["events/px"].array(library="np")
    assert result.outputs["spectra"]["events"] == result.job["events_expected"] == 200
    assert result.outputs["spectra"]["sum"] == pytest.approx(expected[100:200].sum() + expected[1200:1300].sum())


def test_parts_of_a_large_file_are_sub_jobs(run: Run, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 50)
    # With a step in bytes parts end at baskets, not at chunks.
    settings = {"dataset": str(folder / "f2.root"), "step_size": "1 kB"}
    results = [run([Spectra(), FailsAt()], workers=workers, **settings) for workers in (1, 2)]
    for result in results:
        assert result.job["subjobs"] > 3
        assert result.outputs["spectra"]["events"] == 1500
        # The file has fewer borders of baskets than parts: some parts are empty and read nothing.
        (record,) = result.job["files"]
        assert 1 < record["subjobs"] < result.job["subjobs"]
    assert bits_of(results[0]) == bits_of(results[1])
    assert results[0].outputs["fails"] == results[1].outputs["fails"]


@pytest.mark.parametrize("workers", [0, 2])
def test_parts_without_entries_are_finished_without_a_worker(
    run: Run, folder: Path, workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 50)
    came: list[int] = []
    take = _Run._take_result

    def noting(self: Any, index: int, *rest: Any) -> None:
        came.append(index)
        take(self, index, *rest)

    monkeypatch.setattr(_Run, "_take_result", noting)
    # With a step in bytes parts end at baskets, not at chunks.
    result = run([Spectra(), Counting()], str(folder / "f2.root"), workers=workers, step_size="1 kB")
    (record,) = result.job["files"]
    # Workers get those with entries, and the few that are drawn before the file is open.
    assert record["subjobs"] <= len(came) <= record["subjobs"] + workers + 1 < result.job["subjobs"]
    assert len(set(came)) == len(came)
    assert result.job["subjobs_done"] == result.job["subjobs"]
    assert result.record.errors == []
    assert result.outputs["spectra"]["events"] == 1500


def test_progress_comes_to_the_end(run: Run) -> None:
    reports = []
    run(Spectra(), progress=reports.append)
    assert reports[-1].events == EVENTS
    assert reports[-1].fraction_done == pytest.approx(1.0, abs=0.01)


def test_the_job_record_is_complete(run: Run) -> None:
    job = run(Spectra(), command="branchline run x").job
    wanted = {
        "branchline",
        "status",
        "host",
        "cpu_count",
        "workers",
        "threads",
        "started",
        "wall_s",
        "cpu_s",
        "command",
    }
    wanted |= {"memory_peak_bytes", "dataset", "events", "events_expected", "phases", "wagons", "files", "branches"}
    wanted |= {"storage_elements", "skipped", "misses", "timeline", "totals", "errors"}
    assert wanted <= set(job)
    assert sum(one["events"] for one in job["files"]) == EVENTS
    assert job["totals"]["bytes_read"] == sum(one["bytes_read"] for one in job["files"]) > 0
    assert [element["files"] for element in job["storage_elements"]] == [5]
    assert len(job["dataset"]) == 5
    assert job["dataset"][0]["entries"] == 1500
    assert job["wall_s"] > 0
    assert job["cpu_s"] > 0


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"dataset": "nowhere*.root"}, DatasetError, "no file matches"),
        ({"dataset": "nowhere.root"}, MissingFileError, r"nowhere\.root"),
        ({"workers": -1}, BranchlineError, "invalid number of workers: -1"),
        ({"step_size": "many", "branches": ["px"]}, BranchlineError, "'many' is not a size"),
        ({"step_size": 0, "branches": ["px"]}, BranchlineError, "step of 0 entries"),
        ({"memory_limit": "a lot"}, BranchlineError, "'a lot' is not a size"),
        (
            {"wagons": type("Wrong", (Spectra,), {"branches": ["px", "pz"]})()},
            NoSuchKeyError,
            "wagon 'spectra' names.*pz",
        ),
    ],
)
def test_what_is_wrong_from_the_start_raises(run: Run, settings: dict, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        run(**{"wagons": Spectra(), **settings})


def test_truth_values_of_numpy_are_not_taken_for_an_object_returned_twice(run: Run, folder: Path) -> None:
    """NumPy has one object for each truth value, which every chunk returns."""

    class Seen:
        name = "seen"
        branches = ("run",)

        def process(self, events: Any) -> dict[str, Any]:
            return {"any": np.bool_(len(events) > 0)}

    result = run([Seen()], folder, step_size=10)
    assert not result.errors
