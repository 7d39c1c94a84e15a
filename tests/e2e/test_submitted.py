"""A train that is submitted to a Slurm that really runs; `make test-cluster` has many more."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.branchline_command import run_branchline
from tests.clusters.farm import Train, files_of
from tests.clusters.slurm import Slurm
from tests.e2e.control_room import TOKEN, Room

from branchline.trains.submitted.handle import SubmittedTrain


@pytest.fixture
def slurm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    farm = Slurm()
    try:
        farm.start()
        for name, value in farm.environment.items():
            monkeypatch.setenv(name, value)
        yield farm
    finally:
        farm.close()


def test_a_submitted_train_has_the_results_of_this_machine(slurm: Slurm, tmp_path: Path) -> None:
    train = Train(tmp_path, 3).make()
    here = run_branchline(tmp_path, [*train.words, "-o", "local", "--workers", "1"])
    assert here.returncode == 0, here.stderr
    submitted = run_branchline(tmp_path, [*train.words, "-o", "out", "--on", "slurm", "--tasks", "2"])
    assert submitted.returncode == 0, submitted.stderr
    assert submitted.stdout.startswith("submitted: 3 sub-jobs in 3 tasks\n")
    assert slurm.command("squeue", "--noheader").strip()
    status = SubmittedTrain(tmp_path / "out").wait(200)
    assert (status.done, status.ended) == (3, "finished"), status
    assert files_of(tmp_path / "out") == files_of(tmp_path / "local")
    shown = run_branchline(tmp_path, ["status", "out"])
    assert shown.returncode == 0
    assert shown.stdout.startswith("3 sub-jobs: 3 done, 0 running, 0 queued, 0 failed; 1 800 000 events done\n")


@pytest.mark.long
def test_the_jobs_of_a_submitted_train_report_what_each_read_and_the_last_one_its_end(
    slurm: Slurm, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN_FILE", str(token))
    train = Train(tmp_path, 3).make()
    words = [*train.words, "-o", "out", "--on", "slurm", "--tasks", "2", "--report-to"]
    refused = run_branchline(tmp_path, [*words, f"{room.url}?token={TOKEN}"])
    assert refused.returncode == 2
    assert "is not passed on to the jobs of a submitted train" in refused.stderr
    submitted = run_branchline(tmp_path, [*words, room.url])
    assert submitted.returncode == 0, submitted.stderr
    [first] = [one for one in room.received() if one.source == "submission" and one.number == 0]
    assert (first.identity.place, first.status and first.status.queued) == ("slurm", 3)
    status = SubmittedTrain(tmp_path / "out").wait(200)
    assert (status.done, status.ended) == (3, "finished"), status
    batches = room.received()
    assert {one.identity.job for one in batches} == {first.identity.job}
    assert len({one.source for one in batches}) == 4
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    for name in ("bytes_read", "events"):
        assert sum(getattr(one, name) for batch in batches for one in batch.files) == sum(
            one[name] for one in job["files"]
        )
    assert sum(one.files for batch in batches for one in batch.sites) == 3
    [last] = [one for one in batches if one.record is not None]
    assert last.status is not None
    assert (last.status.status, last.status.events) == ("finished", job["events"])
    assert list((tmp_path / "out" / "batch" / "reports").iterdir()) == []
    for path in (tmp_path / "out").rglob("*"):
        assert not path.is_file() or TOKEN.encode() not in path.read_bytes(), path


@pytest.mark.long
def test_no_run_replaces_a_submitted_train_whose_jobs_wait(slurm: Slurm, tmp_path: Path) -> None:
    train = Train(tmp_path, 2).make()
    words = [*train.words, "-o", "out", "--on", "slurm", "--tasks", "1"]
    submitted = run_branchline(tmp_path, [*words, "--batch-option=--begin=now+600"])
    assert submitted.returncode == 0, submitted.stderr
    submission = tmp_path / "out" / "batch" / "submission"
    assert submission.stat().st_mode & 0o777 == 0o600
    before = submission.read_bytes()
    for where in (["--workers", "1"], ["--on", "slurm"]):
        refused = run_branchline(tmp_path, [*train.words, "-o", "out", "--force", *where])
        assert refused.returncode == 1, refused
        assert "jobs of an earlier train are waiting or running in this directory" in refused.stderr
        assert "branchline cancel" in refused.stderr
    assert submission.read_bytes() == before
    assert SubmittedTrain(tmp_path / "out").status().queued == 2
    assert run_branchline(tmp_path, ["cancel", "out"]).returncode == 0
    here = run_branchline(tmp_path, [*train.words, "-o", "out", "--force", "--workers", "1"])
    assert here.returncode == 0, here.stderr
    # Where the batch system does not answer, only a train that has ended may be replaced.
    again = run_branchline(tmp_path, words)
    assert again.returncode == 1
    assert run_branchline(tmp_path, [*words, "--force", "--batch-option=--begin=now+600"]).returncode == 0
    unknown = run_branchline(tmp_path, [*train.words, "-o", "out", "--force"], {"PATH": "/nonexistent"})
    assert unknown.returncode == 1, unknown
    assert "the command squeue was not found" in unknown.stderr
    assert SubmittedTrain(tmp_path / "out").status().tasks == 1


@pytest.mark.long
def test_what_the_jobs_of_a_train_could_not_send_is_sent_from_its_directory(
    slurm: Slurm, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN", TOKEN)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    room.process.kill()
    train = Train(tmp_path, 2).make()
    words = [*train.words, "-o", "out", "--on", "slurm", "--tasks", "2", "--report-to", room.url]
    submitted = run_branchline(tmp_path, words)
    assert "could not be sent" in submitted.stderr
    assert SubmittedTrain(tmp_path / "out").wait(200).ended == "finished"
    waiting = list((tmp_path / "out" / "batch" / "reports").rglob("*.json.gz"))
    assert len(waiting) >= 4
    # Another run into the same directory removes the folder of the jobs, and not what they have to report.
    again = run_branchline(tmp_path, [*train.words, "-o", "out", "--force", "--workers", "1"])
    assert again.returncode == 0, again.stderr
    room.process.start()
    sent = run_branchline(tmp_path, ["report", "send", "--to", room.url])
    assert sent.stdout == f"sent to {room.url}: {len(waiting)} reports\n"
    assert sum(one.record is not None for one in room.received()) == 1
