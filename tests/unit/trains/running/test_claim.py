"""A directory for results is held by one run at a time, whatever file system it is on."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from branchline.base.limits import STATUS_OLD_S
from branchline.errors import BranchlineError, StorageError
from branchline.records.sensors.this_process import host
from branchline.trains.out_folder.claim import NOTE, claimed


@pytest.fixture
def no_locks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system that knows no locks, as some that are mounted over the network."""

    def refused(*_: Any) -> None:
        raise OSError(errno.EBADF, "Bad file descriptor")

    monkeypatch.setattr(fcntl, "flock", refused)


def test_a_directory_is_held_by_one_and_free_again_afterwards(tmp_path: Path) -> None:
    out = tmp_path / "new" / "out"
    with claimed(out, force=False) as claim:
        claim.begin("branchline run")
        with pytest.raises(BranchlineError, match=f"another run .* process {os.getpid()} on {host()}"):
            claimed(out, force=True).__enter__()
    replace_record(out, "running")  # as by another process
    with pytest.raises(BranchlineError, match=r"unfinished run .*--force, force=True"):
        claimed(out, force=False).__enter__()
    with claimed(out, force=True):
        pass


def test_what_this_process_made_is_replaced_and_what_came_since_is_not(tmp_path: Path) -> None:
    out = tmp_path / "out"
    for _ in range(2):
        with claimed(out, force=False) as claim:
            claim.begin("branchline run")
            replace_record(out, "finished")
    moved = tmp_path / "moved"
    out.rename(moved)
    for made_elsewhere in (out, moved):
        made_elsewhere.mkdir(exist_ok=True)
        replace_record(made_elsewhere, "finished")
        with pytest.raises(BranchlineError, match="there are results in this directory"):
            claimed(made_elsewhere, force=False).__enter__()


def replace_record(out: Path, status: str) -> None:
    """Puts a record there as runs do: a new file each time."""
    (out / "job.new").write_text(json.dumps({"status": status, "written": ["job.json"]}))
    (out / "job.new").replace(out / "job.json")


def test_a_run_that_did_not_begin_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), claimed(tmp_path / "new" / "out", force=False):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_run_wrote_is_removed_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    for name in ("results/a.json", "results/mine.txt", "job.json", NOTE):
        (tmp_path / name).write_text("{}")
    (tmp_path / "job.json").write_text(json.dumps({"status": "finished", "written": ["results/a.json", "job.json"]}))
    with claimed(tmp_path, force=True) as claim:
        claim.begin("")
        assert not (tmp_path / "results" / "a.json").exists()
        assert (tmp_path / "results" / "mine.txt").exists()
        assert json.loads((tmp_path / "job.json").read_text())["status"] == "running"
        claim.mark([])
    assert not (tmp_path / NOTE).exists()


@pytest.mark.usefixtures("no_locks")
def test_without_locks_the_record_tells_whether_the_run_lives(tmp_path: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        record = {"status": "running", "host": host(), "process": child.pid}
        (tmp_path / "job.json").write_text(json.dumps(record))
        with pytest.raises(BranchlineError, match=f"another run .* process {child.pid}"):
            claimed(tmp_path, force=True).__enter__()
    finally:
        child.communicate(b"\n")
    with claimed(tmp_path, force=True):
        pass


@pytest.mark.usefixtures("no_locks")
def test_without_locks_a_run_of_another_machine_holds_the_directory_while_it_writes_its_state(tmp_path: Path) -> None:
    with claimed(tmp_path, force=True) as claim:
        claim.begin("branchline run")
        record = json.loads((tmp_path / "job.json").read_text())
        (tmp_path / "job.json").write_text(json.dumps({**record, "host": "another.machine"}))
        with pytest.raises(BranchlineError, match=r"another run .* on another\.machine") as raised:
            claimed(tmp_path, force=True).__enter__()
        assert f"{STATUS_OLD_S:.0f} s after its end" in str(raised.value.hint)
        silent_s = time.time() - STATUS_OLD_S - 1
        os.utime(tmp_path / "status.json", (silent_s, silent_s))
        with claimed(tmp_path, force=True):
            pass
    # The last job of a submitted train, on another machine than the one that submitted it.
    assert json.loads((tmp_path / "job.json").read_text())["status"] == "running"
    with claimed(tmp_path, force=True):
        pass


def test_what_cannot_be_a_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BranchlineError, match="this is a file"):
        claimed(tmp_path / "file", force=True).__enter__()
    with pytest.raises(StorageError, match="cannot write results here"):
        claimed(tmp_path / "file" / "out", force=True).__enter__()


def test_a_linked_folder_of_an_earlier_train_is_not_used_again(tmp_path: Path) -> None:
    scratch, out = tmp_path / "scratch", tmp_path / "out"
    (scratch / "kept").mkdir(parents=True)
    (scratch / "kept" / "0").write_bytes(b"results of another train")
    (scratch / "submission").write_bytes(b"")
    out.mkdir()
    (out / "batch").symlink_to(scratch)
    (out / "job.json").write_text(json.dumps({"status": "failed"}))
    with claimed(out, force=True) as claim:
        claim.begin("")
        assert not (out / "batch").exists()
    assert (scratch / "kept" / "0").exists()
    assert not list(out.glob(".removed-*"))


def test_a_directory_that_changes_its_identity_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os.path, "samestat", lambda *_: False)
    with pytest.raises(StorageError, match="cannot be locked"):
        claimed(tmp_path, force=True).__enter__()
