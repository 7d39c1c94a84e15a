"""Trains that are submitted to a Slurm with three nodes, and what may happen to them there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tests.branchline_command import run_branchline
from tests.clusters.farm import TABLES, Train, files_of, rows_of, wait_until
from tests.clusters.slurm import NODES, Slurm
from tests.clusters.slurm_trains import (
    FILES,
    TIMEOUT_S,
    jobs_of,
    keep_work,
    original,
    own_python,
    process_of,
    submit,
    train,
)

import branchline
from branchline.errors import WagonError
from branchline.records.sensors.record import JobRecord
from branchline.trains.submitted.submission_folder import BatchFolder

__all__ = ["original", "submit", "train"]  # fixtures


@pytest.mark.parametrize("tasks", [1, 3])
def test_the_results_are_those_of_this_machine(submit: Any, original: Train, tasks: int) -> None:
    submitted = submit("--tasks", tasks)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES, 0, "finished"), status
    assert files_of(submitted.out) == files_of(original.folder / "local")
    record = json.loads((submitted.out / "job.json").read_text())
    assert sum(record["phases"].values()) == pytest.approx(record["wall_s"], rel=0.01)


def test_a_killed_task_is_named_and_resumed_alone(
    submit: Any, train: Train, original: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_work(train, monkeypatch)
    train.pause(1)
    submitted = submit("--tasks", FILES)
    process_of(submitted, "0.0 2").kill()
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed) == (FILES - 1, 1)
    [cause] = status.causes
    assert "SIGKILL" in cause
    assert "0.0.2.log" in cause
    record = json.loads((submitted.out / "job.json").read_text())
    assert record["status"] == "partial"
    assert [one["path"] for one in record["skipped"]] == [train.file(2)]
    assert (submitted.out / "PARTIAL.txt").exists()

    assert submitted.resume() == 1
    assert [len(step.tasks) for step in jobs_of(submitted)[1].steps] == [1, 1]
    assert submitted.wait(TIMEOUT_S).ended == "finished"
    assert files_of(submitted.out) == files_of(original.folder / "local")
    assert not (submitted.out / "PARTIAL.txt").exists()
    assert submitted.resume() == 0
    assert len(jobs_of(submitted)) == 2


def test_a_killed_task_is_sent_again_by_the_last_job(submit: Any, train: Train, original: Train) -> None:
    train.pause(1)
    submitted = submit("--tasks", 1, "--retries", 1)
    process_of(submitted, "0.0 0").kill()
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES, 0, "finished"), status
    assert files_of(submitted.out) == files_of(original.folder / "local")
    assert [one.retry for one in jobs_of(submitted)] == [0, 1]
    assert [len(step.tasks) for step in jobs_of(submitted)[1].steps] == [1, 1]
    record = JobRecord.from_dict(json.loads((submitted.out / "job.json").read_text()))
    [retry] = record.retries
    assert (0 < retry.subjobs <= FILES, retry.is_by_user) == (True, False)
    assert "SIGKILL" in next(iter(retry.causes))
    assert "by the last job" in (submitted.out / "report.html").read_text()


def test_what_fails_again_is_not_sent_for_ever(submit: Any, train: Train) -> None:
    (train.folder / "data" / "f02.root").unlink()
    (train.folder / "data" / "f02.root").write_text("this is no ROOT file")
    submitted = submit("--tasks", FILES, "--retries", 5)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES - 1, 1, "partial"), status
    assert "f02.root" in next(iter(status.causes))
    # One more try, on another node if there is one; a file that is bad there, too, is bad everywhere.
    assert [one.retry for one in jobs_of(submitted)] == [0, 1]


# Ends the task that has a larger chunk of a file, as Slurm does where it limits memory, with the line in its log.
HUNGRY = """

import os
import signal


class Hungry:
    name = "hungry"

    def process(self, events):
        if "f02" in events.metadata["filename"] and len(events) > LARGEST_CHUNK:
            print("slurmstepd: error: Detected 1 oom_kill event in StepId=1.batch", flush=True)
            os.kill(os.getppid(), signal.SIGKILL)
            time.sleep(60)
        return len(events)
"""


def test_a_task_that_dies_of_memory_comes_back_with_less(submit: Any, train: Train, original: Train) -> None:
    """First with the same chunks; then with smaller ones, which give the same numbers."""
    local = original.folder / "local"
    with (train.folder / "wagons.py").open("a") as file:
        file.write(HUNGRY.replace("LARGEST_CHUNK", "100_000"))
    submitted = submit("--tasks", FILES)
    for attempt in range(2):
        status = submitted.wait(TIMEOUT_S)
        assert (status.done, status.failed) == (FILES - 1, 1), (attempt, status)
        assert "oom_kill" in next(iter(status.causes))
        assert submitted.resume() == 1
    assert submitted.wait(TIMEOUT_S).ended == "finished"
    record = json.loads((submitted.out / "job.json").read_text())
    [retry] = record["memory_retries"]
    assert (retry["subjob"], retry["chunk_divisor"], retry["inexact"]) == (train.file(2), 4, ["spectra"])
    sums, here = (json.loads((out / "results" / "spectra.json").read_text()) for out in (submitted.out, local))
    assert sums["events"] == here["events"] == record["events"]
    assert sums["sum"] == pytest.approx(here["sum"], rel=1e-12)


def test_a_task_that_dies_of_memory_is_sent_again_with_more(
    submit: Any, train: Train, original: Train, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Twice what it had, but no more than the site allows; the chunks, and so all bits, stay as they were."""
    site = train.folder / "site.toml"
    site.write_text('[slurm]\nmemory = "500M"\nmemory_max = "800M"\n')
    monkeypatch.setenv("BRANCHLINE_SITE_CONFIG", str(site))
    with (train.folder / "wagons.py").open("a") as file:
        file.write(HUNGRY.replace("len(events) > LARGEST_CHUNK", 'int(os.environ["SLURM_MEM_PER_NODE"]) < 800'))
    submitted = submit("--tasks", FILES, "--retries", 1)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES, 0, "finished"), status
    first, second = jobs_of(submitted)
    assert (first.memory, second.memory) == (None, "800M")
    shown = [slurm.command("scontrol", "show", "job", one.submitted.ids[0]) for one in (first, second)]
    assert ["MinMemoryNode=500M" in shown[0], "MinMemoryNode=800M" in shown[1]] == [True, True], shown
    spectra = {name: content for name, content in files_of(submitted.out).items() if "spectra" in name}
    assert spectra
    here = files_of(original.folder / "local")
    assert spectra == {name: here[name] for name in spectra}


def test_a_node_on_which_every_task_fails_gets_no_more(
    submit: Any, train: Train, original: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_work(train, monkeypatch, '[ "$SLURMD_NODENAME" = n2 ] && exit 126', '["--exclude=n3"]')
    # One task at a time on the node that is well: the other one gets the rest.
    train.pause(4)
    submitted = submit("--tasks", FILES)
    status = submitted.wait(TIMEOUT_S)
    assert status.failed >= 3, status
    assert "exit code 126" in next(iter(status.causes))
    train.pause(0)
    assert submitted.resume() == status.failed
    assert submitted.wait(TIMEOUT_S).ended == "finished"
    assert submitted.status().excluded_nodes == ["n2"]
    nodes = {one.read_text().strip() for one in BatchFolder(submitted.out).accounts.glob("1.0.*.node")}
    assert nodes == {"n1"}
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_a_cancelled_task_costs_its_own_sub_jobs_only(
    submit: Any, train: Train, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_work(train, monkeypatch)
    train.pause(1)
    submitted = submit("--tasks", FILES)
    [first, _] = jobs_of(submitted)[0].submitted.ids
    process_of(submitted, "0.0 1")
    slurm.command("scancel", f"{first}_1")
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed) == (FILES - 1, 1)
    assert "CANCELLED" in next(iter(status.causes))


@pytest.mark.slow
def test_a_task_out_of_time_is_named(submit: Any, train: Train) -> None:
    # Slurm counts in minutes, and looks every half of one.
    train.pause(3)
    submitted = submit("--tasks", 1, "--batch-option=--time=1")
    process_of(submitted, "0.0 0")
    train.pause(200)
    status = submitted.wait(240)
    assert status.failed > 0
    assert "DUE TO TIME LIMIT" in next(iter(status.causes))


def test_what_may_be_missing_is_named_and_no_failure(
    submit: Any, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_work(train, monkeypatch)
    train.pause(1)
    submitted = submit("--tasks", FILES, "--allow-missing", "20%")
    process_of(submitted, "0.0 4").kill()
    submitted.wait(TIMEOUT_S)
    record = json.loads((submitted.out / "job.json").read_text())
    assert record["errors"] == []
    assert [one["path"] for one in record["skipped"]] == [train.file(4)]
    last = BatchFolder(submitted.out).accounts / "0.1.0.exit"
    assert last.read_text().strip() == "0"


def test_a_drained_node_and_a_gone_submitter_cost_nothing(
    submit: Any, train: Train, original: Train, slurm: Slurm
) -> None:
    train.pause(1)
    submitted = submit("--tasks", FILES)
    process_of(submitted, "0.0 0")
    slurm.command("scontrol", "update", f"nodename={NODES[0]}", "state=drain", "reason=test")
    try:
        assert submitted.wait(TIMEOUT_S).ended == "finished"
    finally:
        slurm.command("scontrol", "update", f"nodename={NODES[0]}", "state=resume")
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_a_requeued_task_goes_on(submit: Any, train: Train, original: Train, slurm: Slurm) -> None:
    train.pause(1)
    submitted = submit("--tasks", 2)
    [first, _] = jobs_of(submitted)[0].submitted.ids
    process_of(submitted, "0.0 1")
    slurm.command("scontrol", "requeue", f"{first}_1")
    wait_until(lambda: "PENDING" in slurm.command("squeue", "-h", "-r", "-j", first, "-o", "%T"), "the requeue")
    # Else Slurm waits for two minutes. In the second of the requeue it would not start the task ("Job credential
    # revoked"), take it as ended, and go on with the last step.
    slurm.command("scontrol", "update", f"jobid={first}_1", "starttime=now+2")
    status = submitted.wait(TIMEOUT_S)
    assert status.ended == "finished", status
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_a_wagon_that_fails_and_a_bad_file_are_as_on_this_machine(submit: Any, train: Train) -> None:
    text = (train.folder / "wagons.py").read_text()
    failing = '\n\nclass Failing:\n    name = "failing"\n\n    def process(self, events):\n'
    failing += '        if "f03" in events.metadata["filename"]:\n            raise ValueError("not here")\n'
    failing += "        return len(events)\n"
    (train.folder / "wagons.py").write_text(text + failing)
    bad = train.folder / "data" / "f01.root"
    content = bad.read_bytes()
    bad.unlink()
    bad.write_bytes(content[:1000])
    words = [*train.words, "--skip-bad-files"]
    local = run_branchline(train.folder, [*words, "-o", "local", "--workers", "1"])
    assert local.returncode == 3, local.stderr
    submitted = submit("--skip-bad-files", "--tasks", 3)
    assert submitted.wait(TIMEOUT_S).done == FILES
    assert files_of(submitted.out) == files_of(train.folder / "local")
    here, there = (json.loads((train.folder / one / "job.json").read_text()) for one in ("local", "out"))
    for name in ("skipped", "events", "subjobs_done", "status", "events_expected"):
        assert here[name] == there[name], name
    assert [one["error"]["message"] for one in here["wagons"] if one["error"]] == ["not here"]
    assert [one["error"] and one["error"]["message"] for one in there["wagons"]] == [
        one["error"] and one["error"]["message"] for one in here["wagons"]
    ]


def test_a_bad_file_fails_its_own_sub_job(submit: Any, train: Train) -> None:
    bad = train.folder / "data" / "f04.root"
    content = bad.read_bytes()
    bad.unlink()
    bad.write_bytes(content[:1000])
    submitted = submit("--tasks", 2)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed) == (FILES - 1, 1)
    assert "f04.root" in next(iter(status.causes))
    bad.write_bytes(content)
    assert submitted.resume() == 1
    assert submitted.wait(TIMEOUT_S).ended == "finished"


def test_failures_at_the_same_place_are_one_group_in_the_record(
    submit: Any, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_work(train, monkeypatch)
    for name in ("f01.root", "f03.root"):
        bad = train.folder / "data" / name
        content = bad.read_bytes()
        bad.unlink()
        bad.write_bytes(content[:1000])
    submitted = submit("--tasks", FILES)
    assert submitted.wait(TIMEOUT_S).failed == 2
    record = json.loads((submitted.out / "job.json").read_text())
    [group] = record["failures"]
    assert group["subjobs"] == [1, 3]
    assert group["files"] == [train.file(1), train.file(3)]
    assert "Traceback" in group["example"]
    assert Path(group["log"]).is_file()
    processing = [one for one in record["activity"] if not one["stage"]]
    assert len(processing) == FILES - 2
    assert [one["is_last"] for one in record["activity"]] == [False] * (FILES - 2) + [True]
    assert all(0 <= one["begin_s"] <= one["end_s"] <= record["wall_s"] for one in record["activity"])
    page = (submitted.out / "report.html").read_text()
    assert "2 sub-jobs:" in page
    assert "The job over time" in page


def test_a_directory_that_is_gone_for_a_while_is_waited_for(submit: Any, train: Train, original: Train) -> None:
    train.pause(2)
    submitted = submit("--tasks", 2)
    process_of(submitted, "0.0 1")
    away = train.folder / "away"
    submitted.out.rename(away)
    time.sleep(12)
    away.rename(submitted.out)
    train.pause(0)
    status = submitted.wait(TIMEOUT_S)
    if status.ended != "finished":
        # The system could not open the log of a task that began meanwhile: that is named, and sent again.
        assert status.failed == 0 or status.causes
        submitted.resume()
        assert submitted.wait(TIMEOUT_S).ended == "finished"
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_resume_refuses_changed_wagons(submit: Any, train: Train) -> None:
    train.pause(1)
    submitted = submit("--tasks", 2)
    # The jobs run the code as it was, whatever the files hold when they begin.
    cuts = train.folder / "cuts.py"
    text = cuts.read_text()
    cuts.write_text(text.replace("-4.0", "4.0"))
    process_of(submitted, "0.0 1").kill()
    submitted.wait(TIMEOUT_S)
    with pytest.raises(WagonError, match=r"cuts\.py changed since the train was submitted"):
        submitted.resume()
    cuts.write_text(text)
    submitted.resume()
    assert submitted.wait(TIMEOUT_S).ended == "finished"


def test_a_new_train_replaces_one_that_has_ended_only(submit: Any, train: Train) -> None:
    train.pause(2)
    first = submit("--tasks", 2)
    train.pause(200)  # none ends by itself before it is cancelled; submitting reads a chunk, too
    ended = run_branchline(train.folder, [*train.words, "-o", "out", "--on", "slurm", "--force"])
    assert ended.returncode == 1
    assert "branchline cancel" in ended.stderr
    first.cancel()
    first.wait(TIMEOUT_S)
    train.pause(0)
    second = submit("--tasks", 1, "--force")
    assert [one.number for one in jobs_of(second)] == [0]
    assert second.wait(TIMEOUT_S).ended == "finished"


def test_a_cancelled_train_is_resumed(submit: Any, train: Train, original: Train) -> None:
    train.pause(2)
    submitted = submit("--tasks", FILES)
    train.pause(200)  # none ends by itself before it is cancelled; submitting reads a chunk, too
    process_of(submitted, "0.0 0")
    ended = run_branchline(train.folder, ["cancel", "out"])
    assert ended.returncode == 0, ended.stderr
    status = submitted.wait(TIMEOUT_S)
    assert status.done < FILES
    assert status.ended is None
    train.pause(0)
    submitted.resume()
    assert submitted.wait(TIMEOUT_S).ended == "finished"
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_the_configuration_of_the_site_and_options_reach_slurm(
    submit: Any, train: Train, original: Train, slurm: Slurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = train.folder / "site.toml"
    site.write_text('[slurm]\npartition = "long"\ncpus = 2\nprologue = ["echo before the task"]\n')
    monkeypatch.setenv("BRANCHLINE_SITE_CONFIG", str(site))
    submitted = submit("--tasks", 2, "--batch-option=--comment=from-the-test")
    [first, _] = jobs_of(submitted)[0].submitted.ids
    shown = slurm.command("scontrol", "show", "job", first)
    assert "Partition=long" in shown
    assert "Comment=from-the-test" in shown
    assert "NumCPUs=2" in shown
    assert submitted.wait(TIMEOUT_S).ended == "finished"
    assert "before the task" in (submitted.out / "batch" / "logs" / "0.0.0.log").read_text()
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_many_results_are_folded_by_jobs_in_stages(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    # Each file is a sub-job, and the last job folds less than they are.
    train = Train(tmp_path, 45, events_per_file=200).make()
    largest = max(one.stat().st_size for one in tmp_path.glob("data/*"))
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest)
    monkeypatch.setattr("branchline.trains.submitted.submit.BATCH_FINAL_PARTS_MAX", 20)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    local = branchline.run("wagons.py", "data", "local", workers=1, pictures="none")
    batch = branchline.BatchSettings(tasks=5)
    submitted = branchline.run("wagons.py", "data", "out", on="slurm", batch=batch, pictures="none")
    status = submitted.wait(TIMEOUT_S)
    assert (status.subjobs, status.done, status.ended) == (train.files, train.files, "finished")
    assert [len(step.tasks) for step in jobs_of(submitted)[0].steps] == [5, 3, 1]
    assert sorted(one.name for one in (submitted.out / "batch" / "units").glob("1.*")) == ["1.0", "1.1", "1.2"]
    assert files_of(submitted.out) == files_of(tmp_path / "local")
    assert local.record.subjobs == train.files
    stages = {one.stage: (one.results, one.nodes) for one in submitted.status().merge_stages}
    assert stages == {1: (45, 3), 2: (3, 1)}


def test_tables_have_the_rows_of_this_machine_also_after_a_resume(
    slurm: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in slurm.environment.items():
        monkeypatch.setenv(name, value)
    train = Train(tmp_path, 8, events_per_file=300).make()
    wagons = tmp_path / "wagons.py"
    wagons.write_text(wagons.read_text() + TABLES)
    largest = max(one.stat().st_size for one in tmp_path.glob("data/*"))
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    local = branchline.run("wagons.py", "data", "local", workers=1, pictures="none")
    expected = rows_of(tmp_path / "local")
    assert [len(one) for one in expected] == [local.outputs["skim"]["events"]] * 3
    train.pause(1)
    keep_work(train, monkeypatch)
    batch = branchline.BatchSettings(tasks=8, retries=0)
    submitted = branchline.run("wagons.py", "data", "out", on="slurm", batch=batch, pictures="none")
    try:
        process_of(submitted, "0.0 2").kill()
        status = submitted.wait(TIMEOUT_S)
        assert (status.done, status.failed) == (7, 1)
        partial, record = rows_of(submitted.out), json.loads((submitted.out / "job.json").read_text())
        results = json.loads((submitted.out / "results" / "skim.json").read_text())
        assert [len(one) for one in partial] == [results["events"]] * 3
        assert [one["rows"] for one in record["tables"]] == [results["events"]] * 3
        assert len(partial[0]) < len(expected[0])
        train.pause(0)
        assert submitted.resume() == 1
        assert submitted.wait(TIMEOUT_S).ended == "finished"
        assert rows_of(submitted.out) == expected
        # Nothing is left but the tables.
        assert not (submitted.out / "batch" / "tables").exists()
        record = json.loads((submitted.out / "job.json").read_text())
        assert [(one["pieces"], one["is_merged"]) for one in record["tables"]] == [(8, True)] * 3
        assert {name for one in record["tables"] for name in one["files"]} == {
            str(one.relative_to(submitted.out)) for one in (submitted.out / "tables").rglob("*") if one.is_file()
        }
        assert next(one for one in record["wagons"] if one["name"] == "skim")["not_reusable"] == ""
    finally:
        submitted.cancel()


def test_a_directory_that_cannot_be_written_is_refused_before_anything_is_sent(
    submit: Any, train: Train, slurm: Slurm
) -> None:
    (train.folder / "file").write_text("")
    ended = run_branchline(train.folder, [*train.words, "-o", "file/out", "--on", "slurm"])
    assert ended.returncode == 1
    assert "file/out" in ended.stderr
    assert not slurm.command("squeue", "--noheader").strip()


def test_without_slurm_the_error_says_what_to_do(train: Train) -> None:
    ended = run_branchline(train.folder, [*train.words, "-o", "out", "--on", "slurm"], {"PATH": "/nowhere"})
    assert ended.returncode == 1
    assert "the command squeue was not found" in ended.stderr
    assert "slurm-client" in ended.stderr
    assert not (train.folder / "out").exists()


def test_held_tasks_are_released_by_the_command_in_the_status(
    submit: Any, train: Train, original: Train, slurm: Slurm
) -> None:
    with slurm.drained():
        submitted = submit("--tasks", 2)
        first = jobs_of(submitted)[0].submitted.ids[0]
        slurm.command("scontrol", "hold", first)
        status = submitted.status()
        assert status.release == f"scontrol release {first}"
        assert "JobHeldAdmin" in status.waiting or "JobHeldUser" in status.waiting
        shown = run_branchline(train.folder, ["status", "out"])
        assert f"release the held tasks: scontrol release {first}" in shown.stdout
        slurm.command(*status.release.split())
    status = submitted.wait(TIMEOUT_S)
    assert (status.ended, status.release) == ("finished", "")
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_tasks_that_never_started_did_not_fail(submit: Any, train: Train, slurm: Slurm) -> None:
    with slurm.drained():
        submitted = submit("--tasks", 2)
        submitted.cancel()
        wait_until(lambda: not submitted.status().tasks, "the end of the tasks", TIMEOUT_S)
    status = submitted.status()
    assert (status.not_started, status.failed, status.causes) == (FILES, 0, {})
    shown = run_branchline(train.folder, ["status", "out"])
    assert f"0 failed, {FILES} not started" in shown.stdout


def test_the_error_of_a_task_that_dies_while_it_starts_is_in_the_status(
    submit: Any, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = train.folder / "broken"
    broken.mkdir()
    (broken / "cloudpickle.py").write_text("import a_package_that_this_node_lacks\n")
    own_python(train, monkeypatch, f"export PYTHONPATH={broken}")
    status = submit("--tasks", 1).wait(TIMEOUT_S)
    [cause] = status.causes
    assert "exit code 1: ModuleNotFoundError: No module named 'a_package_that_this_node_lacks'" in cause


def test_missing_work_is_sent_again_although_nothing_has_finished(
    submit: Any, train: Train, original: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = train.folder / "first"
    own_python(train, monkeypatch, f"mkdir {mark} 2>/dev/null && exit 1")
    submitted = submit("--tasks", 1, "--retries", 1)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.ended) == (FILES, "finished"), status
    assert [one.retry for one in jobs_of(submitted)] == [0, 1]
    assert files_of(submitted.out) == files_of(original.folder / "local")


def test_the_status_does_not_wait_for_a_controller_that_hangs(submit: Any, train: Train, slurm: Slurm) -> None:
    train.pause(1)
    submitted = submit("--tasks", 1)
    with slurm.controller_paused():
        status = submitted.status()
    assert "squeue did not answer within 1.50 s" in status.silence
    assert submitted.wait(TIMEOUT_S).ended == "finished"
