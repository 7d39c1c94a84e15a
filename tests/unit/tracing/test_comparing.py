"""Two traces are compared by what they read, in numbers and in words."""

from __future__ import annotations

import json
from pathlib import Path

from tests.command_line import run_command
from tests.unit.tracing.test_summary import made

from branchline.tracing.trace_comparison import ValueChange, compare, sentences


def test_what_changed_is_told_with_its_size() -> None:
    found = compare(made((0, 100), (100, 50), (150, 50)), made((0, 100), (100, 150), (100, 50)))
    totals = {row.name: row.change for row in found.totals}
    assert totals["read_bytes"] == ValueChange(200, 300, 1.5)
    assert totals["again_bytes"].factor is None
    branches = {(row.name, row.read_bytes.first, row.read_bytes.second) for row in found.branches}
    assert branches == {("x", 50, 150), ("y", 50, 50)}
    said = sentences(found)
    assert "Bytes read: 300 B instead of 200 B, 1.50 times as much." in said
    assert "Bytes read again: 50 B instead of 0 B." in said
    assert any(line.startswith("The same in both: read calls") for line in said)


def test_the_branches_that_only_one_read_are_named() -> None:
    said = sentences(compare(made((0, 100), (100, 50)), made((0, 100), (150, 50))))
    assert "Branches that only the first read: x." in said
    assert "Branches that only the second read: y." in said


def test_a_trace_compared_with_itself_has_no_change() -> None:
    trace = made((0, 100), (100, 50))
    (said,) = sentences(compare(trace, trace))
    assert said.startswith("The same in both: ")


def test_the_command_prints_tables_json_and_a_page(tmp_path: Path) -> None:
    made((0, 100), (100, 50)).write(tmp_path / "a.parquet")
    made((0, 100), (100, 100)).write(tmp_path / "b.parquet")
    paths = [str(tmp_path / "a.parquet"), str(tmp_path / "b.parquet")]
    shown = run_command(["trace", "diff", *paths, "--html", str(tmp_path / "d.html")])
    assert shown.exit_code == 0, shown.output
    assert "200 B instead of 150 B" in shown.output
    assert (tmp_path / "d.html").read_text().count('class="trace"') == 2
    as_json = run_command(["trace", "diff", *paths, "--json"])
    assert json.loads(as_json.output)["sentences"]
