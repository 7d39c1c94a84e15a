"""The control room forgets rows of files and jobs that are too old or too many, and keeps all sums."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.control.batches import batch, identity, last, read

from branchline.control.history.compaction import write_waiting
from branchline.control.reports.jobs import JobQuery
from branchline.control.reports.readings import Period
from branchline.control.room import ControlRoom
from branchline.control.upkeep import Forgotten, Retention, forget
from branchline.errors import OptionError
from branchline.records.sending.message import JobIdentity, ReportBatch

NOW = datetime.now(UTC)
HERE = "root://se.example"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    yield room
    room.close()


def job_of(room: ControlRoom, days: int, *, waits: bool = False) -> JobIdentity:
    """A job that read a file so many days ago."""
    who = identity(f"job{days}", begin=NOW - timedelta(days=days))
    assert room.take(batch(who, 0, read(f"f{days}", HERE, 100, 1.0), after_s=0.0))
    if not waits:
        assert write_waiting(room._history)
    return who


def files(room: ControlRoom) -> list[Path]:
    return sorted((room.folder / "history").glob("date=*/*.parquet"))


@pytest.mark.parametrize("waits", [False, True])
def test_old_rows_go_whether_they_wait_or_not_and_sums_stay(room: ControlRoom, waits: bool) -> None:
    old, young = job_of(room, 40, waits=waits), job_of(room, 20, waits=waits)
    before = room.site_table(Period())
    assert forget(room._history, Retention(files_days=30), NOW) == Forgotten(rows=1)
    assert (room.files(old.job).total, room.files(young.job).total) == (0, 1)
    assert len(files(room)) == (0 if waits else 1)
    assert room.site_table(Period()) == before
    assert room.jobs(JobQuery()).total == 2


def test_the_oldest_rows_go_when_there_are_too_many_bytes(room: ControlRoom) -> None:
    jobs = [job_of(room, days) for days in (3, 2, 1)]
    one_bytes = max(path.stat().st_size for path in files(room))
    assert forget(room._history, Retention(files_bytes=2 * one_bytes), NOW) == Forgotten(rows=1)
    assert [room.files(one.job).total for one in jobs] == [0, 1, 1]
    assert forget(room._history, Retention(files_bytes=0), NOW) == Forgotten(rows=2)
    assert files(room) == []


def test_a_forgotten_job_leaves_its_sums_and_costs_and_is_not_taken_again(room: ControlRoom) -> None:
    ended, running = identity("ended"), identity("running", "bob")
    sent: list[ReportBatch] = [batch(ended, 0, read("f", HERE, 100, 1.0)), last(ended, 1)]
    for one in [*sent, batch(running, 0, read("g", HERE, 100, 1.0))]:
        room.take(one)
    tables = room.site_table(Period()), room.costs("user", Period()), room.costs("wagon", Period())
    much_later = NOW + timedelta(days=500)
    assert forget(room._history, Retention(), much_later) == Forgotten(rows=2, jobs=2)
    assert room.jobs(JobQuery()).total == 0
    assert room.job(ended.job) is None
    assert (room.site_table(Period()), room.costs("user", Period()), room.costs("wagon", Period())) == tables
    with pytest.raises(ValueError, match="deleted here after its retention time"):
        room.take(sent[0])
    with room._database.reading() as connection:
        for table in ("jobs", "job_blobs", "job_wagons", "job_places", "sources", "points", "cells", "history_jobs"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,), table


def test_a_job_is_kept_as_long_as_it_is_heard_of(room: ControlRoom) -> None:
    who = job_of(room, 600)
    assert forget(room._history, Retention(), NOW) == Forgotten(rows=1)
    assert room.job(who.job) is not None
    room.take(replace(batch(who, 1), made=NOW.isoformat()))
    assert forget(room._history, Retention(), NOW + timedelta(days=399)).jobs == 0


@pytest.mark.parametrize(
    "wrong",
    [Retention(files_days=0), Retention(90, jobs_days=89), Retention(jobs_days=10**9), Retention(files_bytes=-1)],
)
def test_what_cannot_be_kept_so_is_refused(tmp_path: Path, wrong: Retention) -> None:
    with pytest.raises(OptionError):
        ControlRoom(tmp_path, retention=wrong)
    ControlRoom(tmp_path, retention=Retention()).close()


def test_the_room_writes_waiting_rows_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.upkeep.UPKEEP_PAUSE_S", 0.01)
    monkeypatch.setattr("branchline.control.upkeep.PENDING_ROWS_MAX", 2)
    room = ControlRoom(tmp_path)
    who = identity(begin=NOW - timedelta(minutes=1))
    room.take(batch(who, 0, read("a", HERE, 100, 1.0), read("b", HERE, 100, 1.0)))
    deadline = datetime.now(UTC) + timedelta(seconds=30)
    while not files(room) and datetime.now(UTC) < deadline:
        assert room.upkeep.trouble == ""
    assert len(files(room)) == 1
    room.close()


def test_what_upkeep_cannot_do_it_says_and_tries_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.upkeep.UPKEEP_PAUSE_S", 0.01)
    monkeypatch.setattr("branchline.control.upkeep.PENDING_ROWS_MAX", 1)
    (tmp_path / "history").write_text("in the way")
    room = ControlRoom(tmp_path)
    room.take(batch(identity(begin=NOW - timedelta(minutes=1)), 0, read("a", HERE, 100, 1.0)))
    deadline = datetime.now(UTC) + timedelta(seconds=30)
    while not room.upkeep.trouble and datetime.now(UTC) < deadline:
        pass
    assert "history" in room.upkeep.trouble
    (tmp_path / "history").unlink()
    while room.upkeep.trouble and datetime.now(UTC) < deadline:
        pass
    assert len(files(room)) == 1
    room.close()
