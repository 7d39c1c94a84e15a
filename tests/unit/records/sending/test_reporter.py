"""A job that reports: each report once, whatever the server and the disk do, and no wait of the job."""

from __future__ import annotations

import errno
import os
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.records.sending.taking_server import Reply, TakingServer, closed_port, until

from branchline.records.sending import client, outbox, reporter
from branchline.records.sending.address import ReportTarget
from branchline.records.sending.client import Sender
from branchline.records.sending.message import JobIdentity, ReportBatch
from branchline.records.sending.reporter import Reporter
from branchline.records.sending.spool import Spool
from branchline.records.sensors.record import FINISHED, FileRecord, JobRecord, SiteReading
from branchline.records.sensors.status import TrainStatus


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are made and tried again twenty times a second, and a busy machine has its time to send the last."""
    monkeypatch.setattr(reporter, "REPORT_INTERVAL_S", 0.05)
    monkeypatch.setattr(reporter, "REPORT_END_S", 60.0)
    monkeypatch.setattr(client, "REPORT_INTERVAL_S", 0.05)
    monkeypatch.setattr(client, "REPORT_PAUSE_MAX_S", 0.05)


def site(files: int) -> SiteReading:
    return SiteReading("GSI", "root://se", "site", files, bytes_read=10 * files, wall_s=0.5)


def paths(server: TakingServer) -> list[str]:
    return [one.path for batch in server.batches for one in batch.files]


def test_a_job_reports_its_state_its_reads_and_its_end(
    identity: JobIdentity, spool: Spool, server: TakingServer
) -> None:
    one = Reporter(identity, ReportTarget(server.url, "abc"), spool)
    one.begin()
    until(lambda: len(server.batches) == 1)
    one.note(TrainStatus(events=5, subjobs=2))
    one.read([FileRecord("a.root")], [site(1)])
    one.read([FileRecord("b.root")], [site(2), SiteReading("GSI", "root://other")])
    until(lambda: len(paths(server)) == 2)
    assert one.end(JobRecord(status=FINISHED, files=[FileRecord("a.root")]), TrainStatus(status=FINISHED)) == []
    assert [one.number for one in server.batches] == list(range(len(server.batches)))
    assert all(one.identity == identity and one.source == "job" for one in server.batches)
    assert sorted(paths(server)) == ["a.root", "b.root"]
    readings = [one for batch in server.batches for one in batch.sites]
    assert sum(one.files for one in readings) == 3
    assert sum(one.bytes_read for one in readings) == 30
    last = server.batches[-1]
    assert last.record == JobRecord(status=FINISHED)
    assert last.status is not None
    assert (last.status.status, last.status.started) == (FINISHED, identity.started)
    assert [one.record for one in server.batches[:-1]] == [None] * (len(server.batches) - 1)
    assert not any(spool.folder.iterdir())


def test_where_nothing_changes_nothing_is_sent_but_a_sign_of_life(
    identity: JobIdentity, spool: Spool, server: TakingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Reporter(identity, ReportTarget(server.url), spool)
    one.note(TrainStatus(events=5))
    one.begin()
    until(lambda: len(server.batches) == 1)
    time.sleep(0.3)
    assert len(server.batches) == 1
    monkeypatch.setattr(reporter, "REPORT_HEARTBEAT_S", 0.1)
    until(lambda: len(server.batches) >= 3)
    one.end()


def test_a_server_that_was_away_gets_all_when_it_comes(identity: JobIdentity, spool: Spool) -> None:
    said: list[str] = []
    with closed_port() as (held, url):
        one = Reporter(identity, ReportTarget(url), spool, say=said.append)
        one.begin()
        for number in range(4):
            one.read([FileRecord(f"{number}.root")], [])
            until(lambda: len(list(spool.folder.rglob("*.gz"))) > number)  # noqa: B023
        until(lambda: said)
        with TakingServer(held=held) as server:
            until(lambda: len(paths(server)) == 4)
            assert one.end(JobRecord()) == []
    assert sorted(paths(server)) == [f"{number}.root" for number in range(4)]
    assert said == [f"reports cannot be sent to {url} now: Connection refused; the job continues"]


def test_states_alone_do_not_fill_the_disk_while_the_server_is_away(identity: JobIdentity, spool: Spool) -> None:
    with closed_port() as (_, url):
        one = Reporter(identity, ReportTarget(url), spool)
        one.begin()
        until(lambda: one._tally.why_waiting)
        for number in range(10):
            one.note(TrainStatus(events=number))
            time.sleep(0.05)
        assert len(list(spool.folder.rglob("*.gz"))) <= 2
        one.end()


def test_what_a_job_could_not_send_is_said_kept_and_sent_by_a_later_one(identity: JobIdentity, spool: Spool) -> None:
    with closed_port() as (held, url):
        one = Reporter(identity, ReportTarget(url), spool)
        one.begin()
        one.read([FileRecord("a.root")], [])
        [sentence] = one.end(JobRecord(command="first"))
        why = f"could not be sent to {url}: Connection refused; send them with: branchline report send --to {url}"
        assert why in sentence
        with TakingServer(held=held) as server:
            later = Reporter(replace(identity, job="f" * 32), ReportTarget(url), spool)
            later.begin()
            until(lambda: any(one.identity.job == identity.job and one.record for one in server.batches))
            assert later.end(JobRecord(command="second")) == []
    mine = [one for one in server.batches if one.identity.job == identity.job]
    assert [one.path for batch in mine for one in batch.files] == ["a.root"]
    assert [one.record.command for one in mine if one.record] == ["first"]
    assert spool.sources() == []


def test_a_later_job_leaves_reports_for_other_servers_alone(
    identity: JobIdentity, spool: Spool, server: TakingServer
) -> None:
    source = spool.source("e" * 32, "job")
    source.begin("http://other.example")
    source.write(0, b"abc", is_last=True)
    source.close()
    one = Reporter(identity, ReportTarget(server.url, "secret"), spool)
    one.begin()
    until(lambda: len(server.batches) == 1)
    one.end()
    assert [found.server() for found in spool.sources()] == ["http://other.example"]
    with closing(Sender(ReportTarget(server.url))) as sender:
        found = outbox.send_left(spool, sender)
    assert found.elsewhere == {"http://other.example": 1}


@pytest.mark.parametrize("status", [401, 429, 500, 503])
def test_reports_wait_for_a_server_that_fails_and_then_each_is_taken_once(
    identity: JobIdentity, spool: Spool, status: int
) -> None:
    with TakingServer(lambda number, _: Reply(status) if number < 4 else None) as server:
        one = Reporter(identity, ReportTarget(server.url), spool)
        one.begin()
        for number in range(5):
            one.read([FileRecord(f"{number}.root")], [])
            time.sleep(0.06)
        until(lambda: len(paths(server)) == 5)
        assert one.end(JobRecord()) == []
    assert sorted(one.number for one in server.batches) == list(range(len(server.batches)))


def test_a_refused_report_is_said_once_and_holds_back_no_other(identity: JobIdentity, spool: Spool) -> None:
    def reply(_: int, batch: ReportBatch) -> Reply | None:
        return Reply(400) if batch.files else None

    said: list[str] = []
    with TakingServer(reply) as server:
        one = Reporter(identity, ReportTarget(server.url), spool, say=said.append)
        one.begin()
        for number in range(2):
            one.read([FileRecord(f"{number}.root")], [])
            until(lambda: len(spool.refused()) > number)  # noqa: B023
        sentences = one.end(JobRecord())
    assert sentences == [f"{server.url} refused 2 reports: no"]
    assert said == [f"{server.url} rejects a report: no; the job continues"]
    assert server.batches[-1].record == JobRecord()
    assert spool.sources() == []


def test_one_report_at_which_the_server_fails_holds_back_no_other(identity: JobIdentity, spool: Spool) -> None:
    with TakingServer(lambda _, batch: Reply(500) if batch.files else None) as server:
        one = Reporter(identity, ReportTarget(server.url), spool)
        one.begin()
        one.read([FileRecord("a.root")], [])
        until(lambda: one._tally.why_waiting)
        sentences = one.end(JobRecord())
    assert server.batches[-1].record == JobRecord()
    assert "1 report could not be sent" in sentences[0]
    assert "it failed (status 500)" in sentences[0]


def test_a_silent_server_holds_no_job_longer_than_said(
    identity: JobIdentity, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reporter, "REPORT_END_S", 3.0)
    with TakingServer(lambda *_: Reply(wait_s=60)) as server:
        one = Reporter(identity, ReportTarget(server.url), spool)
        one.begin()
        until(lambda: server.requests)
        begin_s = time.monotonic()
        one.read([FileRecord("a.root")], [])
        one.note(TrainStatus())
        assert time.monotonic() - begin_s < 30, "the job waits for the answer"
        end_s = time.monotonic()
        sentences = one.end(JobRecord())
        assert time.monotonic() - end_s < 30, "the end waits for the answer"
    assert "2 reports could not be sent" in sentences[0]
    files = [report.path.name for found in spool.sources() for report in found.reports()]
    assert files == ["job-0.json.gz", "job-1.last.json.gz"]


def full_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "replace", refuse)


def test_a_full_disk_keeps_no_report_from_a_server_that_is_there(
    identity: JobIdentity, spool: Spool, server: TakingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk(monkeypatch)
    one = Reporter(identity, ReportTarget(server.url), spool)
    one.begin()
    one.read([FileRecord("a.root")], [])
    assert one.end(JobRecord()) == []
    assert paths(server) == ["a.root"]
    assert server.batches[-1].record == JobRecord()


def test_what_neither_disk_nor_server_takes_is_lost_with_a_count(
    identity: JobIdentity, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    full_disk(monkeypatch)
    monkeypatch.setattr(outbox, "SPOOL_MEMORY_BYTES", 2000)
    with closed_port() as (_, url):
        one = Reporter(identity, ReportTarget(url), spool)
        one.begin()
        for number in range(20):
            one.read([FileRecord(os.urandom(100).hex())], [])
            until(lambda: not one._files)
            time.sleep(0.06 * (number < 3))
        sentences = one.end(JobRecord())
    assert len(sentences) == 1
    assert "with 20 readings of files" in sentences[0]
    assert "No space left on device" in sentences[0]


def test_memory_goes_to_a_disk_that_has_room_again(
    identity: JobIdentity, spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closed_port() as (_, url):
        one = Reporter(identity, ReportTarget(url), spool)
        with monkeypatch.context() as patch:
            full_disk(patch)
            one.begin()
            until(lambda: len(one._outbox) == 1)  # or both would go into one report
            one.read([FileRecord("a.root")], [])
            until(lambda: len(one._outbox) == 2)
        [sentence] = one.end(JobRecord())
    assert "3 reports could not be sent" in sentence
    assert sum(len(found.reports()) for found in spool.sources()) == 3


def test_without_a_spool_reports_are_sent_from_memory(identity: JobIdentity, server: TakingServer) -> None:
    one = Reporter(identity, ReportTarget(server.url), None)
    one.begin()
    one.read([FileRecord("a.root")], [])
    assert one.end(JobRecord()) == []
    assert paths(server) == ["a.root"]


def test_a_fault_of_ours_ends_no_job_and_is_said(
    identity: JobIdentity, spool: Spool, server: TakingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_: object) -> None:
        raise ZeroDivisionError("here")

    monkeypatch.setattr(reporter, "split", fails)
    one = Reporter(identity, ReportTarget(server.url), spool)
    one.begin()
    [sentence] = one.end(JobRecord())
    assert "an internal error in Branchline, please report it: ZeroDivisionError: here" in sentence


def test_many_jobs_at_once_send_each_report_once(spool: Spool, server: TakingServer) -> None:
    identities = [JobIdentity(f"{number:032x}", started="2026-01-01T00:00:00+00:00") for number in range(6)]
    for number in range(6, 9):
        source = spool.source(f"{number:032x}", "job")
        source.begin(server.url)
        body = reporter.split(ReportBatch(JobIdentity(source.job), files=[FileRecord(f"left-{number}")]))
        source.write(0, next(iter(body))[1], is_last=False)
        source.close()

    def work(identity: JobIdentity) -> None:
        one = Reporter(identity, ReportTarget(server.url), spool)
        one.begin()
        for number in range(5):
            one.read([FileRecord(f"{identity.job}-{number}")], [])
            time.sleep(0.03)
        until(lambda: len(server.batches) >= 9)
        assert one.end(JobRecord()) == []

    threads = [threading.Thread(target=work, args=(identity,)) for identity in identities]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(Sender(ReportTarget(server.url))) as sender:
        outbox.send_left(spool, sender)
    wanted = [f"{identity.job}-{number}" for identity in identities for number in range(5)]
    assert sorted(paths(server)) == sorted([*wanted, "left-6", "left-7", "left-8"])
    # None was sent twice, not even to a server that would know it.
    assert server.requests == len(server.batches)
    assert spool.sources() == []
