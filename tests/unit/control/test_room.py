"""A control room takes each batch once, in any order, and shows jobs, sites, storage elements and costs."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.unit.control.batches import BEGIN, batch, identity, last, read

from branchline.control.reports.jobs import SILENT, JobQuery
from branchline.control.reports.readings import Period
from branchline.control.room import ControlRoom
from branchline.control.room_errors import DatabaseError
from branchline.errors import OptionError
from branchline.records.sending.message import ReportBatch

HERE, FAR = "root://se.example", "root://far.org"


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path / "room")
    yield room
    room.close()


def whole_job(name: str = "spectra", user: str = "ada") -> list[ReportBatch]:
    """The batches of a job that read three files here and one far away."""
    who = identity(name, user)
    reads = [read(f"{HERE}//f{n}.root", HERE, 1000, 1.0) for n in range(3)] + [read(f"{FAR}//g.root", FAR, 1000, 10.0)]
    return [*(batch(who, n, one, after_s=10.0 * (n + 1)) for n, one in enumerate(reads)), last(who, 4)]


def test_each_batch_counts_once_in_any_order(room: ControlRoom) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    batches = whole_job()
    taken = 0
    sent = batches * 3
    chance.shuffle(sent)
    for one in sent:
        taken += room.take(ReportBatch.from_dict(json.loads(json.dumps(one.as_dict()))))
    assert taken == len(batches)
    details = room.job(batches[0].identity.job)
    assert details is not None
    assert (details.row.status, details.row.done, details.row.events) == ("finished", 4, 400)
    assert [one.t_s for one in details.points] == [10.0, 20.0, 30.0, 40.0, 60.0]
    table = room.site_table(Period())
    assert (table.total.every.files, table.total.every.bytes_read) == (4, 4000)


def test_an_older_state_never_replaces_a_newer_one(room: ControlRoom) -> None:
    first, second, *_ = whole_job()
    room.take(second)
    room.take(first)
    details = room.job(first.identity.job)
    assert details is not None
    assert details.row.done == 2
    assert details.status is not None
    assert details.status.done == 2


def test_a_job_that_was_resumed_ends_anew(room: ControlRoom) -> None:
    *_, running, ended = whole_job()
    for one in (running, ended):
        room.take(one)
    of = ended.identity
    # Another process, with numbers of its own, goes on after an hour.
    again = replace(batch(of, 0, after_s=4000.0), source="resumed")
    room.take(again)
    details = room.job(of.job)
    assert details is not None
    assert (details.row.status, details.row.ended) == ("running", "")
    later = replace(last(of, 1, after_s=4100.0, cpu_s=50.0), source="resumed")
    assert later.record is not None
    later.record.wagons[0].cpu_s = 25.0
    room.take(later)
    room.take(replace(ended, source="late"))
    details = room.job(of.job)
    assert details is not None
    assert (details.row.status, details.row.ended, details.row.cpu_s) == (
        "finished",
        "2026-03-01T13:08:20.000+00:00",
        50.0,
    )
    [wagon] = room.costs("wagon", Period())
    assert (wagon.jobs, wagon.cpu_s) == (1, 25.0)
    assert room.costs("wagon", Period(until="2026-03-01T13:00")) == []
    [row] = room.site_table(Period()).rows
    assert row.efficiency == (4100.0 - 15.0) / 4100.0


def test_sites_by_elements_are_as_in_the_figure(room: ControlRoom) -> None:
    for one in [*whole_job(), *whole_job("other", "bob")]:
        room.take(one)
    table = room.site_table(Period())
    assert table.elements == [HERE, FAR]
    [row] = table.rows
    assert (row.site, row.jobs, row.efficiency) == ("example", 2, 0.75)
    assert (row.local.jobs, row.local.files, row.local.bytes_per_s) == (2, 6, 1000.0)
    assert (row.remote.files, row.remote.bytes_per_s) == (2, 100.0)
    assert row.elements[FAR] == row.remote
    assert table.total == replace(row, site="all sites")
    assert room.site_table(Period(since="2027")).rows == []


def test_elements_by_hour_and_costs(room: ControlRoom) -> None:
    for one in [*whole_job(), *whole_job("other", "bob")[:2]]:
        room.take(one)
    hours = {(one.element, one.begin): one.reads.files for one in room.element_hours(Period())}
    assert hours == {(HERE, "2026-03-01T12:00:00+00:00"): 5, (FAR, "2026-03-01T12:00:00+00:00"): 1}
    days = {(one.element, one.begin, one.hours): one.reads.files for one in room.element_days(Period())}
    assert days == {(HERE, "2026-03-01T00:00:00+00:00", 24): 5, (FAR, "2026-03-01T00:00:00+00:00", 24): 1}
    ada, bob = room.costs("user", Period())
    assert (ada.name, ada.jobs, ada.cpu_s, ada.events) == ("ada", 1, 45.0, 400)
    assert (bob.name, bob.jobs, bob.cpu_s) == ("bob", 1, 0.0)
    [wagon] = room.costs("wagon", Period())
    assert (wagon.name, wagon.cpu_s, wagon.output_bytes) == ("Spectrum", 19.0, 500)


def test_jobs_are_searched_filtered_ordered_and_paged(room: ControlRoom) -> None:
    for number in range(5):
        who = identity(f"job_{number}", "ada" if number % 2 else "bob", BEGIN + timedelta(hours=number))
        room.take(batch(who, 0, read(f"{FAR}//{number}", FAR if number == 3 else HERE, 10, 1.0)))
    names = [one.identity.name for one in room.jobs(JobQuery()).rows]
    assert names == ["job_4", "job_3", "job_2", "job_1", "job_0"]
    page = room.jobs(JobQuery(first=1, count=2))
    assert ([one.identity.name for one in page.rows], page.total) == (["job_3", "job_2"], 5)
    assert room.jobs(JobQuery(user="bob")).total == 3
    assert [one.identity.name for one in room.jobs(JobQuery(search="B_2")).rows] == ["job_2"]
    assert room.jobs(JobQuery(search="%")).total == 0
    assert [one.identity.name for one in room.jobs(JobQuery(element=FAR, site="example")).rows] == ["job_3"]
    assert room.jobs(JobQuery(wagon="Counter")).total == 5
    assert room.jobs(JobQuery(since=(BEGIN + timedelta(hours=4)).isoformat())).total == 1
    with pytest.raises(OptionError, match="ordered"):
        room.jobs(JobQuery(order="name; DROP TABLE jobs"))


def test_a_job_that_sends_nothing_is_silent(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    room.take(whole_job()[0])
    assert room.jobs(JobQuery(status="running")).total == 1
    monkeypatch.setattr("branchline.control.reports.jobs.JOB_SILENT_S", -1.0)
    assert room.jobs(JobQuery(status=SILENT)).rows[0].status == SILENT
    assert room.jobs(JobQuery(status="running")).total == 0


def test_it_is_all_there_when_it_is_opened_again(tmp_path: Path) -> None:
    room = ControlRoom(tmp_path)
    batches = whole_job()
    assert [room.take(one) for one in batches] == [True] * 5
    before = room.jobs(JobQuery())
    with pytest.raises(DatabaseError, match="already served by process"):
        ControlRoom(tmp_path)
    room.close()
    again = ControlRoom(tmp_path)
    assert again.jobs(JobQuery()) == before
    assert not any(again.take(one) for one in batches)
    again.close()


def wrong_batches() -> dict[str, ReportBatch]:
    """Batches that no job sends, by what the refusal names."""
    good = whole_job()[0]
    status = good.status
    assert status is not None
    return {
        "identity.job": replace(good, identity=replace(good.identity, job="../../etc/passwd")),
        "identity.kind": replace(good, identity=replace(good.identity, kind="<b>")),
        "identity.started": replace(good, identity=replace(good.identity, started="yesterday")),
        "made": replace(good, made="9" * 100),
        "number": replace(good, number=-1),
        "status.events": replace(good, status=replace(status, events="many")),  # type: ignore[arg-type]
        "status.seconds": replace(good, status=replace(status, seconds=float("nan"))),
        "status.done": replace(good, status=replace(status, done=2**63)),
        "sites": replace(good, sites=[replace(good.sites[0], bytes_read=-1)]),
        "source": replace(good, source="x" * 300),
        "5000": replace(good, files=good.files * 5001),
    }


@pytest.mark.parametrize("named", wrong_batches())
def test_nonsense_is_refused_and_leaves_nothing(room: ControlRoom, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        room.take(wrong_batches()[named])
    assert room.jobs(JobQuery()).total == 0


def test_names_are_cut_and_printable_and_a_time_of_the_future_is_now(room: ControlRoom) -> None:
    good = whole_job()[0]
    who = replace(good.identity, name="a\0b" * 1000, user="'; DROP TABLE jobs; --")
    ahead = (datetime.now(UTC) + timedelta(days=400)).isoformat()
    assert room.take(replace(good, identity=who, made=ahead))
    [row] = room.jobs(JobQuery(user="'; DROP TABLE jobs; --")).rows
    assert (len(row.identity.name), row.identity.name[:3]) == (200, "a\N{REPLACEMENT CHARACTER}b")
    assert room.element_hours(Period())[0].begin <= datetime.now(UTC).isoformat()


def test_a_long_profile_is_thinned(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.intake.JOB_POINTS_MAX", 40)
    who = identity()
    for number in range(100):
        room.take(batch(who, number, after_s=float(number)))
    details = room.job(who.job)
    assert details is not None
    assert 20 <= len(details.points) <= 40
    assert (details.points[0].t_s, details.points[-1].t_s) == (0.0, 99.0)


def test_threads_that_report_at_once_are_each_answered(room: ControlRoom) -> None:
    jobs = [whole_job(f"job{number}") for number in range(6)]
    sent = [one for job in jobs for one in job] * 2
    random.Random(1).shuffle(sent)
    wrong = replace(sent[0], number=-1)
    with ThreadPoolExecutor(16) as pool:
        refused = [pool.submit(room.take, wrong) for _ in range(5)]
        answers = list(pool.map(room.take, sent))
    assert sum(answers) == len(sent) / 2
    assert all(isinstance(one.exception(), ValueError) for one in refused)
    assert room.site_table(Period()).total.every.files == 6 * 4


def test_a_batch_of_too_many_sources_is_refused_alone(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.intake.JOB_SOURCES_MAX", 3)
    first = whole_job()[0]
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(room.take, replace(first, source=f"task{number}")) for number in range(8)]
    refused = [one for one in asked if isinstance(one.exception(), ValueError)]
    assert len(refused) == 5
    assert room.site_table(Period()).total.every.files == 3


def test_a_full_disk_is_said_and_nothing_is_lost_or_counted_twice(room: ControlRoom) -> None:
    batches = whole_job()
    room.take(batches[0])
    with room._database.writing() as connection:
        [pages] = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {pages}")
    names = [f"{number:04000}" for number in range(200)]
    large = replace(batches[1], files=[read(name, HERE, 1000, 1.0)[0] for name in names])
    large = replace(large, files=[replace(one, remarks=[uuid.uuid4().hex * 100] * 10) for one in large.files])
    with pytest.raises(DatabaseError, match="full") as caught:
        room.take(large)
    assert caught.value.retry
    assert room.files(large.identity.job).total == 1
    with room._database.writing() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    assert room.take(large)
    assert not room.take(large)
    assert room.files(large.identity.job).total == 201
