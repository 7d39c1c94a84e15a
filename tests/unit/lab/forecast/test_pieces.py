"""What the workers of a job read of files that are cut into parts is planned as they read it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.unit.lab.forecast.jobs_in_parts import planned_ranges, record_of, work_of, write_large

from branchline.lab.forecast.laid_file import laid_file
from branchline.lab.forecast.planned_requests import pieces_of
from branchline.reading.datasets.data_file import DataFile
from branchline.tracing.recording import recording
from branchline.tracing.trace import PART, read_trace

MODES = ("planned", "plain", "prefetch", "cache")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large(tmp_path_factory.mktemp("parts") / "large.root", clusters=70)


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_large(tmp_path_factory.mktemp("parts") / "small.root", clusters=5)


@pytest.mark.parametrize("branches", [None, ["x", "y"]], ids=["learned", "named"])
@pytest.mark.parametrize("mode", MODES)
def test_a_job_in_this_process_reads_what_is_planned(
    large: Path, small: Path, tmp_path: Path, mode: str, branches: list[str] | None
) -> None:
    for path, is_cut in ((large, True), (small, False)):
        out = tmp_path / path.stem
        with recording(tmp_path / "trace.parquet", "a test"):
            record = record_of([str(path)], out, 0, mode, branches)
        assert (record["subjobs"] > 1) == is_cut
        rows = read_trace(tmp_path / "trace.parquet").rows_of(PART).select(["offset", "size_bytes"]).to_pylist()
        requested = sum(row["size_bytes"] for row in rows)
        work = work_of(out)
        assert work.bytes_read == requested == record["totals"]["bytes_read"]
        assert {row["offset"] for row in rows} >= {offset for offset, _ in planned_ranges(work)}
        # A local file takes a call of the system for each range.
        assert work.requests == record["totals"]["read_calls"]


@pytest.mark.parametrize("mode", MODES)
def test_each_worker_opens_a_file_once_for_all_its_parts(large: Path, tmp_path: Path, mode: str) -> None:
    record = record_of([str(large)], tmp_path, 2, mode, ["x", "y"])
    work = work_of(tmp_path)
    opened = [plan.bytes_read for piece, plan in zip(work.pieces, work.plans, strict=True) if piece.only_reads]
    (opening_bytes,) = opened
    # One worker may have had all parts before the other had started.
    assert work.bytes_read - record["totals"]["bytes_read"] in (0, opening_bytes)
    assert [piece.opening for piece in work.pieces] == ["apart", "apart", "apart", "before", "before"]


def test_more_workers_open_a_file_more_often(large: Path, tmp_path: Path) -> None:
    record_of([str(large)], tmp_path, 0, "planned", ["x", "y"])
    works = [work_of(tmp_path, workers) for workers in (1, 2, 4)]
    opening = works[0].plans[0].requests
    assert [one.requests - works[0].requests for one in works] == [0, opening, 3 * opening]


def test_sub_jobs_of_several_files_are_read_by_a_stream_each(small: Path) -> None:
    file = laid_file(DataFile(str(small), "events"), None)
    halves = [replace(file, subjobs=0.5) for _ in range(5)]
    pieces = pieces_of(halves, 2)[1:]
    assert [(one.worker, one.begins_stream) for one in pieces] == [
        (0, True),
        (0, False),
        (1, True),
        (1, False),
        (0, True),
    ]
    # Outside of jobs nothing is cut, and nothing looked at before.
    assert [one.opening for one in pieces_of([file] * 3, 1)] == ["stream"] * 3


def test_all_entries_are_in_one_part(large: Path, tmp_path: Path) -> None:
    record_of([str(large)], tmp_path, 0, "planned", None)
    pieces = [one for one in work_of(tmp_path, 3).pieces if not one.only_reads]
    borders = np.array([one.entries for one in pieces])
    assert borders[0].tolist()[0] == 1000
    assert (borders[1:, 0] == borders[:-1, 1]).all()
    assert borders[-1, 1] == 70 * 25_000
