"""What fails in the background of a control room: it is said where people look, and no thread ends with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.control.batches import batch, identity, read
from tests.unit.records.sending.taking_server import until

from branchline.base.plain import to_plain
from branchline.control import background_errors
from branchline.control.background_errors import trouble_of
from branchline.control.metrics import troubles_of
from branchline.control.room import ControlRoom
from branchline.control.room_errors import DatabaseError
from branchline.control.trains.train import Train, TrainOrder
from branchline.errors import InternalError
from branchline.records.sensors.record import FAILED

ELEMENT = "root://se.example"


@pytest.fixture(autouse=True)
def _nothing_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background_errors, "_PRINTED", background_errors._Printed())


@pytest.fixture
def room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ControlRoom]:
    monkeypatch.setattr("branchline.control.upkeep.UPKEEP_PAUSE_S", 0.02)
    monkeypatch.setattr("branchline.control.database.DATABASE_WAIT_S", 0.05)
    with closing(ControlRoom(tmp_path / "room")) as found:
        yield found


def why(room: ControlRoom, part: str) -> str:
    [found] = [one.why for one in troubles_of(room) if one.part == part]
    return found


def test_a_fault_of_ours_in_the_background_has_its_traceback_in_the_log_once(
    room: ControlRoom, capfd: pytest.CaptureFixture[str]
) -> None:
    with room._database.writing() as connection:
        row = (1, "2026-01-01", "", "no time", 1, b"")
        connection.execute(
            "INSERT INTO pending (job_id, day, made, taken, rows, content) VALUES (?, ?, ?, ?, ?, ?)", row
        )
    until(lambda: why(room, "upkeep"))
    said = "internal error in Branchline, please report it, with the output of the server: ValueError: "
    assert said in why(room, "upkeep")
    rounds = room.upkeep._thread
    with room._database.writing() as connection:
        connection.execute("UPDATE pending SET taken = 'another time'")
    until(lambda: "another time" in why(room, "upkeep"))
    assert rounds.is_alive()
    with room._database.writing() as connection:
        connection.execute("DELETE FROM pending")
    until(lambda: not why(room, "upkeep"))
    said = capfd.readouterr().err
    assert "Internal error in Branchline, upkeep, please report it" in said
    assert said.count("Traceback (most recent call last)") == 1
    assert "in _is_due" in said


def test_a_trouble_that_is_no_fault_of_ours_has_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    full = DatabaseError("the disk is full", hint="make room there")
    assert trouble_of(full, "upkeep") == "the disk is full (make room there)"
    assert capsys.readouterr().err == ""


def failed(error: Exception) -> Exception:
    """An error with a traceback."""
    try:
        raise error
    except type(error) as found:
        return found


def test_what_is_printed_of_faults_is_bounded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(background_errors, "FAULT_TEXT_MAX", 1000)
    monkeypatch.setattr(background_errors, "FAULTS_PRINTED_MAX", 2)
    trouble_of(failed(ValueError("x" * 100_000)), "one\x1b[31m")
    assert trouble_of(failed(InternalError("wrong", hint="report it")), "two") == "wrong (report it)"
    trouble_of(failed(KeyError("three")), "three")
    said = capsys.readouterr().err
    assert len(said) < 3000
    assert "\x1b" not in said
    assert "Printed tracebacks of 2 internal errors" in said
    assert "three" not in said


def test_a_longer_period_that_cannot_be_looked_at_is_a_trouble_too(room: ControlRoom) -> None:
    before = datetime.now(UTC) - timedelta(days=10)
    room.take(batch(identity(begin=before), 0, read(f"{ELEMENT}//a", ELEMENT, 1000, 1.0)))
    room.upkeep.tidy()
    [kept] = (room.folder / "history").rglob("*.parquet")
    kept.write_bytes(b"damaged")
    room.findings.start()
    until(lambda: why(room, "findings"))
    assert why(room, "findings").startswith("month: ")


def test_trains_are_followed_again_when_the_disk_takes_writes_again(room: ControlRoom) -> None:
    order = TrainOrder("ada", "nightly", "ada/nothing", ["ada/nobody"])
    with room._database.writing() as connection:
        content = json.dumps(to_plain(Train(1, order)))
        connection.execute("INSERT INTO trains (number, content, state) VALUES (1, ?, 'starting')", (content,))
    with closing(sqlite3.connect(room.folder / "control.sqlite", isolation_level=None)) as holder:
        holder.execute("BEGIN IMMEDIATE")
        room.trains.start()
        until(lambda: "another process has locked it" in why(room, "trains"))
        holder.execute("ROLLBACK")
    until(lambda: not why(room, "trains"))
    until(lambda: room.trains.train(1).state == FAILED)
