"""Directories of results that another user made: their state is shown, and nothing in them is run."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.branchline_command import run_branchline

from branchline.base.trust import VARIABLE
from branchline.jobs.batch.task_steps import JobArray, Submitted
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.ledger import LEDGER_NAME, Ledger, LedgerRow
from branchline.records.result_files.job_files import write_job
from branchline.records.sensors.record import PARTIAL, JobRecord
from branchline.records.sensors.this_process import branchline_version
from branchline.trains.reuse.reuse import LEARNED_NAME, TRAIN_NAME
from branchline.trains.submitted.submission import JobsRecord, StepRecord, TrainOutline
from branchline.trains.submitted.submission_folder import BatchFolder, framed

NOBODY = 65534
only_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")


class Attack:
    """Leaves a file where it is unpickled."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (self.marker,)


@pytest.fixture
def marker(tmp_path: Path) -> Path:
    return tmp_path / "code of another user ran"


def submission_in(out: Path, marker: Path) -> BatchFolder:
    """What an attacker writes into a directory to look like a submitted train."""
    out.mkdir()
    folder = BatchFolder(out)
    folder.make()
    outline = TrainOutline("a train", "slurm", "2026-01-01T00:00:00+00:00", time.time(), 0, 3)
    outline.write_outline(folder)
    python = ".".join(map(str, __import__("sys").version_info[:2]))
    head = {"branchline_version": branchline_version(), "python": python}
    folder.submission.write_bytes(framed("submission", Attack(marker), head))
    for one in ("units/0.0", "rows/0.0", "kept/0"):
        (folder.path / one).write_bytes(framed({"u": "result", "r": "rows", "k": "kept"}[one[0]], Attack(marker)))
    steps = (StepRecord("0.0", ((FoldNode(0, 0),), (FoldNode(0, 1),))),)
    JobsRecord(0, Submitted("slurm", (JobArray("424242"),)), 0.0, steps).write(folder)
    write_job(out, JobRecord(branchline=branchline_version(), status=PARTIAL))
    return folder


def give_away(out: Path) -> None:
    for one in (out, *out.rglob("*")):
        os.chown(one, NOBODY, NOBODY)


def let_all_write(out: Path) -> None:
    for one in (out, *out.rglob("*")):
        one.chmod(0o777 if one.is_dir() else 0o666)


HOW = [pytest.param(give_away, marks=only_root), let_all_write]
COMMANDS = [["resume", "out"], ["rerun", "out", "0"], ["reproduce", "out"]]


@pytest.mark.parametrize("make_foreign", HOW)
@pytest.mark.parametrize("words", [*COMMANDS, ["cancel", "out"]], ids=" ".join)
def test_what_another_user_could_write_is_not_run(
    tmp_path: Path, marker: Path, words: list[str], make_foreign: Callable[[Path], None]
) -> None:
    submission_in(tmp_path / "out", marker)
    make_foreign(tmp_path / "out")
    ended = run_branchline(tmp_path, words)
    assert ended.returncode == 1, ended
    owner, mode = ("65534)", "0644") if make_foreign is give_away else (f"{os.geteuid()})", "0666")
    assert "would run as code" in ended.stderr
    assert owner in ended.stderr
    assert f"mode {mode}" in ended.stderr or "mode 0600" in ended.stderr
    assert not marker.exists()


@only_root
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("by", ["option", "variable"])
def test_a_user_who_is_named_is_trusted(tmp_path: Path, marker: Path, words: list[str], by: str) -> None:
    submission_in(tmp_path / "out", marker)
    give_away(tmp_path / "out")
    if by == "option":
        ended = run_branchline(tmp_path, [*words, "--trust-user", str(NOBODY)])
    else:
        ended = run_branchline(tmp_path, words, {VARIABLE: str(NOBODY)})
    assert marker.exists(), ended


@pytest.mark.parametrize("make_foreign", HOW)
def test_the_state_of_a_train_of_another_user_is_shown(
    tmp_path: Path, marker: Path, make_foreign: Callable[[Path], None]
) -> None:
    submission_in(tmp_path / "out", marker)
    make_foreign(tmp_path / "out")
    ended = run_branchline(tmp_path, ["status", "out"])
    assert "3 sub-jobs: " in ended.stdout, ended
    assert not marker.exists()
    (tmp_path / "out" / "job.json").unlink()
    ended = run_branchline(tmp_path, ["status", "out"])
    assert not marker.exists()
    if make_foreign is give_away:
        assert "the state of its jobs is only known to" in ended.stdout
        assert "unknown; " in ended.stdout


def test_another_user_sees_the_state_and_no_secrets(tmp_path: Path, marker: Path) -> None:
    folder = submission_in(tmp_path / "out", marker)
    for one in (folder.path, folder.jobs, folder.units, folder.accounts):
        assert one.stat().st_mode & 0o777 == 0o755, one
    for one in (folder.logs, folder.rows_folder, folder.kept_folder):
        assert one.stat().st_mode & 0o077 == 0, one
    for one in (folder.outline, folder.jobs / "0.json"):
        assert one.stat().st_mode & 0o777 == 0o644, one


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("train.json", b"{}"),
        ("train.json", b'{"branchline": "train", "version": 7, "id": 1}'),
        ("train.json", b"[" * 100_000),
        ("jobs/0.json", b'{"number": "x"}'),
        ("jobs/0.json", b"[" * 100_000),
        ("units/0.0", b'{"branchline": "result", "version": 7, "train": "a train", "events": "many"}\n'),
        ("units/0.0.failed", b'{"kind": 1}'),
        ("accounts/0.0.0.exit", b"x" * 1000),
    ],
)
def test_wrong_files_in_a_directory_are_no_internal_error(
    tmp_path: Path, marker: Path, name: str, content: bytes
) -> None:
    folder = submission_in(tmp_path / "out", marker)
    (folder.path / name).write_bytes(content)
    ended = run_branchline(tmp_path, ["status", "out"])
    assert "internal error in Branchline" not in ended.stderr, ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("field", "value"), [("subjobs_count", 10**15), ("subjobs_count", 0), ("system", "other"), ("unit_stage", 9)]
)
def test_an_outline_that_no_train_has_is_refused(tmp_path: Path, marker: Path, field: str, value: object) -> None:
    folder = submission_in(tmp_path / "out", marker)
    folder.outline.write_text(json.dumps(json.loads(folder.outline.read_text()) | {field: value}))
    ended = run_branchline(tmp_path, ["status", "out"])
    assert ended.returncode == 1
    assert "damaged" in ended.stderr


@pytest.mark.parametrize("number", ["--all", "-u root", "1; rm", "", "1\n2"])
def test_numbers_of_jobs_are_no_options(tmp_path: Path, marker: Path, number: str) -> None:
    folder = submission_in(tmp_path / "out", marker)
    (folder.jobs / "0.json").unlink()
    JobsRecord(0, Submitted("slurm", (JobArray(number),)), 0.0, ()).write(folder)
    for words in (["status", "out"], ["cancel", "out"]):
        ended = run_branchline(tmp_path, words)
        assert "unknown job" in ended.stderr, ended


@pytest.mark.parametrize("place", ["", "jobs", "units"])
def test_no_train_is_submitted_into_a_folder_that_others_can_write(tmp_path: Path, place: str) -> None:
    folder = BatchFolder(tmp_path)
    (folder.path / place).mkdir(parents=True, mode=0o755)
    (folder.path / place).chmod(0o777)
    with pytest.raises(PermissionError, match="mode 0777"):
        folder.make()


def data_and_wagons(folder: Path) -> list[str]:
    with uproot.recreate(folder / "f.root") as file:
        file.mktree("events", {"x": "int64"}).extend({"x": np.arange(100)})
    (folder / "wagons.py").write_text(
        "class N:\n    name = 'n'\n\n    def process(self, events):\n        return len(events)\n"
    )
    return ["run", "wagons.py", "f.root", "-o", "out", "--workers", "1", "--pictures", "none"]


def attacked_ledger(path: Path, marker: Path) -> None:
    """All results of a ledger, and its train, are replaced by an attack."""
    with closing(sqlite3.connect(path)) as connection:
        keys = [key for (key,) in connection.execute("SELECT key FROM results WHERE name <> ?", (LEARNED_NAME,))]
    ledger = Ledger(path)
    content = pickle.dumps(Attack(marker))
    ledger.put([LedgerRow(key, "n", "", content) for key in keys])
    ledger.put_of_job(TRAIN_NAME, content)
    ledger.close()


@pytest.mark.parametrize("how", ["file", "directory", "log", pytest.param("owner", marks=only_root), "link"])
def test_a_ledger_that_others_can_write_is_neither_used_nor_run(tmp_path: Path, marker: Path, how: str) -> None:
    words = data_and_wagons(tmp_path)
    assert run_branchline(tmp_path, words).returncode == 0
    out, ledger = tmp_path / "out", tmp_path / "out" / LEDGER_NAME
    attacked_ledger(ledger, marker)
    if how == "file":
        ledger.chmod(0o666)
    elif how == "directory":
        out.chmod(0o777)
    elif how == "log":
        Path(f"{ledger}-wal").touch()
        Path(f"{ledger}-wal").chmod(0o666)
    elif how == "owner":
        os.chown(ledger, NOBODY, NOBODY)
    else:
        ledger.rename(tmp_path / "elsewhere")
        (tmp_path / "elsewhere").chmod(0o666)
        ledger.symlink_to(tmp_path / "elsewhere")
    again = run_branchline(tmp_path, [*words, "--force"])
    assert again.returncode == 0, again.stderr
    notes = json.loads((out / "job.json").read_text())["reuse_notes"]
    assert any("would run as code" in one for one in notes), notes
    assert not marker.exists()
    assert "would run as code" in run_branchline(tmp_path, ["rerun", "out", "0"]).stderr
    assert not marker.exists()


def test_the_attack_on_a_ledger_works_where_nobody_looks(tmp_path: Path, marker: Path) -> None:
    words = data_and_wagons(tmp_path)
    assert run_branchline(tmp_path, words).returncode == 0
    attacked_ledger(tmp_path / "out" / LEDGER_NAME, marker)
    run_branchline(tmp_path, [*words, "--force"])
    assert marker.exists()


@only_root
def test_what_jobs_of_another_user_left_for_the_ledger_stays_out(tmp_path: Path, marker: Path) -> None:
    words = data_and_wagons(tmp_path)
    submission_in(tmp_path / "out", marker)
    shutil.rmtree(tmp_path / "out" / "batch" / "jobs")
    (tmp_path / "out" / "job.json").write_text('{"status": "finished"}')
    os.chown(tmp_path / "out" / "batch" / "rows" / "0.0", NOBODY, NOBODY)
    ended = run_branchline(tmp_path, [*words, "--force"])
    assert ended.returncode == 0, ended.stderr
    assert not marker.exists()
