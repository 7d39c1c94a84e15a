"""What a study may conclude: nothing about storages where processors limit, no wall times from a busy machine."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import OTHERS_TELLING, STOLEN_TELLING, Surroundings, was_busy
from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.sampling.samples import SampleKind, StudySample
from branchline.lab.studies.study_file import load_study
from branchline.lab.studies.study_result import StudyResult, efficiency_of, result_of
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.studies.verdict import answer, sentences
from branchline.lab.study import Factor, JobSettings, Level, Study

QUIET = Surroundings(cores=2)
BUSY = replace(QUIET, others_share=0.4)
STORAGES = Study(
    "Which disk?",
    JobSettings(),
    (Factor("disk", (Level("near", {"where": ["/near"]}), Level("far", {"where": ["/far"]}))),),
    baseline={"disk": "near"},
)
CLIENTS = replace(
    STORAGES,
    factors=(Factor("disk", (Level("near", {"client": "uproot"}), Level("far", {"client": "branchline"}))),),
)
ROUNDS = 8


def taken(round_: int, arm: str, wall_s: float, cpu_s: float, around: Surroundings, kind: SampleKind) -> StudySample:
    job = JobOutcome(0, wall_s=wall_s, cpu_s=cpu_s, bytes_read=1000)
    return StudySample(round_, 0, arm, kind, "", wall_s, [job], 1000, surroundings=around)


def found_in(
    study: Study,
    near: tuple[float, float],
    far: tuple[float, float],
    around: Surroundings = QUIET,
    limit_s: float = 0.0,
) -> StudyResult:
    """The result of a study whose arms take these wall and CPU times, and whose storage delivers in ``limit_s``."""
    samples = []
    for number in range(ROUNDS):
        for arm, (wall_s, cpu_s) in (("disk near", near), ("disk far", far)):
            # Samples differ a little, as they do.
            wobble = 1 + 0.001 * number
            samples.append(taken(number, arm, wall_s * wobble, cpu_s * wobble, around, "arm"))
            if limit_s:
                samples.append(taken(number, arm, limit_s, 0.0, around, "limit"))
    return result_of(study, 1, samples)


def test_storages_are_not_compared_where_the_processors_limit_both_arms() -> None:
    found = found_in(STORAGES, (2.0, 1.9), (3.0, 2.9))
    assert [one.bound for one in found.arms] == ["CPU", "CPU"]
    assert answer(found).startswith("no answer about the storages: the processors")
    assert any("limited by the processors" in one and "CPU efficiency 95 % and 97 %" in one for one in sentences(found))


@pytest.mark.parametrize(("jobs", "place", "efficiency"), [(1, "", 0.2), (2, "", 0.2), (8, "", 0.8), (8, "farm", 0.2)])
def test_efficiency_is_relative_to_the_processors_that_the_jobs_can_use(
    jobs: int, place: str, efficiency: float
) -> None:
    taken_by = [JobOutcome(number, wall_s=2.0, cpu_s=0.4) for number in range(jobs)]
    sample = StudySample(0, 0, "disk near", "arm", "", 2.0, taken_by, 1000, surroundings=QUIET, place=place)
    assert efficiency_of(sample) == pytest.approx(efficiency)


def test_clients_are_compared_where_the_processors_limit_them() -> None:
    found = found_in(CLIENTS, (2.0, 1.9), (1.0, 0.9))
    assert [one.bound for one in found.arms] == ["CPU", "CPU"]
    assert "disk far: 2 times as fast" in answer(found)


def test_storages_are_compared_where_one_of_them_limits() -> None:
    found = found_in(STORAGES, (2.0, 0.5), (1.0, 0.5))
    assert [one.bound for one in found.arms] == ["neither", "neither"]
    assert "disk far: 2 times as fast" in answer(found)
    found = found_in(STORAGES, (2.0, 1.9), (3.0, 1.9))
    assert [one.bound for one in found.arms] == ["CPU", "neither"]
    assert "disk far: 1.5 times the time" in answer(found)


def test_an_arm_whose_baseline_is_skipped_is_measured_and_not_compared() -> None:
    jobs = Factor("jobs", (Level("1", {"jobs": 1}), Level("8", {"jobs": 8})))
    study = replace(STORAGES, factors=(*STORAGES.factors, jobs), skipped=({"disk": "near", "jobs": "8"},))
    arms = {"disk near, jobs 1": 2.0, "disk far, jobs 1": 1.0, "disk far, jobs 8": 4.0}
    samples = [
        taken(number, arm, wall_s * (1 + 0.001 * number), 0.1, QUIET, "arm")
        for number in range(ROUNDS)
        for arm, wall_s in arms.items()
    ]
    found = result_of(study, 1, samples)
    alone = next(one for one in found.arms if one.name == "disk far, jobs 8")
    assert (alone.time, alone.samples) == (None, ROUNDS)
    assert found.is_precise
    assert "disk far, jobs 1: 2 times as fast" in answer(found)


def test_an_arm_as_fast_as_its_storage_or_with_a_busy_disk_is_limited_by_it() -> None:
    found = found_in(STORAGES, (2.0, 1.9), (2.0, 1.9), limit_s=1.9)
    assert [one.bound for one in found.arms] == ["storage", "storage"]
    found = found_in(STORAGES, (2.0, 0.5), (2.0, 0.5), replace(QUIET, device_busy_share=0.95))
    assert [one.bound for one in found.arms] == ["storage", "storage"]


def test_threads_on_all_processors_are_a_limit() -> None:
    found = found_in(STORAGES, (2.0, 3.8), (2.0, 1.2))
    assert [one.bound for one in found.arms] == ["CPU", "neither"]


def test_on_a_busy_machine_cpu_times_are_compared_and_it_is_said() -> None:
    found = found_in(STORAGES, (2.0, 0.5), (1.0, 1.0), BUSY)
    assert "the slowest relative to it is disk far: it takes 2.000 times" in answer(found)
    assert "the CPU time of disk near" in answer(found)
    assert "times as fast" not in " ".join(sentences(found))
    assert any(one.startswith("disk far: the machine was busy") for one in sentences(found))
    found = found_in(STORAGES, (2.0, 0.01), (1.0, 0.01), BUSY)
    assert answer(found).startswith("no answer: the machine was busy")


@pytest.mark.parametrize(
    "disturbed",
    [replace(QUIET, others_share=2 * OTHERS_TELLING), replace(QUIET, stolen_share=2 * STOLEN_TELLING)],
    ids=["others", "host"],
)
def test_a_few_disturbed_samples_do_not_make_a_machine_busy(disturbed: Surroundings) -> None:
    assert not was_busy([(1.0, disturbed)] * 2 + [(1.0, QUIET)] * 6)
    assert was_busy([(1.0, disturbed)] * 3 + [(1.0, QUIET)] * 6)
    # The kernel counts ticks: of a short sample nothing is known, of many together much.
    assert not was_busy([(0.01, disturbed)] + [(0.01, QUIET)] * 6)
    assert was_busy([(0.01, disturbed)] * 7)


BIASED = """
question = "Which computes faster?"
precision = "1%"
rounds = 6
budget = "250 s"
limits = false
[job]
client = "command"
[factors.processes]
one = {{ command = "{python} -S {program} 1" }}
three = {{ command = "{python} -S {program} 3" }}
[baseline]
processes = "one"
"""
#: The same work in one process, or divided among several.
PROGRAM = """
import os, sys, time
parts = int(sys.argv[1])
children = []
for _ in range(parts - 1):
    pid = os.fork()
    if pid == 0:
        children = []
        break
    children.append(pid)
end = time.process_time() + 0.6 / parts
while time.process_time() < end: pass
for pid in children: os.waitpid(pid, 0)
"""


@pytest.mark.long
def test_an_arm_with_more_processes_wins_nothing_on_a_busy_machine(busy: None, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    (tmp_path / "study.toml").write_text(BIASED.format(python=sys.executable, program=tmp_path / "program.py"))
    study = load_study(tmp_path / "study.toml", {"HERE": str(tmp_path)})
    found = StudyRun(study, tmp_path / "out", 1, HereAtOnce(tmp_path), lambda _: None).run()
    arm = next(one for one in found.arms if not one.is_baseline)
    assert arm.basis == "CPU time"
    assert arm.cpu is not None
    assert 0.7 < arm.cpu.value < 1.4
    said = " ".join(sentences(found))
    assert "busy" in said
    assert "times as fast" not in said
    assert "the time of processes one" not in said.replace("the CPU time of processes one", "")
