"""Storage elements over time and times of jobs: curves where there are values, gaps where there are none."""

from __future__ import annotations

from branchline.control.reports.readings import ElementHour, JobTime, ReadTotals
from branchline.control.reports.reads import JOBS_DRAWN_MAX
from branchline.control.web.pages.places import element_charts, job_time_charts, most_read


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


def test_times_of_jobs_are_shown_by_site_the_most_jobs_first() -> None:
    times = [JobTime("", 10.0, 10**9), JobTime("gsi", 20.0, 10**9), JobTime("gsi", 40.0, 4 * 10**9)]
    seconds, rates = job_time_charts(times)
    assert [(one.name, sum(one.y), one.note) for one in seconds.curves] == [
        ("gsi", 2, "median 30.0"),
        ("unknown site", 1, "median 10.0"),
    ]
    assert [one.note for one in rates.curves] == ["median 75.0", "median 100"]
    assert seconds.note == ""
    [many, _] = job_time_charts([JobTime(f"site{number}", 1.0 + number, 0) for number in range(JOBS_DRAWN_MAX)])
    assert many.note == "The last 10 000 jobs of the period. 9 of 10000 groups are drawn."
    assert "No jobs to show." in job_time_charts([])[0].figure()
