"""A trace that is written and read again is the same; what is no trace is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from branchline.errors import BadFileError, MissingFileError
from branchline.tracing import Trace, read_trace
from branchline.tracing.form import FILE, REQUEST, SCHEMA


def small() -> Trace:
    requests = {
        "kind": REQUEST,
        "request": np.arange(3),
        "file": ["a.root", "b.root", "a.root"],
        "offset": np.array([0, 10, -1]),
        "size_bytes": np.array([5, 6, 7]),
        "outcome": ["ok", None, "EIO"],
    }
    files = {"kind": FILE, "file": ["a.root"], "size_bytes": [100]}
    return Trace.of([requests, files], {"command": "cat", "notes": ["nothing"]})


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    trace = small()
    trace.write(tmp_path / "t.parquet")
    again = read_trace(tmp_path / "t.parquet")
    assert again.rows.to_pylist() == trace.rows.to_pylist()
    assert again.about == trace.about
    assert again.rows.schema == SCHEMA
    assert again.rows_of(REQUEST)["offset"].to_pylist() == [0, 10, None]


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        read_trace(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(BadFileError, match="is no trace"):
        read_trace(tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadFileError, match="but no trace"):
        read_trace(tmp_path / "other.parquet")
