"""What is done is not submitted again: the ledger of trains on a Slurm with three nodes."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.branchline_command import run_branchline
from tests.clusters.farm import Train, files_of, wait_until
from tests.clusters.slurm import Slurm
from tests.unit.trains.wagons.test_used_inputs import install

from branchline.jobs.ledger import kept_results
from branchline.trains.submitted.handle import SubmittedTrain
from branchline.trains.submitted.submission import JobsRecord
from branchline.trains.submitted.submission_folder import BatchFolder

FILES = 4
TIMEOUT_S = 120

# Each run of a wagon on a chunk leaves a line in the log of its task.
WAGONS = """
import numpy as np

LOWEST = -4.0
LARGEST = 2.0


class Low:
    name = "low"

    def process(self, events):
        print("ran low", events.metadata["filename"], flush=True)
        px = np.asarray(events.px)
        return {"sum": float(np.sum(px[px > LOWEST])), "events": len(events)}


class High:
    name = "high"

    def process(self, events):
        print("ran high", events.metadata["filename"], flush=True)
        px = np.asarray(events.px)
        return {"sum": float(np.sum(px[px < LARGEST])), "events": len(events)}
"""

Submit = Callable[..., SubmittedTrain]


@pytest.fixture
def train(tmp_path: Path) -> Train:
    """Files and two wagons."""
    made = Train(tmp_path, FILES).make()
    (tmp_path / "wagons.py").write_text(WAGONS)
    return made


@pytest.fixture
def submit(slurm: Slurm, train: Train, monkeypatch: pytest.MonkeyPatch) -> Iterator[Submit]:
    """Submits the train and waits for its end."""
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    submitted: list[SubmittedTrain] = []

    def call(*words: object) -> SubmittedTrain:
        ended = run_branchline(train.folder, [*train.words, "-o", "out", "--on", "slurm", "--force", *map(str, words)])
        assert ended.returncode == 0, ended.stderr
        submitted.append(SubmittedTrain(train.folder / "out"))
        assert submitted[-1].wait(TIMEOUT_S).ended == "finished"
        return submitted[-1]

    yield call
    for one in submitted[-1:]:
        one.cancel()
    wait_until(lambda: not slurm.command("squeue", "--noheader").strip(), "the end of all jobs", TIMEOUT_S)


def ran(submitted: SubmittedTrain) -> set[str]:
    """The wagons and files of which jobs processed chunks."""
    logs = [one.read_text() for one in BatchFolder(submitted.out).logs.iterdir()]
    lines = [line.split() for log in logs for line in log.splitlines() if line.startswith("ran ")]
    return {f"{wagon} {Path(file).name}" for _, wagon, file in lines}


def expect_same_as_here(train: Train) -> None:
    """The results are those of a run on this machine that reuses nothing."""
    words = [*train.words, "-o", "here", "--workers", "1", "--no-reuse", "--force"]
    ended = run_branchline(train.folder, words)
    assert ended.returncode == 0, ended.stderr
    assert files_of(train.folder / "out") == files_of(train.folder / "here")


def steps_of(submitted: SubmittedTrain) -> list[int]:
    """How many tasks each step has."""
    [jobs] = JobsRecord.read_all(BatchFolder(submitted.out))
    return [len(step.tasks) for step in jobs.steps]


def everything(wagons: tuple[str, ...] = ("low", "high"), files: range = range(FILES)) -> set[str]:
    return {f"{wagon} f{index:02}.root" for wagon in wagons for index in files}


@pytest.mark.timeout(600)
def test_what_is_done_is_not_submitted_again(submit: Submit, train: Train) -> None:
    first = submit("--tasks", 2)
    assert ran(first) == everything()
    assert steps_of(first) == [2, 1]
    # A result by wagon and file, the sub-jobs, and what was learned.
    assert {one.name: one.results_count for one in kept_results(first.out).counts} == {
        "(branches)": 3,
        "(sub-jobs)": FILES,
        "high": FILES,
        "low": FILES,
    }
    assert not list(BatchFolder(first.out).rows_folder.iterdir())
    rerun = run_branchline(train.folder, ["rerun", "out", "data/f02.root"])
    assert rerun.returncode == 0, rerun.stderr
    assert rerun.stdout.count("identical to the stored result") == 2
    results = files_of(first.out)

    again = submit("--tasks", 2)
    assert ran(again) == set()
    assert steps_of(again) == [1]
    assert files_of(again.out) == results
    assert json.loads((again.out / "job.json").read_text())["subjobs_reused"] == FILES

    # One wagon of two changes: it runs alone.
    wagons = train.folder / "wagons.py"
    wagons.write_text(wagons.read_text().replace("LARGEST = 2.0", "LARGEST = 1.0"))
    assert ran(submit("--tasks", 2)) == everything(("high",))
    expect_same_as_here(train)

    # Two files more: they run alone.
    for index in range(FILES, FILES + 2):
        shutil.copy(train.folder / "data" / f"f{index - FILES:02}.root", train.folder / "data" / f"f{index:02}.root")
    more = submit("--tasks", 2)
    assert ran(more) == everything(files=range(FILES, FILES + 2))
    assert steps_of(more) == [2, 1]
    expect_same_as_here(train)

    assert ran(submit("--tasks", 2, "--no-reuse")) == everything(files=range(FILES + 2))


@pytest.mark.timeout(600)
def test_a_run_here_goes_on_with_what_a_cancelled_train_has_done(submit: Submit, train: Train, slurm: Slurm) -> None:
    words = [*train.words, "-o", "out", "--on", "slurm", "--tasks", str(FILES)]
    ended = run_branchline(train.folder, words)
    assert ended.returncode == 0, ended.stderr
    submitted = SubmittedTrain(train.folder / "out")
    [jobs] = JobsRecord.read_all(BatchFolder(submitted.out))
    # The last job does not come: what the others wrote is still in files.
    slurm.command("scancel", jobs.submitted.ids[-1])
    assert submitted.wait(TIMEOUT_S).done == FILES
    assert len(list(BatchFolder(submitted.out).rows_folder.iterdir())) == FILES
    ended = run_branchline(train.folder, [*train.words, "-o", "out", "--workers", "1", "--force"])
    assert ended.returncode == 0, ended.stderr
    assert json.loads((train.folder / "out" / "job.json").read_text())["subjobs_reused"] == FILES
    expect_same_as_here(train)


def held(train: Train, *more: str) -> SubmittedTrain:
    """The train, submitted, whose jobs wait until they are released."""
    words = [*train.words, "-o", "out", "--on", "slurm", "--tasks", "1", "--force", "--batch-option=--hold"]
    ended = run_branchline(train.folder, [*words, *more])
    assert ended.returncode == 0, ended.stderr
    return SubmittedTrain(train.folder / "out")


def release(slurm: Slurm, submitted: SubmittedTrain) -> str:
    """Lets the jobs that were sent last run, and says how the train ended."""
    *_, jobs = JobsRecord.read_all(BatchFolder(submitted.out))
    for number in jobs.submitted.ids:
        slurm.command("scontrol", "release", number)
    return submitted.wait(TIMEOUT_S).ended


@pytest.mark.timeout(600)
def test_the_result_of_a_file_that_was_replaced_in_the_queue_is_not_that_of_the_file_before(
    slurm: Slurm, submit: Submit, train: Train
) -> None:
    path, kept = train.folder / "data" / "f03.root", train.folder / "kept"
    shutil.copy2(path, kept)
    waiting = held(train)
    shutil.copyfile(train.folder / "data" / "f02.root", path)
    assert path.stat().st_size == kept.stat().st_size
    assert release(slurm, waiting) == "finished"
    shutil.copy2(kept, path)
    here = run_branchline(train.folder, [*train.words, "-o", "out", "--force", "--workers", "1"])
    assert here.returncode == 0, here.stderr
    job = json.loads((train.folder / "out" / "job.json").read_text())
    assert job["subjobs_reused"] == FILES - 1
    expect_same_as_here(train)


@pytest.mark.timeout(600)
def test_tasks_with_another_package_than_the_plan_refuse_their_sub_jobs_until_it_is_right(
    slurm: Slurm, submit: Submit, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = train.folder / "view" / "site-packages"
    install(packages, 1)
    monkeypatch.setenv("PYTHONPATH", str(packages))
    wagons = train.folder / "wagons.py"
    text = wagons.read_text().replace("import numpy as np", "import numpy as np\nimport packageofthistest", 1)
    wagons.write_text(text.replace('"sum": float(', '"sum": packageofthistest.SCALE * float('))
    time.sleep(0.2)  # a package that is as new as a process may have been upgraded in it
    waiting = held(train, "--retries", "0")
    install(packages, 2)
    assert release(slurm, waiting) == "failed"
    job = json.loads((train.folder / "out" / "job.json").read_text())
    assert len(job["missing"]) == FILES
    assert all("packageofthistest 2 (planned: 1)" in one["cause"] for one in job["missing"]), job["missing"]
    assert [one["error"] for one in job["wagons"]] == [None, None]
    status = run_branchline(train.folder, ["status", "out"])
    assert "packageofthistest 2 (planned: 1)" in status.stdout, status
    install(packages, 1)
    resumed = run_branchline(train.folder, ["resume", "out"])
    assert resumed.returncode == 0, resumed.stderr
    assert release(slurm, waiting) == "finished"
    expect_same_as_here(train)
