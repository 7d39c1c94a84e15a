"""Jobs of a farm with several kinds of processors: their times and differences are told for each kind."""

from __future__ import annotations

from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.samples import StudySample
from branchline.lab.studies.job_comparison import differences, job_pictures, spreads
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
        jobs.append(JobOutcome(number, 100.0, wall_s[kind] + number / 100, wall_s[kind] / 2, host="n", processor=kind))
    return StudySample(0, 0, f"storage {arm}", "arm", "", 30.0, jobs)


def test_times_of_jobs_are_told_for_each_kind_of_processor() -> None:
    samples = [sample("A", {OLD: 20.0, NEW: 10.0}), sample("B", {OLD: 26.0, NEW: 11.0})]
    found = {(one.arm, one.processor): (one.jobs, one.wall) for one in spreads(samples)}
    assert found["storage A", "all"][0] == JOBS
    assert found["storage A", OLD] == (JOBS // 2, "20.0 s")
    assert found["storage B", NEW] == (JOBS // 2, "11.1 s")
    pictures = {one.title: [name for name, _, _ in one.keys] for one in job_pictures(STUDY, samples)}
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
    first = job_pictures(STUDY, samples)[0]
    assert [name for name, _, _ in first.keys] == ["storage A", "storage B"]
