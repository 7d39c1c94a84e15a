"""Two runs side by side: what differs is said bin by bin, and nothing of what strangers wrote is believed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import hist
import numpy as np
import pyarrow
import pyarrow.parquet
import pytest
import uproot

from branchline.control.trains.run_comparison import (
    DIFFERS,
    EQUAL,
    NOT_COMPARED,
    ONLY_FIRST,
    SAME,
    RunsCompared,
    compare_runs,
)
from branchline.records.result_files.formats import write_part, write_plain
from branchline.records.result_files.outputs import take_apart
from branchline.records.sensors.record import JobRecord, TableRecord
from branchline.trains.out_folder.state import job_of


def run(folder: Path, output: dict[str, Any], **costs: float) -> tuple[Path, JobRecord]:
    """Results as a train writes them."""
    record = JobRecord(**costs)  # type: ignore[arg-type]

    def store(part: Any) -> dict[str, str]:
        record.written += write_part(folder, part).files
        return {"file": record.written[-1]}

    plain = take_apart("a", output, store, ("a",))
    record.written.append(write_plain(folder, "a", plain))
    return folder, record


def compared(first: tuple[Path, JobRecord], second: tuple[Path, JobRecord]) -> RunsCompared:
    return compare_runs(*first, *second)


def filled(values: list[float]) -> hist.Hist:
    histogram = hist.Hist.new.Reg(4, 0, 4, name="x").Weight()
    histogram.fill(values)
    return histogram


def test_the_same_results_are_identical_bit_for_bit(tmp_path: Path) -> None:
    runs = [run(tmp_path / name, {"h": filled([0.5, 1.5]), "n": 2, "z": float("nan")}) for name in "ab"]
    found = compared(*runs)
    assert found.is_identical
    assert {one.state for one in found.parts} == {SAME}


def test_a_histogram_is_compared_bin_by_bin(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"h": filled([0.5] * 9 + [1.5] * 4 + [9.0])})
    second = run(tmp_path / "b", {"h": filled([0.5] * 16 + [1.5] * 4)})
    found = compared(first, second)
    [part] = [one for one in found.parts if one.name == "results/a/h.json"]
    # Sixteen against nine, whose larger error is 4; one entry in the overflow has error 1.
    assert (part.state, part.count, part.differing, part.largest, part.in_errors) == (DIFFERS, 6, 2, 7.0, 1.75)
    assert part.bins is not None
    assert part.bins.edges == [0, 1, 2, 3, 4]
    assert (part.bins.first, part.bins.second) == ([9, 4, 0, 0], [16, 4, 0, 0])
    assert not found.is_identical


def test_histograms_of_two_axes_and_means_are_compared(tmp_path: Path) -> None:
    def two(extra: float) -> dict[str, Any]:
        mesh = hist.Hist.new.StrCat(["a", "b"]).Reg(3, 0, 3).Double()
        mesh.fill(["a", "b"], [0.5, 1.5], weight=[1.0, 2.0 + extra])
        mean = hist.Hist.new.Reg(2, 0, 2).Mean()
        mean.fill([0.5] * 4, sample=[1.0, 2.0, 3.0, 4.0 + extra])
        return {"mesh": mesh, "mean": mean}

    found = {one.name: one for one in compared(run(tmp_path / "a", two(1.0)), run(tmp_path / "b", two(0.0))).parts}
    mesh, mean = found["results/a/mesh.json"], found["results/a/mean.json"]
    assert (mesh.differing, mesh.largest, mesh.in_errors) == (1, 1.0, pytest.approx(1 / np.sqrt(3)))
    assert mesh.bins is not None
    assert mesh.bins.second == [1, 2, 0]
    # The mean moved by a quarter; variances are 35/12 and 5/3, of four entries.
    assert (mean.differing, mean.largest) == (1, 0.25)
    assert mean.in_errors == pytest.approx(0.25 / np.sqrt(35 / 12 / 4))


def test_data_is_compared_value_by_value(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"n": 3, "cuts": {"all": 5, "good": [1, 2.5]}, "name": "x"})
    second = run(tmp_path / "b", {"n": 3, "cuts": {"all": 7, "good": [1, 2.0]}, "name": "y", "more": 1})
    [part] = compared(first, second).parts
    assert (part.state, part.count, part.differing, part.largest) == (DIFFERS, 6, 4, 2.0)
    assert [(one.name, one.first, one.second) for one in part.values] == [
        ("cuts/all", "5", "7"),
        ("cuts/good[1]", "2.5", "2.0"),
        ("name", "'x'", "'y'"),
        ("more", "", "1"),
    ]


def test_other_bins_and_missing_files_are_said(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"h": filled([1]), "only": np.arange(3)})
    second = run(tmp_path / "b", {"h": hist.Hist.new.Reg(5, 0, 4, name="x").Weight()})
    found = {one.name: one for one in compared(first, second).parts}
    assert (found["results/a/h.json"].state, found["results/a/h.json"].note) == (DIFFERS, "the binning differs")
    assert found["results/a/only.npz"].state == ONLY_FIRST


def test_costs_stand_side_by_side(tmp_path: Path) -> None:
    first = run(tmp_path / "a", {"n": 1}, wall_s=2.0, cpu_s=3.0, events=100)
    second = run(tmp_path / "b", {"n": 1}, wall_s=4.0, cpu_s=3.0, events=100)
    costs = {one.name: one for one in compared(first, second).costs}
    assert costs["wall time"].change == -0.5
    assert (costs["events per second"].first, costs["events per second"].second) == (50, 25)
    assert costs["bytes read"].change is None


HISTOGRAM = {"uhi_schema": 1, "axes": [{"type": "regular", "lower": 0, "upper": 1, "bins": 1}],
             "storage": {"type": "double", "values": [1]}}  # fmt: skip


@pytest.mark.parametrize(
    "content",
    [
        b"[" * 100_000,
        b"{",
        b"\xff\xfe",
        json.dumps({**HISTOGRAM, "storage": {"type": "double", "values": [[1], [1, 2]]}}).encode(),
        json.dumps({**HISTOGRAM, "storage": {"type": "double", "values": ["x"]}}).encode(),
        json.dumps({**HISTOGRAM, "axes": 3}).encode(),
        json.dumps({**HISTOGRAM, "axes": [3]}).encode(),
        json.dumps({**HISTOGRAM, "storage": {"type": "double", "values": [10**400]}}).encode(),
        json.dumps({**HISTOGRAM, "axes": [{"type": "regular", "lower": 0, "upper": 1, "bins": 10**12}]}).encode(),
        json.dumps({**HISTOGRAM, "axes": [{"type": "regular", "lower": "<b>", "upper": [], "bins": 1}]}).encode(),
        json.dumps({**HISTOGRAM, "axes": [{"type": "variable", "edges": {}}]}).encode(),
        json.dumps({**HISTOGRAM, "axes": [{"type": "regular", "bins": 1, "underflow": 7}]}).encode(),
    ],
)  # fmt: skip
def test_what_is_no_result_is_never_believed(tmp_path: Path, content: bytes) -> None:
    runs = [run(tmp_path / name, {"h": filled([1.0])}) for name in "ab"]
    for other in (b"", b" "):
        for folder, _ in runs:
            (folder / "results/a/h.json").write_bytes(content)
        (runs[1][0] / "results/a/h.json").write_bytes(content + other)
        [part] = [one for one in compared(*runs).parts if one.name == "results/a/h.json"]
        assert part.state in (SAME, DIFFERS)


def test_links_out_of_the_results_and_pipes_are_not_read(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text('{"secret": 1}')
    runs = [run(tmp_path / name, {"h": filled([1.0]), "k": filled([2.0])}) for name in "ab"]
    for folder, record in runs:
        (folder / "results/a/h.json").unlink()
        (folder / "results/a/h.json").symlink_to(tmp_path / "secret")
        (folder / "results/a/k.json").unlink()
        os.mkfifo(folder / "results/a/k.json")
        record.written += ["results/../../secret", "/etc/passwd", "results/\0"]
    states = {one.name: one.state for one in compared(*runs).parts}
    assert states.pop("results/a.json") == SAME
    assert set(states.values()) == {NOT_COMPARED}


def test_results_that_are_too_large_are_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [run(tmp_path / name, {"n": value}) for name, value in (("a", 1), ("b", 2))]
    monkeypatch.setattr("branchline.control.trains.run_comparison.COMPARED_BYTES_MAX", 3)
    [part] = compared(*runs).parts
    assert (part.state, part.note[:20]) == (NOT_COMPARED, "too large to compare")


def table_run(folder: Path, columns: dict[str, Any], suffix: str = "root") -> tuple[Path, JobRecord]:
    """Results with one table, as another program writes it: each file has a UUID and a time of its own."""
    path = folder / f"tables/a/t.{suffix}"
    path.parent.mkdir(parents=True)
    if suffix == "root":
        with uproot.recreate(path) as file:
            file["t"] = columns
    else:
        made = pyarrow.table(columns).replace_schema_metadata({"made": str(folder)})
        pyarrow.parquet.write_table(made, path)
    kinds = dict.fromkeys(columns, "float64")
    table = TableRecord("a", "t", "ttree", "t", len(next(iter(columns.values()))), columns=kinds)
    table.files.append(f"tables/a/t.{suffix}")
    return folder, JobRecord(tables=[table])


@pytest.mark.parametrize("suffix", ["root", "parquet"])
def test_tables_are_compared_by_their_values(tmp_path: Path, suffix: str) -> None:
    values = np.arange(120_000) / 7
    changed = values.copy()
    changed[100_001] += 1e-9
    first = table_run(tmp_path / "a", {"px": values, "py": -values}, suffix)
    same = table_run(tmp_path / "b", {"px": values, "py": -values}, suffix)
    [part] = compared(first, same).parts
    assert (part.state, part.count, part.differing) == (EQUAL, 2, 0), part.note
    assert compared(first, same).is_identical
    other = table_run(tmp_path / "c", {"px": changed, "py": -values}, suffix)
    [part] = compared(first, other).parts
    assert (part.state, part.count, part.differing) == (DIFFERS, 2, 1)
    assert part.note == "120000 rows in both; values differ in px"
    assert not compared(first, other).is_identical
    shorter = table_run(tmp_path / "d", {"px": values[:-1], "py": -values[:-1]}, suffix)
    assert [one.note for one in compared(first, shorter).parts] == ["120000 and 119999 rows"]
    more = table_run(tmp_path / "e", {"px": values, "pz": -values}, suffix)
    more[1].tables[0].columns = first[1].tables[0].columns
    assert [one.note for one in compared(first, more).parts] == ["different columns: py, pz"]


@pytest.mark.parametrize("suffix", ["root", "parquet"])
def test_tables_that_are_none_or_take_too_long_are_not_compared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    first = table_run(tmp_path / "a", {"px": np.arange(10.0)}, suffix)
    second = table_run(tmp_path / "b", {"px": np.arange(10.0)}, suffix)
    with monkeypatch.context() as patch:
        patch.setattr("branchline.control.trains.run_comparison.COMPARED_TABLE_S", -1.0)
        assert [one.state for one in compared(first, second).parts] == [NOT_COMPARED]
    for content in (b"", b"root" + bytes(300), b"PAR1" + b"\xff" * 300 + b"PAR1"):
        (second[0] / f"tables/a/t.{suffix}").write_bytes(content)
        [part] = compared(first, second).parts
        assert (part.state, part.note[:14]) == (NOT_COMPARED, "cannot read it")


def test_a_record_that_has_no_end_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code of users could put anything in its place: a pipe would be waited for."""
    os.mkfifo(tmp_path / "job.json")
    assert job_of(tmp_path) is None
    (tmp_path / "job.json").unlink()
    (tmp_path / "job.json").write_text("[" * 100_000)
    assert job_of(tmp_path) is None
    (tmp_path / "job.json").write_text(json.dumps({"status": "finished"}))
    assert job_of(tmp_path) is not None
    monkeypatch.setattr("branchline.trains.out_folder.state.JOB_FILE_MAX_BYTES", 10)
    assert job_of(tmp_path) is None
