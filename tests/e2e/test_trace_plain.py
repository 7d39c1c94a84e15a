"""Read basket by basket, the file of the ALICE study takes the calls of its table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.peers.peers import missing, shared_data

from branchline import Access
from branchline.reading.layout.file_layout import inspect_file
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording
from branchline.tracing.trace import Trace, read_trace
from branchline.tracing.trace_summary import summarise


def test_plain_reads_are_those_of_the_study(tmp_path: Path) -> None:
    path, here = file_of_the_study()
    with (
        recording(tmp_path / "t.parquet", "a test"),
        ChunkStream([Source(path, "esdTree")], here, access=Access(mode="plain")) as stream,
    ):
        for chunk in stream:
            del chunk
    trace = read_trace(tmp_path / "t.parquet")
    for_baskets = calls_for_baskets(trace)
    seen: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for row in trace.rows_of("part").to_pylist():
        if row["request"] in for_baskets and row["size_bytes"] == row["extent_bytes"]:
            seen.setdefault((row["branch"], row["basket"]), []).append(row)
    found = list(seen.values())
    # Its table 3: 483 calls for 1 377 525 bytes, a call for each basket.
    assert len(found) == 483
    assert sum(rows[0]["size_bytes"] for rows in found) == 1_377_525
    # No basket is read again, not those with counts of elements either, for each basket that they count for.
    assert {rows[0]["branch"]: len(rows) for rows in found if len(rows) > 1} == {}
    assert summarise(trace).as_json()["totals"]["basket_read_calls"] == 483


def test_a_cache_reads_the_baskets_of_the_first_entries_once(tmp_path: Path) -> None:
    path, here = file_of_the_study()
    with ChunkStream([Source(path, "esdTree")], here, access=Access(mode="cache")) as stream:
        for chunk in stream:
            del chunk
        (record,) = stream.records().files
    # ROOT's TTreeCache makes 13 calls for them.
    assert record.read_calls <= 13
    assert record.bytes_read <= Path(path).stat().st_size


def file_of_the_study() -> tuple[str, list[str]]:
    """The file, and those of its branches that were read."""
    folder = shared_data()
    if folder is None:
        missing("the shared test data (BRANCHLINE_SHARED, or ../shared next to the repository)")
    path = str(folder / "root" / "AliESDs-0.root")
    every = inspect_file(f"{path}:esdTree").wanted
    return path, [name for name in every if not name.startswith(("ESDfriend.", "AliESDFMD.", "CaloClusters"))]


def calls_for_baskets(trace: Trace) -> set[int]:
    """The requests that begin with a basket: those before opened the file."""
    first: dict[int, dict[str, Any]] = {}
    for row in trace.rows_of("part").to_pylist():
        if row["request"] not in first or row["offset"] < first[row["request"]]["offset"]:
            first[row["request"]] = row
    return {number for number, row in first.items() if row["what"] == "basket"}
