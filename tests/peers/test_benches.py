"""All benchmarks run from end to end on small data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from benches import agc, queries, queries_data
from benches.arms import BRANCHLINE, Arm, one_core_arms, two_core_arms
from benches.cluster_peers import check_equal
from benches.conditions import SETTINGS, settings_lines
from benches.dispatch import PLACES, dispatched
from benches.planning import planned, written
from benches.requests import Counts
from benches.rounds import Case, Sample, UnequalWorkError
from benches.tables import disturbed
from tests.peers.peers import REPOSITORY
from tests.sampled import long_but

from branchline.lab.sampling.page_cache import StillCachedError, make_cold
from branchline.tracing.descriptors import Read

RunBenches = Callable[..., Path]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder for data that all benchmarks share: their input files, and ROOT's compiled loops. Compiling these
    takes longer than most benchmarks.
    """
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def run_benches(cache: Path, tmp_path: Path) -> RunBenches:
    """Return a function that runs `python -m benches --quick` and returns the folder with the results."""

    def run(*benches: str) -> Path:
        command = [sys.executable, "-m", "benches", *benches, "--quick", "--codecs", "zlib,LZ4"]
        done = subprocess.run(
            [*command, "--cache", str(cache), "--results", str(tmp_path)],
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return tmp_path

    return run


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_readers_are_compared_on_equal_work(root: Any, run_benches: RunBenches) -> None:
    results = run_benches("readers", "sensors")
    samples = json.loads((results / "readers.json").read_text())["samples"]
    arms = {sample["arm"] for sample in samples}
    assert len(arms) == 15
    entries = {sample["entries"] for sample in samples} - {None}
    assert entries == {40}
    page = (results / "readers.md").read_text()
    assert "% of the limit" in page
    assert page.count("| 3 branches, cold |") == 4
    assert "ROOT 6." in page
    assert "## Settings of the readers" in page
    assert "cost, pair by pair" in (results / "sensors.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_merges_are_compared_with_those_of_root(root: Any, shared: Path, run_benches: RunBenches) -> None:
    results = run_benches("merging")
    samples = json.loads((results / "merging.json").read_text())["samples"]
    assert {sample["entries"] for sample in samples} == {200, 40, None}
    assert len({sample["arm"] for sample in samples}) == 15
    assert "hadd -fk" in (results / "merging.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_split_objects_are_read_by_all(root: Any, shared: Path, run_benches: RunBenches) -> None:
    results = run_benches("split-objects")
    samples = json.loads((results / "split-objects.json").read_text())["samples"]
    assert {sample["entries"] for sample in samples} == {200}
    assert "read calls per file" in (results / "split-objects.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_objects_are_read_beside_peers(root: Any, run_benches: RunBenches) -> None:
    results = run_benches("objects")
    arms = {sample["arm"] for sample in json.loads((results / "objects.json").read_text())["samples"]}
    assert any("GetEntry" in one for one in arms)
    assert "vector<TLorentzVector>, split" in (results / "objects.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_layouts_are_read_cold_by_one_job_and_by_four(root: Any, shared: Path, run_benches: RunBenches) -> None:
    results = run_benches("layouts")
    samples = json.loads((results / "layouts.json").read_text())["samples"]
    assert len(samples) == 6 * 2 * 3 * 2
    assert {(sample["arm"][-5:], sample["entries"]) for sample in samples} == {("1 job", 100), (" jobs", 400)}
    seeks = {(one["case"], one["arm"]): one["extra"].get("strace_seeks") for one in samples}
    bare = "GetEntry, no TTreeCache, 1 job"
    assert seeks["order entry, all branches", bare] < seeks["hadd -fk, all branches", bare]
    assert "verified with mincore" in (results / "layouts.md").read_text()
    assert (results / "layouts.svg").exists()
    assert (results / "layouts.png").exists()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_flat_columns_are_compared_with_objects(root: Any, run_benches: RunBenches) -> None:
    results = run_benches("flattened")
    rows = json.loads((results / "flattened.json").read_text())["rows"]
    assert {row["entries"] for row in rows} == {50}
    readers = {(row["objects"], row["reader"]) for row in rows}
    assert len(readers) == 11
    assert {row["form"] for row in rows} == {"objects", "ttree", "rntuple"}
    assert "flat RNTuple, CPU ms" in (results / "flattened.md").read_text()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_a_trace_costs_is_measured(shared: Path, run_benches: RunBenches) -> None:
    results = run_benches("tracing")
    rows = json.loads((results / "tracing.json").read_text())["rows"]
    assert len(rows) == 6
    assert all(row["trace_bytes"] > 1000 and len(row["pairs"]) == 2 for row in rows)
    assert "in CPU time" in (results / "tracing.md").read_text()


@pytest.mark.long
@pytest.mark.timeout(600)
def test_what_reporting_costs_is_measured(run_benches: RunBenches) -> None:
    results = run_benches("reporting")
    *rows, alone = json.loads((results / "reporting.json").read_text())["rows"]
    assert [sorted(row["rounds"][0]) for row in rows] == [["unreachable", "with", "without"]] * 2
    assert [one["readings"] for one in alone["alone"]] == [0, 120]
    assert "more CPU time" in (results / "reporting.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_reads_of_esd_files_are_those_of_the_study(root: Any, shared: Path, run_benches: RunBenches) -> None:
    results = run_benches("esd")
    page = (results / "reads-of-esd.md").read_text()
    lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    (study,) = [line for line in lines if len(line) == 6 and line[0] == "ROOT, no cache"]
    assert study[3:5] == ["483", "1 377 525"]
    of_files = [line for line in lines if len(line) == 9 and line[0]]
    calls = {line[0]: [int(cell.replace(" ", "")) for cell in line[1::2]] for line in of_files}
    assert all(
        ours < theirs for ours, theirs in zip(calls["Branchline, planned"], calls["ROOT, TTreeCache"], strict=True)
    )
    assert calls["Branchline, prefetch"][1:] == [1, 1, 1]
    assert len(list(results.glob("reads-of-esd-*.png"))) == 7


def test_requests_that_do_not_continue_the_one_before_are_seeks() -> None:
    ranges = [(0, 100), (100, 50), (150, 10), (400, 10), (0, 10), (10, 5)]
    reads = [Read(1, 1, "pread64", "a.root", 3, at, size, size, n, n + 1, None) for n, (at, size) in enumerate(ranges)]
    mapped = replace(reads[0], name="mmap", begin_ns=9)
    assert Counts.of([*reversed(reads), mapped]) == Counts(calls=6, seeks=3, got_bytes=185)
    assert Counts.of([mapped]) == Counts(0, 0, 0)


def test_the_page_says_what_each_reader_does() -> None:
    settings = {arm.name for arm in one_core_arms() + two_core_arms()}
    assert settings == set(SETTINGS)
    lines = settings_lines({"uproot, library ak": "a"})
    assert lines[0].startswith("- **Branchline**: `branchline.iterate(")
    assert any(line.startswith("- a: **uproot, library ak**: ") for line in lines)


def test_disturbed_rounds_are_named() -> None:
    arm = Arm("Branchline", BRANCHLINE, "branchline")
    case = Case("zlib, all branches", "zlib", "all branches", [], "events", None, 1, 1, 1)
    samples = [Sample(case.name, arm.key, number, 1.0, None, None) for number in range(3)]
    assert disturbed([arm], [case], samples) == []
    samples[1] = replace(samples[1], seconds=1.5)
    assert disturbed([arm], [case], samples) == [
        "zlib, all branches: 1 of 1 readers, the most Branchline, 1 core (1.50 times)"
    ]


def test_each_way_of_reading_a_local_disk_is_measured(cache: Path, run_benches: RunBenches) -> None:
    (cache / "any").write_bytes(b"x")
    try:
        make_cold([str(cache / "any")])
    except StillCachedError:
        pytest.skip("this file system is in memory")
    results = run_benches("local-disk")
    rows = json.loads((results / "local-disk.json").read_text())["rows"]
    assert {row["way"] for row in rows} >= {"advised", "threads"}
    assert all(row["bytes_per_second"] > 0 for row in rows)


@pytest.mark.peer
@pytest.mark.long
def test_files_of_many_histograms_are_compared(root: Any, run_benches: RunBenches) -> None:
    rows = json.loads((run_benches("histograms") / "histograms.json").read_text())["rows"]
    arms = {(row["task"].split()[0], row["arm"]) for row in rows}
    merges = {("merge", "Branchline"), ("merge", "hadd -fk"), ("merge", "hadd -f")}
    assert arms >= {("open", "Branchline"), ("open", "uproot"), ("write", "Branchline"), ("write", "uproot"), *merges}
    assert all(row["cpu_seconds"] > 0 for row in rows)


@pytest.mark.long
def test_a_control_room_under_load_answers_all(run_benches: RunBenches) -> None:
    rows = json.loads((run_benches("serving") / "serving.json").read_text())["rows"]
    assert [row["known_jobs"] for row in rows] == [0, 20]
    assert all(row["failures"] == 0 and row["reports"] >= 4 and row["pages"] >= 1 for row in rows)


def test_planning_opens_no_file(tmp_path: Path) -> None:
    folder = written(tmp_path, 40, lambda _: None)
    for given in (str(folder), f"{folder}/**/*.root", str(folder / "files.txt")):
        found = planned(given)
        assert (found.files, found.opened) == (40, 0)
        assert 0 < found.subjobs <= 40


@pytest.mark.parametrize("place", long_but(PLACES, ["processes"]))
def test_empty_subjobs_come_back_from_each_place(place: str) -> None:
    found = dispatched(place, 40)
    assert (found.place, found.subjobs) == (place, 40)
    assert 0 < found.first_s < found.all_s
    assert found.per_second > 0


@pytest.mark.long
def test_simulated_trains_are_counted(run_benches: RunBenches) -> None:
    results = run_benches("simulated")
    rows = json.loads((results / "simulated.json").read_text())["rows"]
    arms, scenarios = [one for one in rows if "arm" in one], [one for one in rows if "scenario" in one]
    assert (len(arms), len(scenarios)) == (18, 8)
    assert all(row["missing"] == 0 and row["makespan_s"] >= row["ideal_s"] > 0 for row in arms)
    assert all(row["makespan_s"] >= row["bound_s"] > 0 for row in scenarios)
    assert "seed 1" in (results / "simulated.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_packages_on_dask_fill_the_same_bins(root: Any, run_benches: RunBenches) -> None:
    results = run_benches("cluster-peers")
    rows = json.loads((results / "cluster-peers.json").read_text())["rows"]
    assert {row["arm"] for row in rows} == {"Branchline", "coffea", "coffea, savemetrics", "RDataFrame"}
    counts = rows[0]["counts"]
    assert counts["events"] == [4 * 500]
    assert sum(counts["pt"]) > sum(counts["mass"]) > 0
    assert all(row["counts"] == counts for row in rows)
    assert "All bins of all runs were equal" in (results / "cluster-peers.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_query_fills_the_same_bins_and_counts_chunks(root: Any, cache: Path) -> None:
    files = queries_data.make(cache, 3000, lambda _: None)
    passes = queries.measure("Q2", 1, cache, files, repeats=1)
    # Branchline finds out which branches it needs in the first of two chunks.
    assert {one.reader: one.chunks for one in passes} == {"Branchline": 2, "coffea": 1, "RDataFrame": 0}
    assert sum(passes[0].bins) == pytest.approx(4 * 3000, rel=0.1)
    assert all(one.cpu_seconds > 0 for one in passes)
    assert len(queries.cells(passes)) == 10


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_analysis_of_top_pairs_fills_the_same_bins(root: Any, shared: Path, run_benches: RunBenches) -> None:
    results = run_benches("agc", "--repeats", "1")
    rows = json.loads((results / "agc.json").read_text())["rows"]
    arms = {(row["arm"]["reader"], row["arm"]["workers"]) for row in rows}
    assert arms == {(reader, workers) for reader in ("Branchline", "coffea", "RDataFrame") for workers in (1, 2)}
    assert all(row["cpu_s"] > row["run_cpu_s"] > 0 and row["peak_bytes"] > 0 for row in rows)
    chunks = [row["chunks"] for row in rows if row["arm"]["reader"] == "coffea" and row["arm"]["step"] == 400]
    assert chunks
    assert set(chunks) == {9}
    assert "The histograms of a round were compared" in (results / "agc.md").read_text()


@pytest.mark.peer
@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_hundred_variations_fill_the_same_bins(root: Any, run_benches: RunBenches) -> None:
    results = run_benches("systematics", "--repeats", "1")
    rows = json.loads((results / "systematics.json").read_text())["rows"]
    assert sorted((row["reader"], row["step"]) for row in rows if row["reader"] != "Branchline") == [
        ("RDataFrame", None),
        ("coffea", next(row["step"] for row in rows if row["reader"] == "coffea")),
    ]
    assert sum(row["reader"] == "Branchline" for row in rows) == 2
    assert all(row["cpu_s"] > row["run_cpu_s"] > 0 and row["peak_bytes"] > 0 for row in rows)
    assert "The histograms of a round were compared" in (results / "systematics.md").read_text()


def test_a_histogram_of_top_pairs_that_differs_is_named() -> None:
    def found(reader: str, last: float) -> tuple[agc.Sample, agc.Bins]:
        return agc.Sample(agc.Arm(reader, 1), 1, 1.0, 1.0, 1), {"4j1b/ttbar/nominal": [0.0, 1000.0, last]}

    agc.check_equal([found("coffea", 5000.0), found("Branchline", 5000.0 + 1e-9), found("RDataFrame", 5001.0)])
    with pytest.raises(UnequalWorkError, match="Branchline differs in 4j1b/ttbar/nominal"):
        agc.check_equal([found("coffea", 5000.0), found("Branchline", 5001.0)])
    with pytest.raises(UnequalWorkError, match="RDataFrame differs in 4j1b/ttbar/nominal"):
        agc.check_equal([found("coffea", 5000.0), found("RDataFrame", 5100.0)])


def test_one_bin_that_differs_is_named() -> None:
    rows = [{"arm": name, "counts": {"pt": [1.0, 2.0, last]}} for name, last in (("a", 3.0), ("b", 4.0))]
    check_equal(rows[:1] * 2)
    with pytest.raises(UnequalWorkError, match=r"b and a differ in pt, in the bins \[2\]"):
        check_equal(rows)
