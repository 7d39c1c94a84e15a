"""A file that is cut into parts is opened once by a worker, and the record of the job has each of its reads once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import branchline
from branchline._core import HEAD_BYTES
from branchline.reading.datasets.data_file import DataFile
from branchline.trains.subjobs.shares import cut

#: Of the end of a file, when it is opened.
TAIL_BYTES = 1 << 20
MODES = ("planned", "plain", "prefetch")


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 28 MB in baskets of 200 kB."""
    path = tmp_path_factory.mktemp("large") / "large.root"
    random = np.random.default_rng(5)
    with uproot.recreate(path, compression=None) as file:
        file.mktree("events", {"x": "f8", "y": "f8"})
        for _ in range(70):
            file["events"].extend({name: random.normal(size=25_000) for name in "xy"})
    return path


def total(events: Any) -> float:
    return float(np.sum(events["x"]) + np.sum(events["y"]))


def record_of(path: Path, access: str = "planned") -> Any:
    """The record of the file in a job of one worker that has all parts."""
    results = branchline.run(total, f"{path}:events", workers=0, access=access)
    with uproot.open(path) as file:
        expected = file["events"].arrays(library="np")
    assert results.outputs["total"] == pytest.approx(float(expected["x"].sum() + expected["y"].sum()))
    (record,) = results.job["files"]
    return record


def test_a_file_in_parts_is_opened_once(large: Path) -> None:
    size = large.stat().st_size
    assert len(cut([DataFile(str(large), "events", size_bytes=size)])) > 2
    record = record_of(large)
    assert record["entries"] == 70 * 25_000
    # The baskets at the end of the file may be read twice: when it is opened, and when a part needs them.
    assert size - TAIL_BYTES <= record["bytes_read"] <= size + HEAD_BYTES + TAIL_BYTES


@pytest.mark.parametrize("access", MODES)
def test_each_request_for_a_file_in_parts_is_counted_once(large: Path, access: str, tmp_path: Path) -> None:
    from branchline.tracing.recording import recording
    from branchline.tracing.trace import PART, read_trace

    with recording(tmp_path / "trace.parquet", "a test"):
        record = record_of(large, access)
    requested = read_trace(tmp_path / "trace.parquet").rows_of(PART)
    assert record["bytes_read"] == sum(requested.column("size_bytes").to_pylist())
