"""A trace is played again with the same calls and bytes, elsewhere, slowed on purpose, or planned again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.command_line import run_command
from tests.page_cache import in_page_cache

from branchline import Access
from branchline.errors import MissingFileError, OptionError
from branchline.reading.trees.file import File
from branchline.tracing.recording import recording
from branchline.tracing.replay import moved, replay_baskets, replay_requests
from branchline.tracing.trace import REQUEST, Trace, TracedJob, read_trace
from branchline.tracing.trace_summary import summarise

BRANCHES = [f"branch_{number}" for number in range(30)]
SOME = ["branch_1", "branch_2", "branch_9", "branch_20"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A file of 13 MB, too large to be read whole."""
    path = tmp_path_factory.mktemp("here") / "events.root"
    random = np.random.default_rng(5)
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as made:
        tree = made.mktree("events", dict.fromkeys(BRANCHES, "float64"))
        for _ in range(3):
            tree.extend({name: random.normal(size=18_000) for name in BRANCHES})
    with in_page_cache(path):
        yield path


@pytest.fixture(scope="module")
def trace(file: Path) -> Trace:
    with recording(file.with_name("t.parquet"), "a test"):
        File(file).tree().arrays(SOME)
    return read_trace(file.with_name("t.parquet"))


def test_the_same_requests_make_the_same_calls_and_bytes_elsewhere(file: Path, trace: Trace, tmp_path: Path) -> None:
    shutil.copy(file, tmp_path)
    totals = summarise(trace).as_json()["totals"]
    with in_page_cache(tmp_path / "events.root"), recording(tmp_path / "again.parquet", "a test"):
        again = replay_requests(trace, str(tmp_path), Access())
    assert (again.read_calls, again.read_bytes) == (totals["read_calls"], totals["read_bytes"])
    assert (again.original_calls, again.original_bytes) == (totals["read_calls"], totals["read_bytes"])
    assert again.left_out == 0
    summary = summarise(read_trace(tmp_path / "again.parquet")).as_json()
    assert {row["file"] for row in summary["files"]} == {str(tmp_path / "events.root")}
    assert summary["totals"]["read_calls"] == totals["read_calls"]
    rows = read_trace(tmp_path / "again.parquet").rows_of(REQUEST).to_pylist()
    again_asked = sorted((row["offset"], row["size_bytes"]) for row in rows)
    assert again_asked == sorted((row["offset"], row["got_bytes"]) for row in trace.rows_of(REQUEST).to_pylist())


def test_a_storage_that_is_slowed_on_purpose_takes_its_time(trace: Trace) -> None:
    slow = replay_requests(trace, None, Access(throttle="latency=30ms"))
    # A wait that is asked for is no measurement: less than that it cannot take.
    assert slow.seconds >= 0.03 * len({row["thread"] for row in trace.rows_of("request").to_pylist()})
    assert slow.read_calls == slow.original_calls


def test_the_same_baskets_are_planned_again(trace: Trace, tmp_path: Path) -> None:
    with recording(tmp_path / "again.parquet", "a test"):
        again = replay_baskets(trace, None, Access())
    used = {row["branch"] for row in read_trace(tmp_path / "again.parquet").rows_of("extent").to_pylist()}
    assert used == set(SOME)
    # Planned as the original was, it comes out the same.
    assert (again.read_calls, again.read_bytes) == (again.original_calls, again.original_bytes)


def test_files_are_found_where_they_are_now(trace: Trace, tmp_path: Path) -> None:
    assert moved("/data/a/x.root", None) == "/data/a/x.root"
    assert moved("/data/a/x.root", "root://host//store/") == "root://host//store/x.root"
    assert moved("/data/a/x.root", "/data=https://host/d") == "https://host/d/a/x.root"
    assert moved("/data/x.root", "https://host/d?key=value") == "https://host/d/x.root?key=value"
    with pytest.raises(OptionError, match="does not start with /other"):
        moved("/data/x.root", "/other=/new")
    with pytest.raises(MissingFileError):
        replay_requests(trace, str(tmp_path), Access())
    shorter = tmp_path / trace.rows_of(REQUEST)["file"][0].as_py().rpartition("/")[2]
    shorter.write_bytes(b"root")
    with pytest.raises(OptionError, match="has 4 bytes, but the trace has a request at byte"):
        replay_requests(trace, str(tmp_path), Access())
    with pytest.raises(OptionError, match="no requests"):
        replay_requests(Trace.of([], TracedJob()), None, Access())


def test_the_command_compares_with_the_original(file: Path, trace: Trace) -> None:
    path = str(file.with_name("t.parquet"))
    shown = run_command(["trace", "replay", path])
    assert shown.exit_code == 0, shown.output
    assert "the same baskets with --access planned" in shown.output
    as_json = run_command(["trace", "replay", path, "--requests", "--json"])
    found = json.loads(as_json.output)
    assert found["read_calls"] == found["original_calls"] == summarise(trace).as_json()["totals"]["read_calls"]
