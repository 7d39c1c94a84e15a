"""The disk of a control room is full, or its database held by others: it says so, and no report is lost or counted
twice.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlencode

import pytest
import uvicorn
from tests.unit.control.batches import batch, identity, read
from tests.unit.control.web.server import WAIT_S, Answer, Server
from tests.unit.records.sending.taking_server import until

from branchline.control import background_errors
from branchline.control.accounts import READ, Account, Login
from branchline.control.metrics import troubles_of
from branchline.control.people import ADMINISTRATOR, Person
from branchline.control.room import ControlRoom
from branchline.control.web import server as web_server
from branchline.control.web.app import create_app
from branchline.control.web.openid_settings import OpenIdSettings
from branchline.control.web.server_settings import AccountKeys, OwnToken, ServerSettings
from branchline.records.sending import client, reporter
from branchline.records.sending.address import ReportTarget
from branchline.records.sending.message import JobIdentity
from branchline.records.sending.reporter import Reporter
from branchline.records.sending.spool import Spool
from branchline.records.sensors.record import FINISHED, FileRecord, JobRecord, SiteReading

ADA = Person("ada", ADMINISTRATOR)
TOKEN = "t" * 40
ELEMENT = "root://se.example"


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports are made and tried again twenty times a second, and a database that is held is waited for shortly. A busy
    machine has its time to send the last report.
    """
    monkeypatch.setattr(reporter, "REPORT_INTERVAL_S", 0.05)
    monkeypatch.setattr(reporter, "REPORT_END_S", 60.0)
    monkeypatch.setattr(client, "REPORT_INTERVAL_S", 0.05)
    monkeypatch.setattr(client, "REPORT_PAUSE_MAX_S", 0.05)
    monkeypatch.setattr(client, "REPORT_RETRY_AFTER_MAX_S", 0.05)
    monkeypatch.setattr("branchline.control.database.DATABASE_WAIT_S", 0.5)


@dataclass
class Served:
    """A control room in this process, and where it is reached."""

    room: ControlRoom
    port: int

    @property
    def target(self) -> ReportTarget:
        return ReportTarget(f"http://127.0.0.1:{self.port}", TOKEN)

    def ask(self, path: str, accept: str = "", method: str = "GET", body: bytes | None = None) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        with closing(connection):
            kind = {"Content-Type": "application/x-www-form-urlencoded"} if body else {}
            headers = {"Authorization": f"Bearer {TOKEN}", "Accept": accept, **kind}
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return Answer(answer.status, {key.lower(): one for key, one in answer.getheaders()}, answer.read())


@contextmanager
def serving_here(folder: Path, *, is_shared: bool = False, openid: OpenIdSettings | None = None) -> Iterator[Served]:
    with closing(ControlRoom(folder)) as room, socket.create_server(("127.0.0.1", 0)) as listener:
        keys = AccountKeys(room.accounts) if is_shared else OwnToken(TOKEN, ADA)
        app = create_app(room, ServerSettings(keys, openid=openid), asyncio.Event())
        server = uvicorn.Server(web_server._config(app, None))
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        try:
            until(lambda: server.started)
            yield Served(room, listener.getsockname()[1])
        finally:
            server.should_exit = True
            thread.join()


def reads(number: int) -> tuple[list[FileRecord], list[SiteReading]]:
    path = f"{ELEMENT}//{number}.root"
    record = FileRecord(path, ELEMENT, bytes_read=1000, subjobs=1, remarks=["x" * 1000])
    return [record], [SiteReading("here", ELEMENT, "site", 1, 1000)]


def told(server: Server, job: JobIdentity) -> tuple[int, int, str]:
    """The files of a job, their sum over all sites, and how it stands."""
    files = server.get(f"/jobs/{job.job}/files.json").json()["files"]["total"]
    sites = server.get("/sites.json?period=all").json()["table"]["total"]["every"]["files"]
    return files, sites, server.get(f"/jobs/{job.job}.json").json()["row"]["status"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of its own, with little room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def fill(disk: Path) -> Path:
    filling = disk / "filling"
    with suppress(OSError), filling.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4096))
    return filling


def test_reports_wait_for_a_full_disk_and_then_each_counts_once(small_disk: Path, tmp_path: Path) -> None:
    said: list[str] = []
    job, spool = identity(), Spool(tmp_path / "spool")
    with Server(small_disk / "room") as server:
        one = Reporter(job, ReportTarget(server.base, server.token), spool, say=said.append)
        one.begin()
        until(lambda: server.get(f"/jobs/{job.job}.json").status == 200)
        filling = fill(small_disk)
        for number in range(4):
            one.read(*reads(number))
            until(lambda: not one._files)
        until(lambda: said)
        assert "it cannot accept reports now" in said[0]
        assert "full" in said[0]
        refused = server.do("save-dataset", name="events", files="/data/*.root", tree="events")
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        assert "free space on this disk" in refused.text
        assert told(server, job)[:2] == (0, 0)
        assert 'branchline_trouble{part="reports"} 1' in server.get("/metrics").text
        filling.unlink()
        until(lambda: told(server, job)[0] == 4)
        assert one.end(JobRecord(status=FINISHED)) == []
        assert told(server, job) == (4, 4, FINISHED)
    assert spool.refused() == []
    assert spool.sources() == []


def test_reports_wait_for_a_database_that_others_hold_and_then_each_counts_once(tmp_path: Path) -> None:
    said: list[str] = []
    job, spool = identity(), Spool(tmp_path / "spool")
    with serving_here(tmp_path / "room") as served:
        one = Reporter(job, served.target, spool, say=said.append)
        with closing(sqlite3.connect(served.room.folder / "control.sqlite", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            one.begin()
            for number in range(3):
                one.read(*reads(number))
                until(lambda: not one._files)
            until(lambda: said)
            assert "it cannot accept reports now" in said[0]
            assert "database is locked" in said[0]
            assert served.ask("/jobs", "text/html").status == 200
            [why] = [one.why for one in troubles_of(served.room) if one.part == "reports"]
            assert "another process has locked it" in why
            holder.execute("ROLLBACK")
        assert one.end(JobRecord(status=FINISHED)) == []
        assert served.room.files(job.job).total == 3
        found = served.room.job(job.job)
        assert found is not None
        assert found.row.status == FINISHED
        assert {one.why for one in troubles_of(served.room)} == {""}
    assert spool.refused() == []


def test_people_are_told_that_the_trouble_is_the_rooms_and_what_to_do(tmp_path: Path) -> None:
    with serving_here(tmp_path / "room") as served:
        with closing(sqlite3.connect(served.room.folder / "control.sqlite", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            fields = urlencode({"name": "events", "files": "/data/*.root", "tree": "events"}).encode()
            page = served.ask("/do/save-dataset", "text/html", "POST", fields)
            plain = served.ask("/do/save-dataset", "", "POST", fields)
        done = served.ask("/do/save-dataset", "", "POST", fields)
    for answer in (page, plain):
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert "another process has locked it" in answer.text
        assert "This is a problem of the control room, not of your request." in answer.text
    assert "The control room cannot do this now" in page.text
    assert done.status == 303


def test_a_page_works_again_as_soon_as_its_file_is_back(tmp_path: Path) -> None:
    job = identity(begin=datetime.now(UTC))
    with serving_here(tmp_path / "room") as served:
        served.room.take(batch(job, 0, read(f"{ELEMENT}//a", ELEMENT, 1000, 1.0)))
        served.room.upkeep.tidy()
        [kept] = (served.room.folder / "history").rglob("*.parquet")
        away = kept.rename(tmp_path / "away")
        for accept in ("text/html", "application/json"):
            gone = served.ask(f"/jobs/{job.job}/files", accept)
            assert (gone.status, gone.headers["retry-after"]) == (503, "10")
            assert "restore it from a backup" in gone.text
        away.rename(kept)
        assert served.ask(f"/jobs/{job.job}/files", "text/html").status == 200


def test_a_source_that_the_disk_does_not_take_is_no_fault_of_who_uploads_it(small_disk: Path) -> None:
    with serving_here(small_disk / "room") as served:
        filling = fill(small_disk)
        fields = urlencode({"text": "class One:\n    def process(self, events):\n        return {}\n"})
        full = served.ask("/do/upload", "", "POST", fields.encode())
        filling.unlink()
    assert (full.status, full.headers.get("retry-after")) == (503, "10"), full.text
    assert "No space left on device" in full.text


def test_who_asks_is_not_known_while_the_database_cannot_be_read(tmp_path: Path) -> None:
    with serving_here(tmp_path / "room", is_shared=True) as served:
        database = served.room._database
        database._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        (tmp_path / "room" / "control.sqlite").write_bytes(b"no database at all" * 1000)
        with database._connections_lock:
            database._idle.clear()
        answer = served.ask("/api/v1/reports", "application/json", "POST", b"{}")
        assert (answer.status, answer.headers["retry-after"]) == (503, "10")
        assert "restore it from a backup" in json.loads(answer.content)["error"]


def test_a_token_opens_pages_also_while_its_use_cannot_be_noted(tmp_path: Path) -> None:
    with closing(ControlRoom(tmp_path / "room")) as room:
        room.accounts.add(Account("ada", ADMINISTRATOR), "correct horse battery", "ada")
        secret = room.accounts.make_token(ADA, "mine", READ, 1)
        with closing(sqlite3.connect(room.folder / "control.sqlite", isolation_level=None)) as holder:
            holder.execute("BEGIN IMMEDIATE")
            assert room.accounts.of_token(secret) == Login(ADA, READ)


def test_a_fault_of_ours_in_a_page_is_no_trouble_of_the_disk_and_is_printed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(background_errors, "_PRINTED", background_errors._Printed())
    with serving_here(tmp_path / "room") as served:
        with served.room._database.writing() as connection:
            connection.execute("DROP TABLE entries")
        answers = [served.ask("/grid", accept) for accept in ("text/html", "", "application/json")]
    assert [one.status for one in answers] == [500] * 3
    for one in answers:
        assert "internal error in Branchline: please report it, with the output of the server" in one.text
        assert "disk" not in one.text
    said = capfd.readouterr().err
    assert "Internal error in Branchline, GET /grid" in said
    assert "no such table: entries" in said
