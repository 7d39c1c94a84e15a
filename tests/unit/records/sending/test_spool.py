"""Reports on disk: whole or not at all, the user's own, bounded, each with one process at work on it."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
import time
import uuid
from pathlib import Path

import pytest

from branchline.base.limits import SPOOL_QUIET_S, SPOOL_REFUSED_MAX
from branchline.errors import StorageError
from branchline.records.sending.spool import Spool, SpooledSource, SpoolFullError, move_reports

JOB = "0123456789abcdef0123456789abcdef"
SERVER = "http://room.example"


def begun(spool: Spool, source: str = "job", job: str = JOB) -> SpooledSource:
    found = spool.source(job, source)
    found.begin(SERVER)
    return found


def test_reports_are_there_in_their_order_with_their_server(spool: Spool) -> None:
    source = begun(spool)
    for number in (10, 9, 100):
        source.write(number, b"%d" % number, is_last=number == 100)
    [found] = spool.sources()
    assert (found.server(), found.job, found.name) == (SERVER, JOB, "job")
    assert [found.read(one) for one in found.reports()] == [b"9", b"10", b"100"]


def test_nobody_else_may_read_a_report(spool: Spool) -> None:
    source = begun(spool)
    source.write(0, b"a", is_last=False)
    for path in [spool.folder, *spool.folder.rglob("*")]:
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path


def test_one_process_at_a_time_works_on_a_source(spool: Spool) -> None:
    source = begun(spool)
    source.write(0, b"a", is_last=False)
    [other] = Spool(spool.folder).sources()
    assert not other.lock()
    assert begun(spool, "other").lock() is False
    source.close()
    assert other.lock()


def test_what_has_nothing_to_send_leaves_nothing(spool: Spool) -> None:
    source, other = begun(spool, "a"), begun(spool, "b")
    report = source.write(0, b"a", is_last=False)
    source.sent(report)
    source.close()
    assert (spool.folder / JOB).is_dir()
    other.close()
    assert not (spool.folder / JOB).exists()


def test_reports_stay_when_their_process_lets_go(spool: Spool) -> None:
    source = begun(spool)
    source.write(0, b"a", is_last=False)
    source.close()
    assert [one.number for one in spool.source(JOB, "job").reports()] == [0]


def test_a_lock_that_a_killed_process_left_is_removed(spool: Spool) -> None:
    source = begun(spool)
    half = source.folder / ".writing-0"
    half.touch()
    os.close(source._lock or 0)
    spool = Spool(spool.folder)
    spool.clear()
    assert sorted(path.name for path in source.folder.iterdir()) == [".writing-0"]
    old_s = time.time() - SPOOL_QUIET_S - 10
    os.utime(half, (old_s, old_s))
    spool.clear()
    assert not half.exists()


def test_a_full_spool_takes_no_more_but_the_last_reports_of_jobs(tmp_path: Path) -> None:
    spool = Spool(tmp_path / "spool", max_bytes=1000)
    source = begun(spool)
    source.write(0, b"a" * 900, is_last=False)
    with pytest.raises(SpoolFullError):
        source.write(1, b"a" * 900, is_last=False)
    source.write(1, b"a" * 900, is_last=True)
    # Another job sees what is there.
    with pytest.raises(SpoolFullError):
        begun(Spool(spool.folder, max_bytes=1000), job=uuid.uuid4().hex).write(0, b"a", is_last=False)


def test_a_spool_that_was_sent_takes_reports_again(tmp_path: Path) -> None:
    source = begun(Spool(tmp_path / "spool", max_bytes=1000))
    for number in range(10):
        source.sent(source.write(number, b"a" * 900, is_last=False))


def test_a_refused_report_is_moved_aside_and_the_oldest_of_these_go(spool: Spool) -> None:
    source = begun(spool)
    for number in range(SPOOL_REFUSED_MAX + 3):
        source.refuse(source.write(number, b"a", is_last=False))
    assert source.reports() == []
    names = [path.name for path in spool.refused()]
    assert len(names) == SPOOL_REFUSED_MAX
    assert f"{JOB}-job-{SPOOL_REFUSED_MAX + 2}.json.gz" in names
    assert spool.sources() == []


def test_names_from_elsewhere_are_no_paths(spool: Spool) -> None:
    for job, source in (
        ("../" + JOB[3:], "job"),
        (JOB, "../job"),
        (JOB, "a/b"),
        (JOB, ""),
        (JOB, "a-1"),
        ("A" * 32, "a"),
    ):
        with pytest.raises(ValueError):
            spool.source(job, source)


def test_a_disk_that_refuses_is_an_error_with_its_path(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = begun(spool)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(StorageError, match="No space left"):
        source.write(0, b"a", is_last=False)
    assert [path.name for path in source.folder.iterdir()] == ["job.lock"]


def test_without_locks_a_source_is_left_alone_until_it_is_quiet(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    source = begun(spool)
    report = source.write(0, b"a", is_last=False)

    def none(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", none)
    [other] = Spool(spool.folder).sources()
    assert not other.lock()
    old_s = time.time() - SPOOL_QUIET_S - 10
    os.utime(report.path, (old_s, old_s))
    assert other.lock()


def test_reports_of_a_folder_that_goes_are_moved(tmp_path: Path, spool: Spool) -> None:
    old = Spool(tmp_path / "out" / "reports")
    for name in ("a", "b"):
        source = begun(old, name)
        source.write(3, name.encode(), is_last=name == "b")
        source.close()
    move_reports(old.folder, spool)
    assert old.sources() == []
    found = spool.sources()
    assert [(one.server(), [one.read(report) for report in one.reports()]) for one in found] == [
        (SERVER, [b"a"]),
        (SERVER, [b"b"]),
    ]


def test_the_spool_of_a_user_is_in_the_state_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    assert Spool.of_user() == Spool(Path("/state/branchline/spool"))
    monkeypatch.setenv("XDG_STATE_HOME", "relative")
    monkeypatch.setenv("HOME", "/a/house")
    assert Spool.of_user() == Spool(Path("/a/house/.local/state/branchline/spool"))
    monkeypatch.setenv("HOME", "nowhere")
    assert Spool.of_user() is None
