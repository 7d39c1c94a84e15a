"""Traces of RNTuples name fields and pages, which were read and which of these were used: ours, ROOT's and uproot's."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.peers.peers import import_root, missing

from branchline import Access
from branchline.reading.trees.file import File
from branchline.tracing.file_map import PAGE, map_file
from branchline.tracing.recording import recording
from branchline.tracing.strace import follow
from branchline.tracing.trace import EXTENT, PART, Trace, read_trace
from branchline.tracing.trace_summary import summarise

FIELDS = [f"field_{number}" for number in range(6)]
ENTRIES = 60_000
READ_WITH_UPROOT = """
import sys, uproot
with uproot.open(sys.argv[1]) as file:
    file["events"].arrays(["field_2"])
"""
READ_WITH_ROOT = """
import sys
import ROOT
print(ROOT.RDataFrame("events", sys.argv[1]).Sum("field_2").GetValue())
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with an RNTuple of three clusters, each with several pages of each field."""
    where = tmp_path_factory.mktemp("pages") / "events.root"
    random = np.random.default_rng(7)
    with uproot.recreate(where) as file:
        events = file.mkrntuple("events", dict.fromkeys(FIELDS, "float64"))
        for _ in range(3):
            events.extend({name: random.normal(size=ENTRIES // 3) for name in FIELDS})
    return where


def recorded(path: Path, folder: Path, field: str, start: int, stop: int, mode: str) -> Trace:
    with recording(folder / "t.parquet", "a test"):
        tree = File(path, access=Access(mode=mode)).tree()
        tree.arrays([field], entry_start=start, entry_stop=stop)
    return read_trace(folder / "t.parquet")


def pages_of(path: Path, field: str) -> set[int]:
    """Where the pages of a field begin, according to the file itself."""
    found = map_file(str(path))
    mine = (found.branch == found.names.index(field)) & (found.what == found.whats.index(PAGE))
    return set(found.offset[mine].tolist())


@pytest.mark.parametrize("mode", ["plain", "planned", "prefetch"])
def test_pages_that_were_used_are_those_of_the_field(path: Path, tmp_path: Path, mode: str) -> None:
    trace = recorded(path, tmp_path, "field_2", 0, ENTRIES, mode)
    used = [row for row in trace.rows_of(EXTENT).to_pylist() if row["what"] == PAGE]
    assert {row["offset"] for row in used} == pages_of(path, "field_2")
    assert {(row["branch"], row["column"]) for row in used} == {("field_2", used[0]["column"])}
    assert {row["basket"] for row in used} == {0, 1, 2}
    rows = {row["branch"]: row for row in summarise(trace).as_json()["branches"]}
    assert rows["field_2"]["unwanted_bytes"] == 0
    assert all(row["unwanted_bytes"] == row["distinct_bytes"] for name, row in rows.items() if name != "field_2")


def test_pages_that_were_read_and_not_used_are_told_apart(path: Path, tmp_path: Path) -> None:
    trace = recorded(path, tmp_path, "field_2", 0, 100, "prefetch")
    used = {row["offset"] for row in trace.rows_of(EXTENT).to_pylist() if row["what"] == PAGE}
    assert len(used) == 1
    assert used < pages_of(path, "field_2")
    (row,) = [row for row in summarise(trace).as_json()["branches"] if row["branch"] == "field_2"]
    sizes = {
        row["offset"]: row["extent_bytes"] for row in trace.rows_of(PART).to_pylist() if row["branch"] == "field_2"
    }
    assert row["unwanted_bytes"] == row["distinct_bytes"] - sum(sizes[one] for one in used) > 0


@pytest.mark.parametrize(("program", "is_root"), [(READ_WITH_UPROOT, False), (READ_WITH_ROOT, True)])
def test_reads_of_others_hit_the_pages_of_their_field(path: Path, program: str, is_root: bool) -> None:
    shutil.which("strace") or missing("strace")
    if is_root and import_root() is None:
        missing("ROOT")
    trace = follow([sys.executable, "-c", program, str(path)])
    assert trace.job.exit_code == 0
    found, wanted = summarise(trace).as_json(), map_file(str(path))
    (row,) = [row for row in found["branches"] if row["branch"] == "field_2"]
    whole = int(wanted.size[np.isin(wanted.offset, list(pages_of(path, "field_2")))].sum())
    assert (row["distinct_bytes"], row["unwanted_bytes"]) == (whole, 0)
    assert row["baskets"] == len(pages_of(path, "field_2"))
    assert found["totals"]["basket_read_calls"] > 0
    assert {row["what"] for row in found["kinds"]} >= {"RNTuple metadata", PAGE}
