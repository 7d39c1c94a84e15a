"""Jobs of a farm with several kinds of processors: their times and differences are told for each kind."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.sampling.samples import StudySample
from branchline.lab.studies.job_comparison import differences, job_charts, network_charts, spreads
from branchline.lab.study import Factor, JobSettings, Level, Study

OLD, NEW = "Opteron 275", "Xeon L5420"
JOBS = 12
STUDY = Study(
    question="Is B slower?",
    job=JobSettings(client="command", command="x", jobs=JOBS),
    factors=(Factor("storage", (Level("A", {}), Level("B", {}))),),
    baseline={"storage": "A"},
)


def sample(arm: str, wall_s: dict[str, float], moved: int = 0, kinds: tuple[str, ...] = (OLD, NEW)) -> StudySample:
    """One with jobs of each kind in turn; the first ``moved`` ran on the other kind."""
    jobs = []
    for number in range(JOBS):
        kind = kinds[(number + (number < moved)) % len(kinds)]
        jobs.append(
            JobOutcome(
                number,
                100.0,
                wall_s[kind] + number / 100,
                wall_s[kind] / 2,
                host="n",
                processor=kind,
                file_bytes=20_000_000,
            )
        )
    return StudySample(0, 0, f"storage {arm}", "arm", "", 30.0, jobs)


def test_times_of_jobs_are_told_for_each_kind_of_processor() -> None:
    samples = [sample("A", {OLD: 20.0, NEW: 10.0}), sample("B", {OLD: 26.0, NEW: 11.0})]
    found = {(one.arm, one.processor): (one.jobs, one.wall) for one in spreads(samples)}
    assert found["storage A", "all"][0] == JOBS
    assert found["storage A", OLD] == (JOBS // 2, "20.0 s")
    assert found["storage B", NEW] == (JOBS // 2, "11.1 s")
    charts = {one.title: one for one in job_charts(STUDY, samples)}
    # Each kind of each arm has half of the jobs.
    assert [sum(curve.y) for curve in charts["Wall time of jobs"].curves] == [JOBS // 2] * 4
    assert [sum(curve.y) for curve in charts["Throughput of jobs"].curves] == [JOBS // 2] * 4
    assert charts["Throughput of jobs"].curves[0].note == "median 0.998"
    # All jobs read 20 MB each in both arms.
    over_time = charts["Throughput over time, in the last round"]
    assert over_time.y.label == "MB of files/s"
    assert sum(over_time.curves[0].y) * over_time.x.high / 120 == pytest.approx(20 * JOBS)
    pictures = {one.title: [curve.name for curve in one.curves] for one in job_charts(STUDY, samples)}
    kinds = [f"storage {arm}, {kind}" for arm in "AB" for kind in (OLD, NEW)]
    assert pictures["Wall time of jobs"] == kinds
    assert pictures["CPU time of jobs"] == kinds
    assert pictures["The same job: wall time more than in the baseline"] == kinds[2:]


def test_the_same_job_is_compared_where_it_ran_on_the_same_kind() -> None:
    samples = [sample("A", {OLD: 20.0, NEW: 10.0}), sample("B", {OLD: 26.0, NEW: 11.0}, moved=4)]
    found = {one.processor: (one.jobs, one.wall, one.cpu) for one in differences(STUDY, samples)}
    assert found == {OLD: (4, "+6.00 s", "+3.00 s"), NEW: (4, "+1.00 s", "+500 ms")}


def test_one_kind_of_processor_is_not_named() -> None:
    samples = [sample(arm, {OLD: 20.0}, kinds=(OLD,)) for arm in "AB"]
    assert [(one.arm, one.processor) for one in spreads(samples)] == [("storage A", ""), ("storage B", "")]
    first = job_charts(STUDY, samples)[0]
    assert [curve.name for curve in first.curves] == ["storage A", "storage B"]


def test_network_load_is_what_machines_received_during_the_samples_of_an_arm() -> None:
    taken = [
        replace(sample(arm, {OLD: 20.0}, kinds=(OLD,)), at=at)
        for arm, at in (("A", "2026-03-01T10:00:00+00:00"), ("B", "2026-03-01T10:00:30+00:00"))
    ]
    assert network_charts(taken) == []
    loaded = replace(taken[1], surroundings=Surroundings(network_bytes=500_000_000, loopback_bytes=100_000_000))
    [chart] = network_charts([taken[0], loaded])
    assert [one.name for one in chart.curves] == ["storage A", "storage B"]
    near, far = (np.interp([15, 45], one.x[1:], one.y).tolist() for one in chart.curves)
    assert (near, far) == ([0.0, 0.0], [0.0, pytest.approx(20.0)])
    for unknown in ("", "yesterday", "2026-03-01T10:00:30"):
        assert network_charts([replace(loaded, at=unknown)]) == []
