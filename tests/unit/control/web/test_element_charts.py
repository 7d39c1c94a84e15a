"""Storage elements over time: curves where there are values, gaps where there are none."""

from __future__ import annotations

from branchline.control.reports.readings import ElementHour, ReadTotals
from branchline.control.web.pages.places import element_charts, most_read


def hour(element: str, number: int, bytes_read: int, wall_s: float = 10.0) -> ElementHour:
    return ElementHour(element, f"2026-03-01T{12 + number:02}:00:00+00:00", ReadTotals(1, 1, bytes_read, wall_s=wall_s))


def test_an_hour_without_reads_has_no_speed_and_an_amount_of_0() -> None:
    hours = [hour("near", 0, 4 * 10**9), hour("far", 1, 10**9), hour("near", 2, 2 * 10**9)]
    assert list(most_read(hours)) == ["near", "far"]
    speeds, amounts = element_charts(hours)
    assert [one.name for one in speeds.curves] == ["near", "far"]
    near, far = speeds.curves
    assert near.y == [400.0, None, 200.0]
    assert (far.x, far.y) == ([3600.0, 7200.0], [100.0])
    assert amounts.y.label == "GB/h"
    assert amounts.curves[0].y == [4.0, 0.0, 2.0]
    assert amounts.path(amounts.curves[0]) == "M0.0 0.0H333.3V1000.0H666.7V500.0H1000.0"
    assert [one.text for one in amounts.x.ticks] == ["12:00", "13:00", "14:00", "15:00"]


def test_small_amounts_have_a_smaller_unit_and_no_hours_no_picture() -> None:
    assert element_charts([hour("near", 0, 5_000_000)])[1].y.label == "MB/h"
    speeds = element_charts([hour("near", 0, 0, 0.0)])[0]
    assert not speeds.curves
    assert "Nothing was read in this period." in speeds.figure()
    assert element_charts([]) == []


def test_long_times_have_few_steps() -> None:
    months = [
        ElementHour("near", f"2026-{month:02}-01T00:00:00+00:00", ReadTotals(1, 1, 10**9, wall_s=1.0))
        for month in range(1, 13)
    ]
    [curve] = element_charts(months)[1].curves
    assert len(curve.y) <= 170
    # A GB is spread over the hours of its step.
    assert element_charts(months)[1].y.label == "MB/h"
