"""Charts: round ticks with units, numbers of curves, sentences instead of empty frames, bounded sizes, plain names."""

from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
import pytest

from branchline.records.charts.axes import log_axis, nice_ticks, number_axis, time_axis, value_axis
from branchline.records.charts.chart import CellTable, Chart, ColouredCell, Curve, Points
from branchline.records.charts.distributions import histogram_chart, sorted_chart
from branchline.records.charts.efficiency import EfficiencySum, efficiency_chart, train_gain
from branchline.records.charts.job_charts import machine_charts, profile_chart, throughput_charts
from branchline.records.charts.offsets import offset_charts
from branchline.records.charts.site_charts import ELEMENTS_MAX, SITES_MAX, SiteElementReads, site_chart
from branchline.records.sensors.record import ActivitySpan, TimePoint

#: A name that would run a script, if it could, and reorder what follows it.
HOSTILE = "<script>alert(1)</script>\"'\u202e&"

#: Numbers that a record from elsewhere may have.
SENSELESS = (-1.0, 0.0, 1e-320, 1e-12, 9e18, -9e18)


def texts(figure: str) -> list[str]:
    """The texts of a figure, which is well-formed XML."""
    return [one.text for one in ElementTree.fromstring(figure).iter() if one.text]


def test_ticks_are_round_and_reach_the_highest_value() -> None:
    assert nice_ticks(9300) == [0, 2500, 5000, 7500, 10_000]
    assert nice_ticks(0.37) == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])
    assert nice_ticks(0) == [0, 1]
    for highest in (1, 7, 12.4, 1e-6, 99_999, 3.3e12):
        ticks = nice_ticks(highest)
        assert ticks[-1] >= highest * 0.998
        assert 3 <= len(ticks) <= 6


@pytest.mark.parametrize(
    ("highest", "lowest", "labels"),
    [
        (0.0, 0.0, ["0", "1"]),
        (3.1, 0.0, ["0", "1", "2", "3", "4"]),
        (1_900_000.0, 0.0, ["0", "500 k", "1 M", "1.5 M", "2 M"]),
        (6e9, 0.0, ["0", "2 G", "4 G", "6 G"]),
        (3.0, -5.0, ["-6", "-4", "-2", "0", "2", "4"]),
    ],
)
def test_number_axes_have_round_labels(highest: float, lowest: float, labels: list[str]) -> None:
    assert [one.text for one in number_axis("x", highest, lowest).ticks] == labels


@pytest.mark.parametrize(
    ("end_s", "start", "labels"),
    [
        (60.0, "", ["0", "20 s", "40 s", "60 s"]),
        (0.004, "", ["0", "1 ms", "2 ms", "3 ms", "4 ms"]),
        (5400.0, "", ["0", "20 min", "40 min", "60 min", "80 min"]),
        (5400.0, "2026-03-01T12:00:00+00:00", ["12:00", "12:20", "12:40", "13:00", "13:20"]),
        (
            86_400.0,
            "2026-03-01T00:00:00+00:00",
            ["03-01 00:00", "03-01 06:00", "03-01 12:00", "03-01 18:00", "03-02 00:00"],
        ),
        (604_800.0, "2026-03-01T00:00:00+00:00", ["03-01", "03-03", "03-05", "03-07"]),
        (200 * 86_400.0, "2026-01-01T00:00:00+00:00", ["2026-01", "2026-03", "2026-05", "2026-07"]),
        (700 * 86_400.0, "2025-12-15T07:30:00+00:00", ["2026-05", "2026-10", "2027-03", "2027-08"]),
    ],
)
def test_time_axes_have_round_labels(end_s: float, start: str, labels: list[str]) -> None:
    assert [one.text for one in time_axis("t", 0.0, end_s, start).ticks] == labels


def test_values_over_many_powers_of_ten_have_a_logarithmic_axis() -> None:
    assert [one.text for one in log_axis("x", 0.02, 300.0).ticks] == ["0.01", "0.1", "1", "10", "100", "1000"]
    assert len(log_axis("x", 1e-9, 1e15).ticks) <= 7
    axis = value_axis("x", [0.0, 1.0, 900.0], decades=2)
    assert axis.is_log
    assert [axis.at(one) for one in (0.0, 1.0, 1000.0)] == pytest.approx([0.0, 0.0, 1.0])
    assert not value_axis("x", [0.0, 1.0, 90.0], decades=2).is_log


def test_throughput_is_the_growth_between_points() -> None:
    points = [TimePoint(10.0, 1000, 20_000_000, 50_000_000), TimePoint(20.0, 1000, 60_000_000, 50_000_000)]
    events, data = throughput_charts(points, 20.0)
    assert (events.y.label, data.y.label) == ("events/s", "MB/s")
    assert events.curves[0].note == "mean 50.0"
    assert np.interp([5, 15], events.curves[0].x[1:], events.curves[0].y).tolist() == [100.0, 0.0]
    plain, read = data.curves
    assert np.interp([4, 16], read.x[1:], read.y).tolist() == [2.0, 4.0]
    assert sum(plain.y) / len(plain.y) == pytest.approx(2.5)


def test_a_chart_without_data_is_a_sentence() -> None:
    for chart in (*throughput_charts([TimePoint(1.0)], 1.0), profile_chart([], 0.0)):
        figure = chart.figure()
        assert "<svg" not in figure
        assert texts(figure)[0] == chart.title
        assert chart.empty in "".join(ElementTree.fromstring(figure).itertext())
    assert "Nothing." in CellTable("t", [], [], empty="Nothing.").figure()


def test_thousands_of_spans_make_a_small_chart() -> None:
    spans = [ActivitySpan("n", 0, index * 0.1, index * 0.1 + 30.0) for index in range(20_000)]
    chart = profile_chart(spans, 2030.0)
    assert len(chart.curves[0].y) == 120
    assert len(chart.figure()) < 10_000
    assert sum(chart.curves[0].y) * 2030.0 / 120 == pytest.approx(20_000 * 30.0)


def test_points_are_rounded_to_a_grid() -> None:
    x = np.random.default_rng(5).random(200_000)
    points = Points("reads", "#123456", x.tolist(), x.tolist(), (x + 1e-6).tolist())
    chart = Chart("Offsets", time_axis("t", 0.0, 1.0), number_axis("MB", 1.0), points=[points])
    figure = chart.figure()
    assert len(figure) < 20_000
    path = figure.partition('stroke="#123456"')[0].rpartition(' d="')[2]
    assert path.count("M") == 399


def test_many_values_are_joined_into_few_steps_of_the_same_area() -> None:
    chart = sorted_chart("Files", "s", [index % 100 for index in range(100_000)], "#000000")
    [curve] = chart.curves
    assert len(curve.y) == 200
    assert curve.y == sorted(curve.y, reverse=True)
    assert sum(curve.y) / 200 == pytest.approx(49.5)


def test_names_are_only_texts_and_simulated_data_is_labelled_in_the_drawing() -> None:
    axes = time_axis("t", 0.0, 1.0), number_axis("MB/s", 1.0)
    curves = [Curve(HOSTILE, "#000000", [0, 1], [1.0]), Curve("b" * 500, "#000000", [0, 1], [None])]
    charts = [
        Chart(HOSTILE, *axes, curves, note=HOSTILE, is_simulated=True),
        CellTable(HOSTILE, [HOSTILE], ["se"], [ColouredCell(HOSTILE, "se", 1.0, [HOSTILE])], is_simulated=True),
    ]
    for chart in charts:
        figure = chart.figure()
        assert "<script" not in figure
        assert "simulated" in "".join(ElementTree.fromstring(figure).find(".//svg[@role='img']").itertext())
    assert "\u202e" not in charts[0].figure()
    assert "b" * 60 not in charts[0].figure()


def test_cells_are_stronger_the_higher_their_values_by_powers_of_ten() -> None:
    cells = [
        ColouredCell("a", "x", 0.1, ["0.1"]),
        ColouredCell("a", "y", 1.0, ["1"]),
        ColouredCell("b", "y", 10.0, ["10", "2 files"]),
    ]
    figure = CellTable("Speed", ["a", "b"], ["x", "y"], cells).figure()
    boxes = list(ElementTree.fromstring(figure).iter("rect"))
    strength = [float(one.get("fill-opacity")) for one in boxes]
    assert strength[1] - strength[0] == pytest.approx(strength[2] - strength[1], abs=0.011)
    assert [(one.get("x"), one.get("y")) for one in boxes] == [("151", "31"), ("281", "31"), ("281", "65")]
    assert {"a", "b", "x", "y", "0.1", "1", "10", "2 files"} <= set(texts(figure))


def test_seeks_are_reads_that_do_not_continue_the_previous_one_of_their_file() -> None:
    files = [
        (np.array([0.0, 1.0, 2.0, 12.0]), np.array([0, 10, 90, 20]) * 10**6, np.full(4, 10 * 10**6)),
        (np.array([0.5, 1.5]), np.array([50, 60]) * 10**6, np.full(2, 10 * 10**6)),
    ]
    offsets, seeks = offset_charts("arm", files)
    assert (offsets.y.label, seeks.y.label) == ("MB", "seeks/s")
    [points] = offsets.points
    assert points.x == [0.0, 1.0, 2.0, 12.0, 0.5, 1.5]
    # The second file lies above the end of the first.
    assert points.low == [0, 10, 90, 20, 150, 160]
    assert points.high == [10, 20, 100, 30, 160, 170]
    assert offsets.borders == [100, 170]
    [curve] = seeks.curves
    assert curve.note == "2 seeks, 1 backwards"
    assert [index for index, rate in enumerate(curve.y) if rate] == [20, 119]
    assert sum(curve.y) * 0.1 == pytest.approx(2)
    [empty] = offset_charts("arm", [])
    assert "No reads were recorded." in empty.figure()


def test_sites_and_elements_are_sorted_by_bytes_and_limited() -> None:
    reads = [
        SiteElementReads("near", "se1", 3, 60 * 10**6, 2.0),
        SiteElementReads("near", "se1", 1, 20 * 10**6, 2.0),
        SiteElementReads("", "se2", 2, 4 * 10**6, 2.0),
        SiteElementReads("far", "se1", 0, 0, 0.0),
    ]
    table = site_chart(reads, {"near": 0.75, "": 0.1, "elsewhere": 0.5})
    assert (table.rows, table.columns) == (["near", "unknown site", "far"], ["se1", "se2"])
    cells = {(one.row, one.column): (one.value, one.text) for one in table.cells}
    assert cells == {
        ("near", "se1"): (20e6, ["20.0 MB/s", "4 files"]),
        ("unknown site", "se2"): (2e6, ["2.00 MB/s", "2 files"]),
    }
    assert table.row_notes == {"near": "75 % efficiency", "unknown site": "10 % efficiency"}
    many = [SiteElementReads(f"s{number}", f"e{number}", 1, 10**9 - number, 1.0) for number in range(1000)]
    table = site_chart(many, {})
    assert (len(table.rows), len(table.columns), len(table.cells)) == (SITES_MAX, ELEMENTS_MAX, ELEMENTS_MAX)
    assert table.note.endswith("Not shown: 960 more sites and 988 more storage elements.")
    assert "No reads" in site_chart([], {}).figure()


def test_the_gain_of_trains_is_that_the_same_bytes_are_read_once() -> None:
    sums = [
        EfficiencySum("2026-01-01", True, False, 10, 10, 20.0, 50.0),
        EfficiencySum("2026-01-01", True, True, 2, 8, 60.0, 100.0),
        EfficiencySum("2026-03-01", True, False, 5, 5, 0.5, 50.0),
    ]
    gain = train_gain(sums)
    assert gain is not None
    # Of 79.5 s without CPU, half is spent once by 4 jobs: 29.8 s less of 200 s.
    assert (gain.wagons, gain.before) == (4.0, pytest.approx(80.5 / 200))
    assert gain.after == pytest.approx(80.5 / (200 - 79.5 / 2 * 3 / 4))
    chart = efficiency_chart(sums)
    users, trains = chart.curves
    assert users.y == [0.4, None, 0.01]
    assert [round(one / 86_400) for one in users.x] == [0, 31, 59, 90]
    assert (trains.y, users.note, trains.note) == ([0.6], "15 jobs, mean 20 %", "2 jobs, mean 60 %")
    assert "trains of 4.0 wagons" in chart.note
    assert "would be 47 % instead of 40 %" in chart.note
    assert "This assumes that" in chart.note


def test_no_gain_is_said_without_trains_or_without_user_jobs() -> None:
    user = EfficiencySum("2026-01-01", False, False, 10, 10, 20.0, 50.0)
    train = EfficiencySum("2026-01-02", False, True, 2, 8, 60.0, 100.0)
    for sums in ([user], [train]):
        assert train_gain(sums) is None
        assert "is not estimated" in efficiency_chart(sums).note
    assert "would be" in efficiency_chart([user, train]).note
    assert "No job with CPU time" in efficiency_chart([]).figure()


def test_histograms_count_every_value_and_are_logarithmic_over_many_decades() -> None:
    draw = np.random.default_rng(3)
    chart = histogram_chart("Times", "s", {"a": draw.normal(50, 5, 1000).tolist(), "b": [40.0, 60.0, 60.0]})
    assert [sum(one.y) for one in chart.curves] == [1000, 3]
    assert chart.curves[1].note == "median 60.0"
    assert not chart.x.is_log
    assert all(chart.x.low <= one.value <= chart.x.high for one in chart.x.ticks)
    wide = histogram_chart("Times", "s", {"a": [0.2, 3.0, 900.0]})
    assert wide.x.is_log
    assert [one.text for one in wide.x.ticks] == ["0.1", "1", "10", "100", "1000"]
    assert sum(wide.curves[0].y) == 3
    assert not histogram_chart("Differences", "s", {"a": [-5.0, 900.0]}).x.is_log
    for same in (0.0, 7.0, -7.0):
        equal = histogram_chart("Times", "s", {"a": [same] * 4})
        assert sum(equal.curves[0].y) == 4
        assert equal.x.low < same < equal.x.high
    many = histogram_chart("Times", "s", {str(number): [float(number)] for number in range(20)})
    assert (len(many.curves), many.note) == (9, "9 of 20 groups are drawn.")
    assert "No jobs to show." in histogram_chart("Times", "s", {"a": []}).figure()


def test_the_machine_is_charted_by_core_seconds_and_bytes_received() -> None:
    points = [
        TimePoint(10.0, machine_cpu_s=20.0, machine_iowait_s=4.0, machine_received_bytes=50_000_000),
        TimePoint(20.0, machine_cpu_s=50.0, machine_iowait_s=4.0, machine_received_bytes=350_000_000),
    ]
    busy, iowait, network = machine_charts(points, 20.0, f"node{HOSTILE}", 4)
    assert [one.y.label for one in (busy, iowait, network)] == ["cores", "% of the cores", "MB/s"]
    assert np.interp([5, 15], busy.curves[0].x[1:], busy.curves[0].y).tolist() == [2.0, 3.0]
    # 0.4 of 4 cores were idle for a disk.
    assert np.interp([5, 15], iowait.curves[0].x[1:], iowait.curves[0].y).tolist() == pytest.approx([10.0, 0.0])
    assert np.interp([5, 15], network.curves[0].x[1:], network.curves[0].y).tolist() == [5.0, 30.0]
    assert network.curves[0].note == "mean 17.5"
    assert "<script" not in busy.figure()
    [unknown] = machine_charts([TimePoint(1.0), TimePoint(2.0)], 2.0, "node", 4)
    assert "its workers ran on other machines" in unknown.figure()


@pytest.mark.parametrize("first", SENSELESS)
@pytest.mark.parametrize("second", SENSELESS)
def test_numbers_that_make_no_sense_are_drawn_or_left_out(first: float, second: float) -> None:
    """A control room accepts any finite number below 2**63."""
    points = [TimePoint(1.0, 1, 1, 1, 1.0, 1.0, 1), TimePoint(first, 10**18, -5, 0, second, first, 10**18)]
    activity = [ActivitySpan("n", 0, first, second), ActivitySpan("n", -3, second, first)]
    reads = [SiteElementReads("a", "b", -1, 10**18, first), SiteElementReads("a", "c", 1, -5, second)]
    sums = [EfficiencySum("2026-01-01", True, is_train, 1, 0, first, second) for is_train in (False, True)]
    for chart in (
        *throughput_charts(points, second),
        *machine_charts(points, second, "n", 0),
        profile_chart(activity, second),
        site_chart(reads, {"a": first}),
        histogram_chart("Times", "s", {"a": [first, second], "b": [float("nan")]}),
        efficiency_chart(sums),
    ):
        figure = chart.figure()
        assert ElementTree.fromstring(figure).tag == "figure"
        assert "nan" not in figure
        assert len(figure) < 20_000
