"""`branchline advise` for jobs and traces, and what is kept of proofs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.command_line import run_command
from tests.unit.lab.forecast.test_planned_requests import write
from tests.unit.records.report.conftest import make_job

import branchline
from branchline.errors import BadFileError, OptionError
from branchline.lab.forecast.conditions import Conditions
from branchline.lab.forecast.subject import subject_of
from branchline.lab.what_if import advice_on, answer, subject_of_trace
from branchline.reading.access import Access
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording
from branchline.tracing.trace import read_trace


def traced(path: Path, trace: Path, mode: str) -> Path:
    """The trace of a program that reads two branches."""
    with (
        recording(trace, "a test"),
        ChunkStream([Source(str(path), "events")], ["x", "y"], access=Access(mode=mode)) as read,
    ):
        for chunk in read:
            del chunk
    return trace


def test_a_trace_tells_files_branches_and_how_they_are_read(tmp_path: Path) -> None:
    path = write(tmp_path / "data.root", [3_000] * 200)
    trace = traced(path, tmp_path / "t.parquet", "plain")
    subject = subject_of_trace(str(trace), read_trace(trace))
    assert [Path(one.path).name for one in subject.files] == ["data.root"]
    assert set(subject.branches or ()) == {"x", "y"}
    assert subject.access.mode == "plain"


def test_a_trace_without_baskets_is_refused(tmp_path: Path) -> None:
    trace = tmp_path / "empty.parquet"
    with recording(trace, "a test"):
        pass
    with pytest.raises(OptionError, match="no baskets"):
        subject_of_trace(str(trace), read_trace(trace))


@pytest.mark.long
def test_advice_on_a_trace_is_advice_on_its_files(tmp_path: Path) -> None:
    trace = traced(write(tmp_path / "data.root", [3_000] * 200), tmp_path / "t.parquet", "plain")
    subject = advice_on([str(trace)], None, None).subject
    assert subject is not None
    assert set(subject.branches or ()) == {"x", "y"}


def test_jobs_over_the_same_files_are_told_to_be_one_train(tmp_path: Path) -> None:
    job = make_job(phases={"wait": 0.5, "decompress": 0.4, "wagons": 0.1})
    folders = [tmp_path / name for name in ("a", "b")]
    for folder in folders:
        folder.mkdir()
        (folder / "job.json").write_text(json.dumps(job))
    shown = run_command(["advise", *map(str, folders)])
    assert "2 jobs read the same 24 files" in shown.output, shown.output
    (only,) = json.loads(run_command(["advise", *map(str, folders), "--json"]).output)
    assert only["id"] == "train-joined"


def test_a_job_that_took_all_from_an_earlier_one_is_told_what_to_do(tmp_path: Path) -> None:
    path = write(tmp_path / "data.root", [3_000] * 20)
    (tmp_path / "wagons.py").write_text("def count(events):\n    return len(events.x)\n")
    for _ in range(2):
        branchline.run(f"{tmp_path}/wagons.py:count", str(path), tmp_path / "out", workers=0, tree="events")
    with pytest.raises(OptionError, match="run it again with --no-reuse"):
        subject_of([str(tmp_path / "out")])


def test_a_parquet_file_that_is_no_trace_is_told_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "data.parquet"
    pq.write_table(pa.table({"x": [1.0]}), path)
    with pytest.raises(BadFileError, match=r"not a trace.*branchline convert FILE\.parquet"):
        advice_on([str(path)], None, None)
    with pytest.raises(BadFileError, match=r"not a trace.*branchline convert FILE\.parquet"):
        answer([str(path)], Conditions(), None, None, None)
