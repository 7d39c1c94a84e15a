"""A trace that is written and read again is the same; other files are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from branchline.errors import BadFileError, MissingFileError
from branchline.tracing.trace import FILE, REQUEST, SCHEMA, RowGroup, Trace, TracedJob, read_trace


def small() -> Trace:
    requests = RowGroup(
        kind=REQUEST,
        request=np.arange(3),
        file=["a.root", "b.root", "a.root"],
        offset=np.array([0, 10, -1]),
        size_bytes=np.array([5, 6, 7]),
        outcome=["ok", None, "EIO"],
    )
    files = RowGroup(kind=FILE, file=["a.root"], size_bytes=[100])
    return Trace.of([requests, files], TracedJob("cat", notes=("nothing",)))


def test_a_trace_comes_back_as_it_was(tmp_path: Path) -> None:
    trace = small()
    trace.write(tmp_path / "t.parquet")
    again = read_trace(tmp_path / "t.parquet")
    assert again.rows.to_pylist() == trace.rows.to_pylist()
    assert again.job == trace.job
    assert again.rows.schema == SCHEMA
    assert again.rows_of(REQUEST)["offset"].to_pylist() == [0, 10, None]


def test_a_trace_of_any_groups_of_rows_is_read(tmp_path: Path) -> None:
    trace = small()
    trace.write(tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    pq.write_table(table.drop_columns(["wagon"]), tmp_path / "u.parquet", write_statistics=False, row_group_size=2)
    assert read_trace(tmp_path / "u.parquet").rows.to_pylist() == trace.rows.to_pylist()
    pq.write_table(table.slice(0, 0), tmp_path / "v.parquet")
    assert read_trace(tmp_path / "v.parquet").rows.num_rows == 0


@pytest.mark.parametrize("wrong", [{"offset": ["x"]}, {"size_bytes": [[1]]}, {"kind": [1.5]}])
def test_columns_of_other_types_are_refused(tmp_path: Path, wrong: dict[str, Any]) -> None:
    small().write(tmp_path / "t.parquet")
    metadata = pq.read_schema(tmp_path / "t.parquet").metadata
    pq.write_table(pa.table(wrong).replace_schema_metadata(metadata), tmp_path / "u.parquet")
    with pytest.raises(BadFileError, match=r"u\.parquet is not a trace"):
        read_trace(tmp_path / "u.parquet")


@pytest.mark.parametrize("about", [b"{", b"[1]", b'{"version": "x"}', b"\xff"])
def test_what_a_trace_says_of_itself_is_checked(tmp_path: Path, about: bytes) -> None:
    table = small().rows.replace_schema_metadata({b"branchline.trace": about})
    pq.write_table(table, tmp_path / "t.parquet")
    with pytest.raises(BadFileError, match="its description is damaged"):
        read_trace(tmp_path / "t.parquet")


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MissingFileError):
        read_trace(tmp_path / "none.parquet")
    (tmp_path / "text.parquet").write_text("no")
    with pytest.raises(BadFileError, match="is not a trace"):
        read_trace(tmp_path / "text.parquet")
    pq.write_table(pa.table({"a": [1]}), tmp_path / "other.parquet")
    with pytest.raises(BadFileError, match="but not a trace"):
        read_trace(tmp_path / "other.parquet")
