"""Pictures of numbers over time: round marks, lines where there are values, gaps where there are none."""

from __future__ import annotations

import pytest

from branchline.control.reports.readings import ElementHour, ReadTotals
from branchline.control.web.pages.places import element_pictures, most_read
from branchline.control.web.pictures import TimeSeries, line_picture


@pytest.mark.parametrize(
    ("end_s", "start", "marks"),
    [
        (60.0, "", ["0", "20.0 s", "40.0 s", "60.0 s"]),
        (5400.0, "", ["0", "20 min", "40 min", "60 min", "80 min"]),
        (5400.0, "2026-03-01T12:00:00+00:00", ["12:00", "12:20", "12:40", "13:00", "13:20"]),
        (
            86_400.0,
            "2026-03-01T00:00:00+00:00",
            ["03-01 00:00", "03-01 06:00", "03-01 12:00", "03-01 18:00", "03-02 00:00"],
        ),
        (604_800.0, "2026-03-01T00:00:00+00:00", ["03-01", "03-03", "03-05", "03-07"]),
    ],
)
def test_marks_of_time_are_round(end_s: float, start: str, marks: list[str]) -> None:
    picture = line_picture("x", [TimeSeries("", [[(0.0, 1.0), (end_s, 2.0)]])], start)
    assert [one.text for one in picture.x_ticks] == marks


@pytest.mark.parametrize(
    ("value", "marks"),
    [
        (0.0, ["0", "0.25", "0.5", "0.75", "1"]),
        (3.1, ["0", "1", "2", "3", "4"]),
        (700.0, ["0", "200", "400", "600", "800"]),
        (1_900_000.0, ["0", "500 k", "1 M", "1.5 M", "2 M"]),
        (6e9, ["0", "2 G", "4 G", "6 G", "8 G"]),
    ],
)
def test_marks_of_values_begin_at_0_and_are_round(value: float, marks: list[str]) -> None:
    picture = line_picture("x", [TimeSeries("", [[(0.0, value), (1.0, value)]])])
    assert [one.text for one in picture.y_ticks] == marks


def test_a_line_has_gaps_and_one_without_points_is_not_drawn() -> None:
    parts = [[(0.0, 0.0), (1.0, 4.0)], [(3.0, 2.0), (4.0, 2.0)]]
    picture = line_picture("x", [TimeSeries("a", parts), TimeSeries("b", [[]])])
    [drawn] = picture.lines
    assert drawn.path == "M0.0 220.0L250.0 0.0M750.0 110.0L1000.0 110.0"
    assert line_picture("x", []).lines == []


def hour(element: str, number: int, bytes_read: int, wall_s: float = 10.0) -> ElementHour:
    return ElementHour(element, f"2026-03-01T{number:02}:00:00+00:00", ReadTotals(1, 1, bytes_read, wall_s=wall_s))


def test_an_hour_without_reads_has_no_speed_and_an_amount_of_0() -> None:
    hours = [hour("near", 0, 4 * 10**9), hour("far", 1, 10**9), hour("near", 2, 2 * 10**9)]
    assert list(most_read(hours)) == ["near", "far"]
    speeds, amounts = element_pictures(hours)
    assert [one.name for one in speeds.lines] == ["near", "far"]
    assert speeds.lines[0].path.count("M") == 2
    assert amounts.lines[0].path.count("M") == 1
    assert amounts.title == "GB read an hour"
    assert amounts.lines[0].path == "M0.0 0.0L333.3 0.0L333.3 220.0L666.7 220.0L666.7 110.0L1000.0 110.0"


def test_small_amounts_have_a_smaller_unit_and_no_hours_no_picture() -> None:
    assert element_pictures([hour("near", 0, 5_000_000)])[1].title == "MB read an hour"
    assert element_pictures([hour("near", 0, 0, 0.0)])[0].lines == []
    assert element_pictures([]) == []


def test_long_times_have_few_steps() -> None:
    months = [
        ElementHour("near", f"2026-{month:02}-01T00:00:00+00:00", ReadTotals(1, 1, 10**9, wall_s=1.0))
        for month in range(1, 13)
    ]
    [line] = element_pictures(months)[1].lines
    assert line.path.count("L") <= 2 * 170
    # A GB is spread over the hours of its step.
    assert element_pictures(months)[1].title == "MB read an hour"
