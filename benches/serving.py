"""Measures the control room while jobs report and users open pages."""

from __future__ import annotations

import gzip
import http.client
import json
import random
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psutil

from benches.conditions import machine_lines
from benches.tables import table
from benches.worker import REPOSITORY
from branchline.control.room import ControlRoom
from branchline.records.sending.message import JobIdentity, ReportBatch
from branchline.records.sensors.record import FileRecord, SiteReading
from branchline.records.sensors.status import TrainStatus

# Interval between reports of a job, and files per report, as in a train of twenty workers on files of 3 MB.
REPORT_PAUSE_S = 5.0
FILES_PER_REPORT = 5
SITES, ELEMENTS = 20, 20
PAGES = ("/jobs", "/sites", "/elements", "/costs")
WAIT_S = 60


@dataclass(frozen=True)
class Served:
    """A measurement. Pages and reports have medians and 99th percentiles in seconds; ``change_s`` is the time from the
    end of a report to the event at a viewer.
    """

    known_jobs: int
    jobs: int
    viewers: int
    seconds: float
    reports: int
    report_p50_s: float
    report_p99_s: float
    pages: int
    page_p50_s: float
    page_p99_s: float
    change_p50_s: float
    change_p99_s: float
    memory_bytes: int
    cpu_s: float
    failures: int


class Load:
    """The clients of the server and their measurements."""

    def __init__(self, address: str) -> None:
        parts = urlsplit(address)
        self.port = int(parts.port or 0)
        self.bearer = {"Authorization": f"Bearer {parts.query.removeprefix('token=')}"}
        self.report_s: list[float] = []
        self.page_s: list[float] = []
        self.change_s: list[float] = []
        self.failures = 0
        self.end = threading.Event()
        # End of the oldest report that viewers have not been notified of.
        self.reported_s = float("inf")

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> float:
        """Send a request and return its seconds."""
        begin_s = time.monotonic()
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
            connection.request(method, path, body, {**self.bearer, **(headers or {})})
            answer = connection.getresponse()
            answer.read()
            connection.close()
            self.failures += answer.status != 200
        except OSError:
            self.failures += 1
        return time.monotonic() - begin_s

    def report(self, seed: int) -> None:
        """Report like a job until the end of the measurement."""
        chance = random.Random(seed)
        identity, number = an_identity(chance, datetime.now(UTC)), 0
        self.end.wait(chance.uniform(0, REPORT_PAUSE_S))
        while not self.end.is_set():
            body = gzip.compress(json.dumps(a_batch(chance, identity, number).as_dict()).encode(), 1)
            self.report_s.append(self.ask("POST", "/api/v1/reports", body, {"Content-Encoding": "gzip"}))
            self.reported_s = min(self.reported_s, time.monotonic())
            number += 1
            self.end.wait(REPORT_PAUSE_S)

    def view(self, seed: int) -> None:
        """Keep a page open until the end, and request it again after each change."""
        page = PAGES[seed % len(PAGES)]
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=WAIT_S)
        with suppress(OSError):
            connection.request("GET", "/events", headers=self.bearer)
            stream = connection.getresponse()
            while not self.end.is_set():
                if stream.readline().startswith(b"event: changed"):
                    if seed == 0:
                        self.change_s.append(max(0.0, time.monotonic() - self.reported_s))
                        self.reported_s = float("inf")
                    self.page_s.append(self.ask("GET", page))
        connection.close()


def an_identity(chance: random.Random, begin: datetime) -> JobIdentity:
    """Return a job of a random user at a random site."""
    user, site = f"user{chance.randrange(50)}", f"site{chance.randrange(SITES)}.example"
    name = f"train{chance.randrange(1000)}"
    return JobIdentity(
        uuid.UUID(int=chance.getrandbits(128)).hex,
        name=name,
        command=f"branchline run wagons.py data.txt -o {name}",
        user=user,
        site=site,
        host=f"node.{site}",
        started=begin.isoformat(),
        wagons=["Spectrum"],
    )


def a_batch(chance: random.Random, identity: JobIdentity, number: int) -> ReportBatch:
    """Return a report of a job that reads five files between reports."""
    files, sites = [], []
    for index in range(FILES_PER_REPORT):
        element = f"root://se{chance.randrange(ELEMENTS)}.example"
        seconds = chance.uniform(0.5, 5.0)
        path = f"{element}//store/f{number}-{index}.root"
        files.append(FileRecord(path, element, site=identity.site, bytes_read=3_000_000, wall_s=seconds))
        sites.append(SiteReading(identity.site, element, "elsewhere", 1, 3_000_000, 0, seconds, seconds / 2))
    done = FILES_PER_REPORT * (number + 1)
    status = TrainStatus(seconds=REPORT_PAUSE_S * number, events=1000 * done, subjobs=500, done=done, running=20)
    made = datetime.fromisoformat(identity.started) + timedelta(seconds=REPORT_PAUSE_S * number)
    return ReportBatch(identity, "job", number, made.isoformat(), status, files, sites)


def filled(folder: Path, jobs: int, progress: Callable[[str], None]) -> None:
    """Create a control room with jobs of the last weeks."""
    progress(f"filling a control room with {jobs} jobs")
    chance, now = random.Random(7), datetime.now(UTC)
    room = ControlRoom(folder)
    for _ in range(jobs):
        identity = an_identity(chance, now - timedelta(hours=chance.uniform(0, 24 * 20)))
        batch = a_batch(chance, identity, 0)
        assert batch.status is not None
        room.take(replace(batch, status=replace(batch.status, status="finished")))
    room.close()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Run the server of a control room in a separate process. Yields its URL with the token, and the process."""
    command = [sys.executable, "-m", "branchline", "serve", str(folder), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=REPOSITORY)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[1], psutil.Process(server.pid)
    finally:
        server.terminate()
        server.communicate(timeout=WAIT_S)


def served(folder: Path, known_jobs: int, jobs: int, viewers: int, seconds: float) -> Served:
    """Run one measurement with a server in a separate process."""
    with serving(folder) as (address, process):
        load = Load(address)
        threads = [threading.Thread(target=load.view, args=(seed,)) for seed in range(viewers)]
        threads += [threading.Thread(target=load.report, args=(1000 + seed,)) for seed in range(jobs)]
        for one in threads:
            one.start()
        time.sleep(seconds)
        memory_bytes, times = process.memory_info().rss, process.cpu_times()
        load.end.set()
        for one in threads:
            one.join()
    return Served(
        known_jobs, jobs, viewers, seconds,
        len(load.report_s), *percentiles(load.report_s), len(load.page_s), *percentiles(load.page_s),
        *percentiles(load.change_s), memory_bytes, times.user + times.system, load.failures,
    )  # fmt: skip


def percentiles(values: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile, or zeros for no values."""
    ordered = sorted(values) or [0.0]
    return ordered[len(ordered) // 2], ordered[min(len(ordered) - 1, int(0.99 * len(ordered)))]


def serving_page(
    known_jobs: int, jobs: int, viewers: int, seconds: float, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure a server without jobs and one with many jobs, and return the page and its rows."""
    rows = []
    for known in (0, known_jobs):
        with tempfile.TemporaryDirectory() as folder:
            filled(Path(folder) / "room", known, progress)
            progress(f"{jobs} jobs report and {viewers} pages are open for {seconds:.0f} s")
            rows.append(served(Path(folder) / "room", known, jobs, viewers, seconds))
    return _page(rows), [asdict(one) for one in rows]


def _page(rows: list[Served]) -> str:
    headings = ["jobs known", "reports/s", "report p50", "p99", "pages/s", "page p50", "p99", "event p50", "p99",
                "memory", "CPU", "failures"]  # fmt: skip
    cells = [
        [
            f"{one.known_jobs}", f"{one.reports / one.seconds:.0f}", *_ms(one.report_p50_s, one.report_p99_s),
            f"{one.pages / one.seconds:.0f}", *_ms(one.page_p50_s, one.page_p99_s),
            *_ms(one.change_p50_s, one.change_p99_s), f"{one.memory_bytes / 1e6:.0f} MB",
            f"{100 * one.cpu_s / one.seconds:.0f} %", f"{one.failures}",
        ]
        for one in rows
    ]  # fmt: skip
    first = rows[0]
    what = (
        f"{first.jobs} jobs report {FILES_PER_REPORT} files every {REPORT_PAUSE_S:g} s, and {first.viewers} pages "
        f"({', '.join(PAGES)}) are open and requested again after each change, for {first.seconds:.0f} s. The clients "
        "run on the same machine."
    )
    parts = ["# The control room under load", what, table(headings, cells), "\n".join(machine_lines(1))]
    return "\n\n".join(parts) + "\n"


def _ms(*seconds: float) -> list[str]:
    return [f"{1000 * one:.0f} ms" for one in seconds]
