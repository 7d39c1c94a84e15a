"""The numbers of a trace: they are known for requests that were made up; and they reach tables and Perfetto."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.command_line import run_command

from branchline.tracing.file_map import FileMap, with_parts
from branchline.tracing.perfetto import write_perfetto
from branchline.tracing.trace import REQUEST, SCHEMA, RowGroup, Trace, TracedJob
from branchline.tracing.trace_summary import summarise

# Offset, size, kind, tree, branch, basket, first entry, entry behind.
PIECES = [
    (0, 100, 0, -1, -1, -1, -1, -1),
    (100, 50, 1, 0, 1, 0, 0, 5),
    (150, 50, 1, 0, 2, 0, 0, 10),
    (200, 50, 1, 0, 1, 1, 5, 10),
    (250, 250, 2, -1, -1, -1, -1, -1),
]
FILE = FileMap("a.root", 500, ["t", "x", "y"], ["header", "basket", "gap"], *np.array(PIECES, "i8").T)


def made(*reads: tuple[int, int]) -> Trace:
    """A trace of reads at these places, a microsecond each with one between."""
    count = len(reads)
    offset, size = np.array(reads, "i8").T
    request = RowGroup(
        kind=REQUEST,
        request=np.arange(count),
        what=["read"] * count,
        file=["a.root"] * count,
        offset=offset,
        size_bytes=size,
        got_bytes=size,
        sent_ns=np.arange(count) * 2000,
        last_byte_ns=np.arange(count) * 2000 + 1000,
        process=np.full(count, 1),
        thread=np.full(count, 1),
        outcome=["ok"] * count,
    )
    return with_parts(Trace.of([request], TracedJob("made up", wall_ns=10**6)), [FILE])


def test_seeks_repeats_and_bytes_in_vain_are_counted() -> None:
    totals = summarise(made((0, 100), (100, 100), (200, 150), (100, 50), (200, 20))).as_json()["totals"]
    assert totals["read_calls"] == 5
    assert totals["read_bytes"] == 420
    assert totals["distinct_bytes"] == 350
    assert totals["again_bytes"] == 70
    # Of the gap.
    assert totals["unwanted_bytes"] == 100
    assert (totals["seeks"], totals["seeks_back"], totals["seek_bytes"]) == (2, 1, 250 + 50)
    assert totals["reading_s"] == pytest.approx(5e-6)
    assert (totals["basket_read_calls"], totals["basket_read_bytes"]) == (4, 320)


def test_a_basket_that_is_never_read_whole_is_in_vain_and_one_read_in_pieces_is_not() -> None:
    found = summarise(made((100, 30), (130, 20), (150, 49))).as_json()
    rows = {row["branch"]: row for row in found["branches"]}
    assert rows["x"]["unwanted_bytes"] == 0
    assert rows["y"]["unwanted_bytes"] == 49
    assert (rows["x"]["read_calls"], rows["x"]["baskets"]) == (2, 1)


def test_a_request_belongs_to_the_first_entry_that_it_holds() -> None:
    (events,) = summarise(made((0, 120), (100, 100), (200, 50), (200, 50))).as_json()["events"]
    assert events["opening_calls"] == 1
    assert events["read_calls"] == [1, 0, 0, 0, 0, 2]
    assert events["read_bytes"] == [100, 0, 0, 0, 0, 100]


def test_a_trace_without_reads_has_a_summary() -> None:
    found = summarise(Trace.of([], TracedJob())).as_json()
    assert found["totals"]["read_calls"] == 0
    assert found["files"] == found["branches"] == found["events"] == []


def test_the_commands_show_and_export_what_is_there(tmp_path: Path) -> None:
    trace = made((0, 100), (100, 100))
    trace.write(tmp_path / "t.parquet")
    shown = run_command(["trace", "show", str(tmp_path / "t.parquet")])
    assert shown.exit_code == 0, shown.output
    assert "2 read calls for 200 B" in shown.output
    as_json = run_command(["trace", "show", "--json", str(tmp_path / "t.parquet")])
    assert json.loads(as_json.output) == json.loads(json.dumps(summarise(trace).as_json()))
    run_command(["trace", "export", str(tmp_path / "t.parquet"), str(tmp_path / "t.json")])
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    slices = [one for one in events if one["ph"] == "X"]
    assert [one["name"] for one in slices] == ["header", "x basket 0, y basket 0"]
    assert [(one["ts"], one["dur"]) for one in slices] == [(0, 1), (2, 1)]
    check_events(events)
    write_perfetto(Trace.of([], TracedJob()), tmp_path / "empty.json")
    assert json.loads((tmp_path / "empty.json").read_text())["traceEvents"] == []


def check_events(events: list[dict[str, Any]]) -> None:
    """That they are as the description of the format wants them, and slices of a thread in each other or apart."""
    kinds = {"X": {"ph", "name", "cat", "pid", "tid", "ts", "dur", "args"}, "M": {"ph", "name", "pid", "tid", "args"}}
    open_ends: dict[tuple[int, int], list[int]] = {}
    named = set()
    for one in events:
        assert set(one) == kinds[one["ph"]]
        assert type(one["pid"]) is int
        assert 0 <= one["tid"] < 1 << 31
        where = (one["pid"], one["tid"])
        if one["ph"] == "M":
            assert one["name"] in ("process_name", "thread_name")
            assert isinstance(one["args"]["name"], str)
            named |= {where} if one["name"] == "thread_name" else set()
            continue
        assert where in named
        assert one["ts"] >= 0
        assert one["dur"] >= 0
        ends = open_ends.setdefault(where, [])
        # Microseconds with nanoseconds behind the point.
        begin, end = round(one["ts"] * 1000), round((one["ts"] + one["dur"]) * 1000)
        while ends and ends[-1] <= begin:
            ends.pop()
        assert not ends or end <= ends[-1]
        ends.append(end)


def test_requests_that_are_on_their_way_together_have_lanes_of_their_own(tmp_path: Path) -> None:
    trace = made((0, 10), (10, 10), (20, 10), (30, 10))
    rows = trace.rows.to_pydict()
    rows["sent_ns"][:4], rows["last_byte_ns"][:4] = [0, 500, 800, 3000], [1000, 2000, 900, 4000]
    write_perfetto(Trace(pa.table(rows, schema=SCHEMA)), tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    check_events(events)
    slices = [one for one in events if one["ph"] == "X"]
    assert [one["tid"] - slices[0]["tid"] for one in slices] == [0, 1 << 23, 0, 0]
    assert len([one for one in events if one["name"] == "thread_name"]) == 2


NAMES = ['a"b\\c</script>', "\u00fc \u4e2d", "x\ny\t\x01", "plain", "fifth"]


def test_any_names_and_many_pieces_are_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.tracing.perfetto._BLOCK", 2)
    trace = made((0, 10), (100, 10), (100, 20), (0, 5))
    parts = RowGroup(
        kind="part",
        request=np.array([1, 1, 1, 1, 1, 0]),
        what=["basket"] * 5 + ["header"],
        branch=[*NAMES, None],
        basket=np.array([0, 1, 2, 3, 4, -1]),
    )
    times = {"process": np.full(3, 7), "sent_ns": np.arange(3), "last_byte_ns": np.arange(3) + 1}
    extent = RowGroup(kind="extent", branch=NAMES[:3], file=[NAMES[0]] * 3, **times)
    span = RowGroup(kind="span", what=["wait", None, "wagon"], wagon=[None, None, NAMES[1]], **times)
    rows = [row for row in trace.rows.to_pylist() if row["kind"] == "request"]
    requests = pa.Table.from_pylist(rows, schema=SCHEMA)
    write_perfetto(Trace(requests).with_rows(parts, extent, span), tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    check_events(events)
    found = {category: [one for one in events if one.get("cat") == category] for category in ("extent", "span")}
    assert [one["name"] for one in found["extent"]] == NAMES[:3]
    assert [one["args"].get("file") for one in found["extent"]] == [NAMES[0]] * 3
    assert [one["name"] for one in found["span"]] == ["wait", "span", "wagon"]
    assert [one["args"].get("wagon") for one in found["span"]] == [None, None, NAMES[1]]
    several = [one for one in events if one.get("cat") == "request,read"]
    baskets = [f"{name} basket {number}" for number, name in enumerate(NAMES)]
    assert [one["name"] for one in several] == ["header", ", ".join(baskets[:3]) + " and 2 more", "read", "read"]
    assert [one["args"]["hit"] for one in several] == [["header"], baskets, [], []]
