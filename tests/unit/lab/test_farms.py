"""Jobs of studies on farms: an executor, Dask and batch systems run the same jobs, and lost ones are named."""

from __future__ import annotations

import re
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
import uproot

from branchline.errors import OptionError
from branchline.lab.sampling.farms import taker_on
from branchline.lab.sampling.samples import SAMPLES, SampleFile, StudySample
from branchline.lab.studies.study_file import load_study
from branchline.lab.studies.study_page import write_report
from branchline.lab.studies.study_result import StudyResult
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.studies.verdict import sentences

READING = """
question = "Is a copy slower?"
precision = "90%"
budget = "60 s"
rounds = 1
limits = false
[job]
where = "${HERE}"
tree = "events"
cold = true
files_per_job = 1
jobs = 4
[factors.client]
branchline = { client = "branchline" }
copy = { client = "copy" }
[baseline]
client = "branchline"
"""


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for number in range(4):
        with uproot.recreate(tmp_path / f"{number}.root") as file:
            file["events"] = {"x": np.arange(1000.0 * (number + 1))}
    return tmp_path


def run_on(on: object, folder: Path, text: str) -> tuple[StudyResult, list[StudySample]]:
    (folder / "study.toml").write_text(text, encoding="utf-8")
    study, out = load_study(folder / "study.toml", {"HERE": str(folder)}), folder / "out"
    found = StudyRun(study, out, 1, taker_on(on, out), lambda _: None).run()
    return found, SampleFile(out / SAMPLES).read()


@pytest.mark.long
def test_an_executor_runs_the_same_jobs_in_each_arm(data: Path) -> None:
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        found, samples = run_on(executor, data, READING)
    assert not [one.error for one in samples if one.error]
    assert {one.place for one in samples} == {"executor"}
    for one in samples:
        assert [job.number for job in one.jobs] == list(range(4))
        assert [job.file_bytes for job in one.jobs] == [(data / f"{n}.root").stat().st_size for n in range(4)]
        assert all(job.host and job.processor and job.begin_s for job in one.jobs)
        assert one.cached_bytes == 0
    reads = next(one for one in samples if one.arm == "client branchline")
    assert [job.events for job in reads.jobs] == [1000 * (number + 1) for number in range(4)]
    assert all(job.phases for job in reads.jobs)
    copy = next(one for one in found.arms if one.name == "client copy")
    assert copy.time is not None
    page = write_report(data / "out").read_text(encoding="utf-8")
    for title in ("The jobs", "Throughput over time", "Wall time of jobs", "The same job: CPU time more"):
        assert title in page
    # A line without gaps over all bins.
    over_time = page[page.index("Throughput over time") :]
    [first, *_] = re.findall(r'<path d="([^"]*)" fill="none"', over_time)
    assert (first.count("M"), first.count("H")) == (1, 120)


@pytest.mark.long
def test_a_job_that_fails_on_a_farm_is_counted_and_the_others_are_compared(data: Path) -> None:
    (data / "fail.sh").write_text("test $1 != 3", encoding="utf-8")
    text = READING.replace('client = "copy" }', 'client = "command", command = "sh ${HERE}/fail.sh {job}" }')
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        found, samples = run_on(executor, data, text)
    bad = [one for one in samples if one.arm == "client copy"]
    assert [len(one.good_jobs) for one in bad] == [3]
    assert not [one.error for one in bad if one.error]
    arm = next(one for one in found.arms if one.name == "client copy")
    assert (arm.failed_jobs, arm.lost) == (1, 0)
    assert arm.time is not None
    assert arm.time.pairs == 1
    assert any("1 job failed" in one and "ended with code 1" in one for one in sentences(found))


@pytest.mark.long
def test_a_sample_of_which_most_jobs_fail_is_lost(data: Path) -> None:
    text = READING.replace('copy = { client = "copy" }', 'copy = { client = "command", command = "false" }')
    with ProcessPoolExecutor(2, get_context("spawn")) as executor:
        found, _ = run_on(executor, data, text)
    arm = next(one for one in found.arms if one.name == "client copy")
    assert (arm.samples, arm.lost) == (0, 1)
    assert any("4 of 4 jobs failed" in one for one in arm.errors)


def test_a_farm_takes_a_thousand_jobs_and_this_machine_fewer(data: Path) -> None:
    with pytest.raises(OptionError, match="run it on a farm with --on"):
        run_on(None, data, READING.replace("jobs = 4", "jobs = 1000").replace("files_per_job = 1\n", ""))
    with pytest.raises(OptionError, match="unknown place 'nowhere'"):
        taker_on("nowhere", data)
