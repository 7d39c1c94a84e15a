"""What the report says of who worked when, and of sub-jobs that failed in the same way."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from branchline.records.charts.job_charts import profile_chart
from branchline.records.report.activity import merging_sentence, node_rows
from branchline.records.report.report_page import page_html
from branchline.records.sensors.record import (
    PARTIAL,
    ActivitySpan,
    FailureGroup,
    JobRecord,
    LostWorker,
    MergeStage,
    RestartedTask,
)
from branchline.trains.running.missing import stack_of


@pytest.fixture
def job() -> JobRecord:
    """Two machines process for 60 s and 40 s; one merges twice, and the job ends with the last merge."""
    activity = [
        ActivitySpan("n1", 0, 0.0, 60.0),
        ActivitySpan("n2", 0, 20.0, 60.0),
        ActivitySpan("n2", 1, 60.0, 70.0),
        ActivitySpan("n2", 1, 60.0, 70.0),
        ActivitySpan("n1", 2, 75.0, 100.0, is_last=True),
    ]
    lost = [LostWorker(1, host="n1", how="ended by SIGKILL", is_dead=True)]
    return JobRecord(status=PARTIAL, wall_s=100.0, activity=activity, workers_lost=lost, subjobs=9)


def test_the_profile_counts_who_is_at_work(job: JobRecord) -> None:
    chart = profile_chart(job.activity, job.wall_s)
    assert [one.name for one in chart.curves] == ["processing", "merging, stage 1", "last merge"]
    # Means over the job: 100 and 20 and 25 seconds of 100.
    assert [one.note for one in chart.curves] == ["mean 1.00", "mean 0.200", "mean 0.250"]
    # One process up to 20 s, two up to 60 s, none behind: the axis ends at 2.
    assert chart.y.ticks[-1].text == "2"
    processing, merging, last = (np.interp([10, 40, 80], one.x[1:], one.y) for one in chart.curves)
    assert (processing.tolist(), merging.tolist(), last.tolist()) == ([1, 2, 0], [0, 0, 0], [0, 0, 1])


def test_machines_and_the_cost_of_merging_are_named(job: JobRecord) -> None:
    assert [(one.name, one.processes, one.merges, one.lost) for one in node_rows(job)] == [
        ("n1", "1", "1", "1"),
        ("n2", "1", "2", "0"),
    ]
    assert "45.0 s of merging" in merging_sentence(job)
    job.merge_stages = [MergeStage(1, 9, 1, 2.5)]
    assert "stage 1: 9 results into 1 in 2.50 s" in merging_sentence(job)
    assert node_rows(JobRecord(activity=[ActivitySpan("n1", 0, 0.0, 1.0)])) == []
    assert not profile_chart([], 0.0).curves


def test_the_page_groups_failures_and_says_what_started_again(job: JobRecord, tmp_path: Path) -> None:
    trace = 'Traceback (most recent call last):\n  File "wagons.py", line 3, in process\nValueError: <no>'
    files = [f"f{index}.root" for index in range(5)]
    job.failures = [FailureGroup("ValueError: no", [3, 4, 5, 6, 7], files, trace, "out/batch/logs/0.0.3.log")]
    job.restarted = [RestartedTask("0.0.1", ["n1", "n2"])]
    html = page_html(job, tmp_path)
    assert "5 sub-jobs: ValueError: no (f0.root, f1.root, f2.root and 2 more)." in html
    assert "ValueError: &lt;no&gt;" in html
    assert "branchline rerun OUT 3" in html
    assert "Task 0.0.1 started 2 times, on n1, n2" in html
    assert "The job over time" in html


def test_a_curve_of_many_steps_is_drawn_to_its_end(tmp_path: Path) -> None:
    spans = [ActivitySpan("n1", 0, float(index), 100.0 + index % 7) for index in range(100)]
    job = JobRecord(status=PARTIAL, wall_s=110.0, activity=spans)
    chart = profile_chart(job.activity, job.wall_s)
    path = chart.path(chart.curves[0])
    assert len(path) > 1000
    assert path in page_html(job, tmp_path)


def test_tracebacks_of_the_same_place_are_one_group() -> None:
    first = 'Traceback:\n  File "a.py", line 3, in process\n    raise ValueError(name)\nValueError: f1'
    assert stack_of(first) == (("a.py", "3", "process"),)
    assert stack_of(first.replace("f1", "f2")) == stack_of(first)
    assert stack_of(first.replace("line 3", "line 4")) != stack_of(first)
