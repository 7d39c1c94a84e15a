"""Curves over added latency: the table and the picture are of what was kept, forecasts of passes without latency."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import curves, latency
from studies.curves import ADDED_MS, Pass


def test_calls_of_root_cost_a_round_trip_each_behind_those_of_opening() -> None:
    without = [Pass(seconds, calls=5, bytes_read=10**7) for seconds in (9.0, 1.0, 0.5)]
    said = latency._of_calls(without)
    assert said == pytest.approx([1.0 + (5 + 2) * one / 1e3 for one in ADDED_MS], rel=0.01)


def test_the_table_has_published_measured_and_forecast_times() -> None:
    found = curves.read()
    assert found is not None
    rows = [line for line in curves.section(found).splitlines() if line.startswith(("| TTree", "| RNTuple"))]
    assert len(rows) == len(curves.THEIRS) + 2 * len(found.curves) == 10
    assert "8.73 s (1.00) | 9.02 s (1.03) |  | 16.41 s (1.88) | 29.27 s (3.35)" in rows[0]
    for one in found.curves:
        assert len(one.passes) == len(one.forecast_s) == len(ADDED_MS)
        assert one.forecast_s == sorted(one.forecast_s)
    assert "RNTuple, ROOT of 2019 (published)" in curves.picture(found)


def test_curves_are_kept_as_they_were_measured(tmp_path: Path) -> None:
    assert curves.read(tmp_path) is None
    assert "Not measured yet" in curves.section(None)
    found = curves.read()
    assert found is not None
    curves.write(found, tmp_path)
    assert curves.read(tmp_path) == found
