"""Simulated jobs give the same series as measured ones, are drawn by the same code, and are labelled."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from branchline.errors import OptionError
from branchline.lab.simulation.job_plan import Block, BlockPlan
from branchline.lab.simulation.platform import Link, Nodes, Platform, Storage
from branchline.lab.simulation.simulated_jobs import JobsAtOnce, JobsRequest, jobs_at_once
from branchline.lab.studies.simulated_page import simulated_charts, write_simulated
from branchline.records.charts.chart import CellTable, Chart

MB = 1_000_000
FAST, SLOW = "fast <node>", "slow"


@pytest.fixture
def found() -> JobsAtOnce:
    """Ten jobs of 100 MB, which share a link of 50 MB/s, on nodes of two types."""
    platform = Platform(
        (Storage("near", links=("wan",)),),
        (Nodes(FAST, 2, 4, 1e9), Nodes(SLOW, 1, 4, 1e9, speed=0.5)),
        links=(Link("wan", 50e6, 0.01),),
    )
    plan = BlockPlan(tuple(Block("near", 10 * MB, 0.1) for _ in range(10)))
    return jobs_at_once(JobsRequest(platform, (plan,)), [1, 10])


def test_the_jobs_of_the_largest_number_are_kept(found: JobsAtOnce) -> None:
    assert len(found.jobs) == 10
    assert sorted({one.nodes for one in found.jobs}) == [FAST, SLOW]
    assert sum(one.nodes == SLOW for one in found.jobs) in (3, 4)
    assert {one.storage for one in found.jobs} == {"near"}
    assert sum(one.read_bytes for one in found.jobs) == pytest.approx(1000 * MB)
    assert max(one.end_s for one in found.jobs) == pytest.approx(found.points[-1].makespan_s)
    # The JSON of a simulation has sums only.
    assert "jobs" not in found.to_plain()


def test_all_figures_have_the_label_inside_the_drawing(found: JobsAtOnce) -> None:
    charts = simulated_charts(found.jobs)
    titles = [one.title for one in charts]
    assert titles == [
        "Wall time of jobs",
        "CPU time of jobs",
        "Throughput of jobs",
        "Throughput over time",
        "At work",
        "Network load",
        "Read speed by site and storage element",
    ]
    for one in charts:
        drawing = ElementTree.fromstring(one.figure()).find(".//svg[@role='img']")
        assert drawing is not None
        assert "simulated" in "".join(drawing.itertext())
    wall, _, _, over_time, at_work, network, sites = charts
    assert isinstance(wall, Chart)
    # Jobs on each type of nodes are a group.
    assert {one.name for one in wall.curves} == {FAST, SLOW}
    assert sorted(sum(one.y) for one in wall.curves) in ([3, 7], [4, 6])
    for chart in (over_time, network):
        assert isinstance(chart, Chart)
        seconds = chart.x.high / 120
        assert sum(chart.curves[0].y) * seconds == pytest.approx(1000, rel=0.01)
        assert max(chart.curves[0].y) == pytest.approx(50, rel=0.1)
    assert isinstance(at_work, Chart)
    assert max(at_work.curves[0].y) == pytest.approx(10)
    assert isinstance(sites, CellTable)
    assert sorted(sites.rows) == [FAST, SLOW]
    assert {one.text[1] for one in sites.cells} in ({"3 jobs", "7 jobs"}, {"4 jobs", "6 jobs"})


def test_the_page_says_that_nothing_was_measured(found: JobsAtOnce, tmp_path: Path) -> None:
    write_simulated(found, tmp_path / "jobs.html")
    page = (tmp_path / "jobs.html").read_text(encoding="utf-8")
    assert "Nothing on this page was measured." in page
    assert "fast &lt;node&gt;" in page
    assert "<node>" not in page
    with pytest.raises(OptionError, match="cannot be drawn"):
        write_simulated(replace(found, jobs=()), tmp_path / "none.html")
