"""Trains of a shared control room are among its jobs: live while they run, with their reads at the end, each once."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import psutil
import pytest
from tests.unit.control.batches import batch, identity
from tests.unit.control.killed import killed
from tests.unit.control.trains.shared_room import ADA, SharedRoom, until
from tests.unit.control.trains.test_sandboxed_trains import GATE, source

from branchline.control.reports.jobs import JobQuery, JobRow
from branchline.control.reports.readings import Period
from branchline.control.room import ControlRoom
from branchline.control.trains.results import files_of
from branchline.control.trains.room_reports import RoomReports
from branchline.control.trains.train import CANCELLED, Train, TrainOrder
from branchline.records.sending.message import ReportBatch
from branchline.records.sensors.record import (
    FAILED,
    FINISHED,
    PARTIAL,
    RUNNING,
    FileRecord,
    JobRecord,
    SiteReading,
    WagonRecord,
    WorkerPhases,
)
from branchline.records.sensors.status import TrainStatus
from branchline.records.sensors.this_process import host
from branchline.trains.out_folder.state import job_of

# Code of a wagon that writes the record of its train anew, once the train is over.
TAMPERING = """
import atexit, json

def tamper():
    out = of_train()
    if out is None or not (out / "job.json").exists():
        return
    job = json.loads((out / "job.json").read_text())
    if job["status"] == "running":
        return
    job["command"], job["host"] = "own", "own"
    job["wagons"].append({**job["wagons"][0], "name": "Other"})
    for one in [*job["sites"], *job["worker_phases"], *job["files"]]:
        one["site"] = "OTHER"
    (out / "job.json").write_text(json.dumps(job))

atexit.register(tamper)
"""


def jobs(room: ControlRoom) -> list[JobRow]:
    """All of them, the first one first."""
    return list(reversed(room.jobs(JobQuery()).rows))


def only_job(room: ControlRoom) -> JobRow:
    """The job that there is."""
    [found] = jobs(room)
    return found


def test_a_train_is_a_job_while_it_runs_and_its_reads_are_in_all_tables_at_its_end(
    made: list[SharedRoom], tmp_path: Path
) -> None:
    gate = tmp_path / "data" / "open"
    shared = SharedRoom(tmp_path, source(GATE % str(gate)))
    made.append(shared)
    number = shared.ordered()
    until(lambda: bool(jobs(shared.room)))
    row = only_job(shared.room)
    who = row.identity
    assert (row.status, who.name, who.user, who.host) == (RUNNING, "first", "ada", host())
    assert (who.wagons, who.datasets, who.place) == (["Wagon"], ["ada/events"], "here")
    assert who.out == str(shared.results(number))
    assert shared.room.trains.job(shared.room.trains.train(number)) == who.job
    gate.touch()
    assert shared.ended(number).state == FINISHED
    row = only_job(shared.room)
    assert (row.identity, row.status, row.events, row.done) == (who, FINISHED, 600, row.subjobs)
    assert {Path(one.path).name for one in shared.room.files(who.job).files} == {
        one.name for one in (tmp_path / "data").glob("*.root")
    }
    total = shared.room.site_table(Period()).total
    details = shared.room.job(who.job)
    assert details is not None
    assert details.record is not None
    assert details.record.command == who.command
    assert (total.jobs, total.every.files) == (1, 3)
    assert total.every.bytes_read == sum(one.bytes_read for one in details.record.sites) > 0
    [wagon] = shared.room.costs("wagon", Period())
    [user] = shared.room.costs("user", Period())
    assert (wagon.name, wagon.events, user.name, user.jobs) == ("Wagon", 600, "ada", 1)


@pytest.mark.long
def test_a_train_that_is_run_again_is_another_job_with_what_it_read_itself(
    made: list[SharedRoom], tmp_path: Path
) -> None:
    gate = tmp_path / "data" / "open"
    shared = SharedRoom(tmp_path, source(GATE % str(gate)))
    made.append(shared)
    number = shared.ordered()
    until(lambda: bool(jobs(shared.room)))
    os.kill(shared.room.trains.train(number).process, signal.SIGKILL)
    assert shared.ended(number).state == FAILED
    assert only_job(shared.room).status == FAILED
    details = shared.room.job(only_job(shared.room).identity.job)
    assert details is not None
    assert details.status is not None
    assert "died" in details.status.errors[0]
    gate.touch()
    shared.room.trains.again(number, ADA)
    until(lambda: shared.room.trains.train(number).state == FINISHED)
    first, second = jobs(shared.room)
    assert (first.status, second.status) == (FAILED, FINISHED)
    assert shared.room.trains.job(shared.room.trains.train(number)) == second.identity.job
    assert shared.room.site_table(Period()).total.every.files == 3


@pytest.mark.long
def test_a_cancelled_train_ends_as_a_job_with_what_it_has_read(made: list[SharedRoom], tmp_path: Path) -> None:
    # The first chunk was read by then.
    shared = SharedRoom(tmp_path, source('(out / "reads").touch()\nwhile True: time.sleep(0.05)'))
    made.append(shared)
    number = shared.ordered(workers=1)
    until(lambda: (shared.written(number) / "reads").exists())
    until(lambda: bool(jobs(shared.room)))
    shared.room.trains.cancel(number, ADA)
    until(lambda: only_job(shared.room).status != RUNNING)
    assert shared.room.trains.train(number).state == CANCELLED
    details = shared.room.job(only_job(shared.room).identity.job)
    assert details is not None
    assert details.record is not None
    assert details.record.interrupted
    total = shared.room.site_table(Period()).total
    assert total.every.bytes_read == sum(one.bytes_read for one in details.record.sites) > 0
    # Its results are there as far as they came.
    assert (shared.results(number) / "job.json").is_file()


@pytest.mark.long
def test_a_cancelled_train_that_is_run_again_at_once_has_its_results(made: list[SharedRoom], tmp_path: Path) -> None:
    """What the first run left is not taken over beneath the second one."""
    gate = tmp_path / "data" / "open"
    shared = SharedRoom(tmp_path, source(GATE % str(gate)))
    made.append(shared)
    number = shared.ordered()
    for _ in range(2):
        until(lambda: (shared.written(number) / "job.json").exists())
        process = psutil.Process(shared.room.trains.train(number).process)
        shared.room.trains.cancel(number, ADA)
        until(lambda one=process: not one.is_running() or one.status() == psutil.STATUS_ZOMBIE)  # type: ignore[misc]
        shared.room.trains.again(number, ADA)
    gate.touch()
    assert shared.ended(number).state == FINISHED
    record = job_of(shared.results(number))
    assert record is not None
    assert record.events == 600
    assert {one for one in files_of(record) if not (shared.results(number) / one).is_file()} == set()
    until(lambda: [one.status for one in jobs(shared.room)][-1] == FINISHED)
    assert RUNNING not in {one.status for one in jobs(shared.room)}


@pytest.mark.long
def test_a_train_that_ends_while_no_server_runs_is_taken_by_the_next_one(
    made: list[SharedRoom], tmp_path: Path
) -> None:
    gate = tmp_path / "data" / "open"
    shared = SharedRoom(tmp_path, source(GATE % str(gate)))
    made.append(shared)
    number = shared.ordered()
    until(lambda: bool(jobs(shared.room)))
    process = psutil.Process(shared.room.trains.train(number).process)
    shared.room.close()
    gate.touch()
    until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE)
    shared.open()
    assert shared.ended(number).state == FINISHED
    assert only_job(shared.room).status == FINISHED
    assert shared.room.site_table(Period()).total.every.files == 3


@pytest.mark.long
def test_what_code_writes_into_its_record_names_no_other_job_wagon_user_or_site(
    made: list[SharedRoom], tmp_path: Path
) -> None:
    text = source("pass") + TAMPERING
    shared = SharedRoom(tmp_path, text)
    made.append(shared)
    number = shared.ordered()
    assert shared.ended(number).state == FINISHED
    # The record of the results is the one that the code wrote.
    assert json.loads((shared.results(number) / "job.json").read_text())["command"] == "own"
    row = only_job(shared.room)
    assert (row.identity.user, row.identity.host) == ("ada", host())
    assert [one.name for one in shared.room.costs("wagon", Period())] == ["Wagon"]
    assert [one.site for one in shared.room.site_table(Period()).rows] == [row.identity.site]
    details = shared.room.job(row.identity.job)
    assert details is not None
    assert details.record is not None
    assert (details.record.command, details.record.host) == (row.identity.command, host())


@pytest.mark.long
def test_a_record_with_a_status_that_is_none_ends_its_train_all_the_same(
    made: list[SharedRoom], tmp_path: Path
) -> None:
    shared = SharedRoom(
        tmp_path, source("pass") + TAMPERING.replace('"own", "own"', '"own", "own"; job["status"] = "odd"')
    )
    made.append(shared)
    train = shared.ended(shared.ordered())
    assert train.state == FAILED
    assert "'odd', which is not a final one" in train.why
    assert only_job(shared.room).status == FAILED


@pytest.mark.long
def test_a_job_of_somebody_else_is_never_shown_as_that_of_a_train(made: list[SharedRoom], tmp_path: Path) -> None:
    """A report may say any name, command and place of results."""
    shared = SharedRoom(tmp_path, source("pass"))
    made.append(shared)
    number = shared.ordered()
    train = shared.ended(number)
    out = str(shared.results(number))
    who = replace(identity(out), command=f"branchline run -o {out}", out=out, started=datetime.now(UTC).isoformat())
    assert shared.room.take(batch(who, 0), "eve")
    [theirs] = [one.identity.job for one in jobs(shared.room) if one.identity.job != who.job]
    assert shared.room.trains.job(train) == theirs


def test_nobody_else_reports_such_a_job(made: list[SharedRoom], tmp_path: Path) -> None:
    shared = SharedRoom(tmp_path, source("pass"))
    made.append(shared)
    shared.ended(shared.ordered())
    who = only_job(shared.room).identity
    for reporter in ("ada", "eve"):
        with pytest.raises(ValueError, match="another person reports this job"):
            shared.room.take(ReportBatch(who, "job", 0, who.started, TrainStatus()), reporter)


@contextmanager
def opened(folder: Path) -> Iterator[tuple[ControlRoom, RoomReports]]:
    """A control room, and what reports trains to it."""
    room = ControlRoom(folder / "room")
    try:
        yield room, RoomReports(room._database, room.take)
    finally:
        room.close()


TRAIN = Train(1, TrainOrder("ada", "first", "ada/events", ["ada/Wagon"]), RUNNING, "ada", wagons=["Wagon"])
BATCH_FILES = 100
FILES = 2 * BATCH_FILES + 7


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few files are several batches."""
    for module in ("records.sending.message", "control.intake"):
        monkeypatch.setattr(f"branchline.{module}.BATCH_FILES_MAX", BATCH_FILES)


def large_record(**changed: object) -> JobRecord:
    """A record with files for three batches."""
    files = [FileRecord(f"/data/{one}.root", "local", subjobs=1, bytes_read=10, wall_s=1.0) for one in range(FILES)]
    sites = [SiteReading("here", "local", "host", FILES, 10 * FILES, 0, 1.0 * FILES, 1.0)]
    wagons = [WagonRecord("Wagon", cpu_s=5.0, events=9)]
    record = JobRecord(
        status=FINISHED, files=files, sites=sites, wagons=wagons, worker_phases=[WorkerPhases(0, wall_s=9.0)]
    )
    for name, value in changed.items():
        setattr(record, name, value)
    return record


def end_once(folder: Path, out: int, kill_at: int) -> None:
    """Takes the end of the train; the process is killed before its batch ``kill_at``, or as it has taken all."""
    room = ControlRoom(folder)
    taken = 0

    def take(batch: ReportBatch, reporter: str) -> bool:
        nonlocal taken
        if taken == kill_at:
            os.kill(os.getpid(), signal.SIGKILL)
        taken += 1
        answer = room.take(batch, reporter)
        if kill_at == 3 and taken == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return answer

    reports = RoomReports(room._database, take)
    if kill_at < 0:
        reports.begin(TRAIN, folder / "out")
        reports.note(TRAIN, TrainStatus(seconds=1.0))
    assert reports.end(TRAIN, large_record(), TrainStatus(status=FINISHED)) == "" or kill_at < 0
    os.write(out, b"ended\n")
    room.close()
    os._exit(0)


def test_a_server_that_is_killed_at_any_batch_of_an_end_takes_each_read_once(tmp_path: Path) -> None:
    folder = tmp_path / "room"
    room = ControlRoom(folder)
    reports = RoomReports(room._database, room.take)
    reports.begin(TRAIN, folder / "out")
    reports.note(TRAIN, TrainStatus(seconds=1.0))
    room.close()
    for kill_at in range(4):
        killed(lambda out, at=kill_at: end_once(folder, out, at), 1, 0.0)  # type: ignore[misc]
        room = ControlRoom(folder)
        assert RoomReports(room._database, room.take).at_work() == {1}
        room.close()
    assert "ended" in killed(partial(end_once, folder, kill_at=99), 1, 0.0)
    room = ControlRoom(folder)
    try:
        row = only_job(room)
        assert row.status == FINISHED
        assert room.files(row.identity.job).total == FILES
        total = room.site_table(Period()).total
        assert (total.jobs, total.every.files, total.every.bytes_read) == (1, FILES, 10 * FILES)
        assert [one.jobs for one in room.costs("wagon", Period())] == [1]
        assert RoomReports(room._database, room.take).at_work() == set()
    finally:
        room.close()


def test_a_resumed_train_adds_what_it_has_read_since(tmp_path: Path) -> None:
    with opened(tmp_path) as (room, reports):
        train = replace(TRAIN, order=replace(TRAIN.order, place="slurm"))
        reports.begin(train, tmp_path / "out")
        half = large_record(status=PARTIAL)
        half.files = half.files[:100]
        half.sites = [SiteReading("here", "local", "host", 100, 1000, 0, 100.0, 1.0)]
        assert reports.end(train, half, TrainStatus(status=PARTIAL)) == ""
        reports.resume(1)
        assert reports.end(train, large_record(), TrainStatus(status=FINISHED)) == ""
        row = only_job(room)
        assert row.status == FINISHED
        assert room.files(row.identity.job).total == FILES
        assert room.site_table(Period()).total.every.bytes_read == 10 * FILES
        assert [one.events for one in room.costs("wagon", Period())] == [9]


@pytest.mark.parametrize(
    "changed",
    [
        {"sites": [SiteReading("here", "local", "host", -5)]},
        {"sites": [SiteReading("here", "local", "nowhere", 5)]},
        {"environment": {"text": "\ud800"}, "sites": [SiteReading("\ud800", "local", "host", -5)]},
    ],
)
def test_a_record_that_no_run_writes_is_refused_and_the_job_ends(tmp_path: Path, changed: dict[str, object]) -> None:
    with opened(tmp_path) as (room, reports):
        reports.begin(TRAIN, tmp_path / "out")
        assert reports.end(TRAIN, large_record(files=[], **changed), TrainStatus(status=FINISHED))
        assert only_job(room).status == FINISHED
        assert reports.at_work() == set()
        assert room.site_table(Period()).total.every.files == 0


@pytest.mark.long
def test_a_record_too_large_for_a_report_goes_without_its_longest_lists(tmp_path: Path) -> None:
    with opened(tmp_path) as (room, reports):
        reports.begin(TRAIN, tmp_path / "out")
        phases = [WorkerPhases(one, "x" * 1000, wall_s=1.0) for one in range(80_000)]
        assert reports.end(TRAIN, large_record(files=[], worker_phases=phases), TrainStatus(status=FINISHED)) == ""
        assert only_job(room).status == FINISHED


def test_secrets_in_the_command_of_a_train_are_in_no_job(tmp_path: Path) -> None:
    with opened(tmp_path) as (room, reports):
        train = replace(TRAIN, command=["branchline", "run", "w.py", "https://ada:thesis@example.org/f.root"])
        reports.begin(train, tmp_path / "out")
        assert reports.end(train, large_record(files=[]), TrainStatus(status=FINISHED)) == ""
        details = room.job(only_job(room).identity.job)
        assert details is not None
        assert details.record is not None
        for command in (details.row.identity.command, details.record.command):
            assert "thesis" not in command
            assert "example.org/f.root" in command
