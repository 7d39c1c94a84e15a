"""Trains that are submitted to HTCondor by its user, on the pool's own machine."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from tests.branchline_command import run_branchline
from tests.clusters.farm import TABLES, Train, files_of, rows_of, wait_until
from tests.clusters.htcondor import HTCondor

from branchline.records.sensors.record import JobRecord

FILES = 5
# It only ends what hangs, on a busy machine, too.
TIMEOUT_S = 600

Ended = subprocess.CompletedProcess[str]
InPool = Callable[..., Ended]

# Making the pool's folder takes minutes, once.
pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def original(pool: HTCondor) -> Train:
    """A train with its results of this machine in `local`."""
    folder = pool.folder / "original"
    folder.mkdir()
    train = Train(folder, FILES).make()
    ended = run_branchline(folder, [*train.words, "-o", "local", "--workers", "1"])
    assert ended.returncode == 0, ended.stderr
    return train


@pytest.fixture
def train(pool: HTCondor, original: Train, request: pytest.FixtureRequest) -> Iterator[Train]:
    """The same files, which belong to the pool's user."""
    folder = pool.folder / request.node.name
    shutil.copytree(original.folder, folder, ignore=shutil.ignore_patterns("local"))
    pool.own(folder)
    yield Train(folder, FILES)
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def in_pool(pool: HTCondor, train: Train) -> InPool:
    """Calls `branchline` as the pool's user."""

    def call(*words: object, **variables: str) -> Ended:
        settings = [f"{name}={value}" for name, value in variables.items()]
        return pool.call(["env", *settings, sys.executable, "-m", "branchline.cli", *map(str, words)], train.folder)

    return call


def submit(in_pool: InPool, train: Train, *words: object, **variables: str) -> None:
    ended = in_pool(*train.words, "-o", "out", "--on", "htcondor", "--retries", 0, *words, **variables)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""


def wait(in_pool: InPool) -> str:
    """What `branchline status` prints when no job waits or runs any more."""

    def over() -> str:
        ended = in_pool("status", "out")
        assert ended.returncode in (0, 3), ended.stderr
        is_over = "; see" in ended.stdout or "no job of this train" in ended.stdout
        return ended.stdout if is_over else ""

    found = wait_until(over, "the end of the train", TIMEOUT_S)
    assert isinstance(found, str)
    return found


def process_of(train: Train, task: str) -> psutil.Process:
    """The process of a task, once it runs; all processes of the pool are those of this machine."""

    def found() -> psutil.Process | None:
        for one in psutil.process_iter():
            try:
                words = one.cmdline()
            except psutil.Error:
                continue
            if words[1:4] == ["-P", "-m", "branchline.trains.submitted.tasks.task"] and words[-2:] == task.split():
                return one if words[4] == str(train.folder / "out") else None
        return None

    process = wait_until(found, f"the process of task {task}", TIMEOUT_S)
    assert isinstance(process, psutil.Process)
    return process


def test_the_results_are_those_of_this_machine(pool: HTCondor, in_pool: InPool, train: Train, original: Train) -> None:
    submit(in_pool, train, "--tasks", 3)
    shown = wait(in_pool)
    assert f"{FILES} done, 0 running, 0 queued, 0 failed" in shown
    assert "finished" in shown
    assert files_of(train.folder / "out") == files_of(original.folder / "local")
    # Tasks leave the name by which requirements can exclude their node.
    nodes = {one.read_text().strip() for one in (train.folder / "out" / "batch" / "accounts").glob("*.node")}
    assert nodes == set(pool.command("condor_status", "-af", "Machine").split())
    # One sub-job again, by a file and by its number.
    for which in ("data/f02.root", "4"):
        ended = in_pool("rerun", "out", which)
        assert ended.returncode == 0, ended.stderr
        assert "spectra: identical to the stored result" in ended.stdout
    # With another cut the result is another one.
    cuts = train.folder / "cuts.py"
    cuts.write_text(cuts.read_text().replace("-4.0", "0.0"))
    ended = in_pool("rerun", "out", "2")
    assert "cuts.py changed since the run" in ended.stderr
    assert "identical to the stored result" not in ended.stdout


def test_tables_have_the_rows_of_this_machine(in_pool: InPool, train: Train) -> None:
    wagons = train.folder / "wagons.py"
    wagons.write_text(wagons.read_text() + TABLES)
    local = run_branchline(train.folder, [*train.words, "-o", "local", "--workers", "1"])
    assert local.returncode == 0, local.stderr
    submit(in_pool, train, "--tasks", 3)
    assert "finished" in wait(in_pool)
    rows = rows_of(train.folder / "out")
    assert rows == rows_of(train.folder / "local")
    assert len(rows[0]) > FILES * train.events_per_file // 3


def test_a_killed_and_a_removed_task_are_named_and_resumed_alone(
    pool: HTCondor, in_pool: InPool, train: Train, original: Train
) -> None:
    train.pause(4)
    submit(in_pool, train, "--tasks", FILES)
    process_of(train, "0.0 1").kill()
    process_of(train, "0.0 3")
    pool.command("condor_rm", "-constraint", "BranchlineTask == 3 && BranchlineStep == 0")
    shown = wait(in_pool)
    assert f"{FILES - 2} done, 0 running, 0 queued, 2 failed" in shown, shown
    assert "SIGKILL" in shown
    record = json.loads((train.folder / "out" / "job.json").read_text())
    assert [one["path"] for one in record["skipped"]] == [train.file(1), train.file(3)]
    train.pause(0)
    ended = in_pool("resume", "out")
    assert ended.stdout.strip() == "resubmitted: 2 sub-jobs", ended.stderr
    assert "finished" in wait(in_pool)
    assert files_of(train.folder / "out") == files_of(original.folder / "local")
    assert in_pool("resume", "out").stdout.strip() == "no sub-job is missing, and the results are written"


def test_a_killed_task_is_sent_again_from_where_it_was_submitted(
    in_pool: InPool, train: Train, original: Train
) -> None:
    train.pause(4)
    submit(in_pool, train, "--tasks", FILES, "--retries", 1)
    process_of(train, "0.0 2").kill()
    shown = wait(in_pool)
    assert f"{FILES} done, 0 running, 0 queued, 0 failed" in shown, shown
    assert files_of(train.folder / "out") == files_of(original.folder / "local")
    record = JobRecord.from_dict(json.loads((train.folder / "out" / "job.json").read_text()))
    [retry] = record.retries
    assert (retry.subjobs, retry.is_by_user) == (1, False)
    assert "SIGKILL" in next(iter(retry.causes))


def test_a_task_held_for_memory_is_sent_again_with_more(
    pool: HTCondor, in_pool: InPool, train: Train, original: Train
) -> None:
    site = train.folder / "site.toml"
    site.write_text('[htcondor]\nmemory = "100MB"\nmemory_max = "150MB"\n')
    train.pause(4)
    submit(in_pool, train, "--tasks", FILES, "--retries", 1, BRANCHLINE_SITE_CONFIG=str(site))
    process_of(train, "0.0 2")
    which = "BranchlineTask == 2 && BranchlineStep == 0 && JobStatus == 2"
    pool.command("condor_hold", "-reason", "Job has gone over memory limit of 100 megabytes", "-constraint", which)
    shown = wait(in_pool)
    assert f"{FILES} done, 0 running, 0 queued, 0 failed" in shown, shown
    assert files_of(train.folder / "out") == files_of(original.folder / "local")
    record = JobRecord.from_dict(json.loads((train.folder / "out" / "job.json").read_text()))
    [retry] = record.retries
    assert "it was held and then removed: Job has gone over memory limit" in next(iter(retry.causes))
    scripts = sorted((train.folder / "out" / "batch" / "jobs").glob("*.0.sub"))
    requested = [line for one in scripts for line in one.read_text().splitlines() if "request_memory" in line]
    assert requested == ["request_memory = 100MB", "request_memory = 150M"]


def test_where_nothing_can_be_sent_again_the_results_are_partial(pool: HTCondor, in_pool: InPool, train: Train) -> None:
    train.pause(4)
    submit(in_pool, train, "--tasks", FILES, "--retries", 1)
    process_of(train, "0.0 2").kill()
    # The script of the next tasks cannot be written.
    jobs = train.folder / "out" / "batch" / "jobs"
    (jobs / "1.0.sh").mkdir()
    shown = wait(in_pool)
    assert f"{FILES - 1} done, 0 running, 0 queued, 1 failed" in shown, shown
    assert "partial; see" in shown
    log = (train.folder / "out" / "batch" / "logs" / "0.1.0.log").read_text()
    assert "missing sub-jobs could not be submitted again" in log
    assert "cannot write the scripts of the jobs" in log


def test_tasks_have_the_settings_of_who_submits(in_pool: InPool, train: Train) -> None:
    train.pause(4)
    submit(in_pool, train, "--tasks", 1, XRD_STREAMTIMEOUT="61", AWS_PROFILE="physics", OTHER="not taken along")
    has = process_of(train, "0.0 0").environ()
    assert (has.get("XRD_STREAMTIMEOUT"), has.get("AWS_PROFILE"), has.get("OTHER")) == ("61", "physics", None)
    assert in_pool("cancel", "out").returncode == 0
    wait(in_pool)


def test_secrets_of_who_submits_are_not_in_the_ads_of_jobs(pool: HTCondor, in_pool: InPool, train: Train) -> None:
    train.pause(4)
    secrets = ("BEARER_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "BRANCHLINE_LATER_TOKEN", "XrdSecCREDS")
    files = {"BEARER_TOKEN_FILE": "/secrets/token", "AWS_SHARED_CREDENTIALS_FILE": "/secrets/keys"}
    submit(in_pool, train, "--tasks", 1, **dict.fromkeys(secrets, "very.secret"), **files)
    has = process_of(train, "0.0 0").environ()
    assert {name: has.get(name) for name in files} == files
    assert [name for name in secrets if name in has] == []
    # All ads: those of the tasks, and that of DAGMan, which submits them.
    shown = pool.command("condor_q", "-allusers", "-long")
    assert "BEARER_TOKEN_FILE=/secrets/token" in shown
    assert "very.secret" not in shown
    assert in_pool("cancel", "out").returncode == 0
    wait(in_pool)


def test_a_cancelled_train_is_resumed(in_pool: InPool, train: Train, original: Train) -> None:
    train.pause(4)
    submit(in_pool, train, "--tasks", 2)
    process_of(train, "0.0 1")
    assert in_pool("resume", "out").returncode == 1
    assert in_pool("cancel", "out").returncode == 0
    assert "branchline resume" in wait(in_pool)
    train.pause(0)
    assert in_pool("resume", "out").returncode == 0
    assert "finished" in wait(in_pool)
    assert files_of(train.folder / "out") == files_of(original.folder / "local")


def test_a_folder_that_jobs_have_for_themselves_is_refused(in_pool: InPool, train: Train) -> None:
    ended = in_pool(*train.words, "-o", Path("/tmp") / "out", "--on", "htcondor")
    assert ended.returncode == 1
    assert "which is private to each HTCondor job" in ended.stderr
