"""Measures the control room: batches accepted per second, time for pages and their queries, and memory.

Jobs arrive in batches, as sent by real jobs. Further rows of files are written to the history directly.
"""

from __future__ import annotations

import json
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow
from pyarrow import compute

from benches.conditions import machine_lines
from benches.rounds import Spread
from benches.serving import Load, serving
from benches.tables import spread, table
from benches.worker import REPOSITORY
from branchline.base.limits import HISTORY_GROUP_ROWS
from branchline.base.plain import to_plain
from branchline.control.history.compaction import HistoryFile, list_file
from branchline.control.history.rows import row_schema
from branchline.control.intake import checked, take
from branchline.control.measures import Measure, MeasureOrder
from branchline.control.people import ADMINISTRATOR, Person
from branchline.control.plans.plan import Fullness, Plan
from branchline.control.registry.entries import DatasetEntry, WagonEntry, WagonSource
from branchline.control.reports.jobs import JobQuery
from branchline.control.reports.readings import Period
from branchline.control.room import ControlRoom
from branchline.control.trains.train import Train, TrainOrder
from branchline.control.trials.trial import DONE, TrialOutcome
from branchline.control.web.pages.plans import ROWS as PLAN_ROWS
from branchline.records.diagnosis.remedies import AVOID_ELEMENT
from branchline.records.sending.message import JobIdentity, ReportBatch
from branchline.records.sensors.record import (
    FINISHED,
    FileRecord,
    JobRecord,
    SiteReading,
    Totals,
    WagonRecord,
    WorkerPhases,
)
from branchline.records.sensors.status import TrainStatus

DAYS, SITES, ELEMENTS, USERS, WAGONS = 30, 20, 20, 200, 50
# Numbers that are typical for a group after some years. Each dataset has a plan; pages show some of the plans.
TRAINS, DATASETS, ENABLED = 5000, 50, 20
FILES_A_BATCH = 20
JOBS_A_TRANSACTION = 200
PAGE_MS_MAX, GROUPS_S_MAX = 100, 3
# Paths of the measured pages, in addition to the pages of one job.
SHOWN = (
    "/jobs", "/jobs?order=events", "/jobs?search=run77", "/sites", "/elements", "/costs", "/findings", "/measures",
    "/grid", "/wagons/bench/Wagon1", "/datasets/bench/data1", "/changes", "/trains", "/trains/1", "/plans",
    "/plans/bench/plan1", "/new-train?dataset=bench/data1",
)  # fmt: skip
SETTLE_S = 10.0
_HTML = {"Accept": "text/html"}
_PAGE_OF_JOB = re.compile(r"/jobs/[0-9a-f]{32}")


@dataclass(frozen=True)
class Timed:
    """A measured operation: wall and CPU seconds of each repetition, and peak memory of the process."""

    what: str
    seconds: list[float]
    cpu_seconds: list[float]
    memory_bytes: int

    @classmethod
    def of(cls, what: str, work: Callable[[], object], repeats: int) -> Timed:
        """Run the operation several times and measure it."""
        wall_s, cpu_s = [], []
        for _ in range(repeats):
            begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
            work()
            wall_s.append(time.perf_counter() - begin_s)
            cpu_s.append(time.process_time() - begin_cpu_s)
        return cls(what, wall_s, cpu_s, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)


def job_batch(chance: random.Random, index: int, count: int, files_count: int, *, is_last: bool) -> ReportBatch:
    """Return a batch of one of many jobs, whose times are spread over the days."""
    begin = datetime.now(UTC) - timedelta(days=DAYS * (1 - index / max(1, count)))
    wagons = [f"Wagon{chance.randrange(WAGONS)}" for _ in range(3)]
    who = JobIdentity(
        uuid.UUID(int=chance.getrandbits(128)).hex,
        name=f"analysis-{index}",
        command=f"branchline run wagons.py datasets/run{index % 500}.txt -o analysis-{index}",
        user=f"user{chance.randrange(USERS)}",
        host=f"node{chance.randrange(1000)}.example",
        site=f"site{index % SITES}",
        started=begin.isoformat(),
        wagons=wagons,
        datasets=[f"run{index % 500}"],
    )
    elements = chance.sample(range(ELEMENTS), 3)
    files = [
        FileRecord(
            f"root://se{elements[one % 3]}.example//data/run{index % 500}/file{index}-{one}.root",
            f"root://se{elements[one % 3]}.example",
            site=who.site,
            host=who.host,
            bytes_read=chance.randrange(10**9),
            wall_s=chance.uniform(0, 100),
            events=10_000,
            subjobs=1,
        )
        for one in range(files_count)
    ]
    sites = [
        SiteReading(
            who.site, f"root://se{one}.example", "site" if one == index % SITES else "elsewhere", 7, 10**9, 0, 9.0
        )
        for one in elements
    ]
    status = TrainStatus(60.0, 10**6, 10**9, 2 * 10**9, 1.0, FINISHED, "write", 100, 100)
    record = JobRecord(
        status=FINISHED,
        wall_s=chance.uniform(10, 10_000),
        cpu_s=chance.uniform(10, 10_000),
        workers=8,
        threads=1,
        subjobs=100,
        subjobs_done=100,
        events=chance.randrange(10**8),
        totals=Totals(bytes_read=chance.randrange(10**12)),
        worker_phases=[WorkerPhases(one, who.host, who.site, 100.0, wait=9.0, wagons=80.0) for one in range(8)],
        wagons=[WagonRecord(one, 30.0, 29.0, events=10**6, output_bytes=10**5) for one in wagons],
    )
    made = (begin + timedelta(minutes=1)).isoformat()
    return ReportBatch(who, "job", 0, made, status, files, sites, record if is_last else None)


def filled(cache: Path, jobs: int, rows: int, progress: Callable[[str], None]) -> Path:
    """Create a control room with this many jobs and rows of files, unless it exists."""
    folder = cache / f"control-room-{jobs}-{rows}"
    if (folder / "whole").exists():
        return folder
    progress(f"creating a control room with {jobs} jobs and {rows} rows of files")
    chance = random.Random(1)
    room = ControlRoom(folder)
    for begin in range(room.jobs(JobQuery()).total, jobs, JOBS_A_TRANSACTION):
        now = datetime.now(UTC)
        batches = [
            checked(job_batch(chance, index, jobs, 1, is_last=True), now)
            for index in range(begin, min(jobs, begin + JOBS_A_TRANSACTION))
        ]
        with room._database.writing() as connection:
            for one in batches:
                take(connection, one, now)
    room.upkeep.tidy()
    with room._database.reading() as connection:
        [there] = connection.execute("SELECT sum(rows) FROM history_files").fetchone()
    for day in range(DAYS):
        add_rows(room, max(0, rows - there) // DAYS, (datetime.now(UTC) - timedelta(days=day + 1)).replace(hour=0))
    room.close()
    (folder / "whole").touch()
    return folder


def add_rows(room: ControlRoom, rows: int, day: datetime) -> None:
    """Add a history file for a day, with rows of a hundred jobs."""
    chance = np.random.default_rng(day.toordinal())
    job = uuid.uuid4().hex
    with room._history.new_file(day.date().isoformat()) as (name, writer):
        for begin in range(0, rows, HISTORY_GROUP_ROWS):
            writer.write_table(_rows(chance, job, min(HISTORY_GROUP_ROWS, rows - begin), begin, day))
    with room._history.listing(name) as connection:
        list_file(connection, room._history, HistoryFile(name, day.date().isoformat(), 3, -1, rows))
        connection.execute("INSERT INTO history_jobs SELECT id, ?, ? FROM jobs LIMIT 1", (name, rows))


def _rows(chance: np.random.Generator, job: str, rows: int, first: int, day: datetime) -> Any:
    """Return rows with random numbers and strings, similar to real jobs."""
    texts = {
        "storage_element": [f"root://se{one}.example" for one in range(ELEMENTS)],
        "site": [f"site{one}" for one in range(SITES)],
        "host": [f"node{one}.example" for one in range(1000)],
        "store": ["xrootd"],
        "codec": ["zstd"],
        "worker": [str(one) for one in range(64)],
        "replica": [""],
        "job": [f"{first // HISTORY_GROUP_ROWS:04x}{job[4:]}"],
    }
    given = {name: pyarrow.array(some).take(chance.integers(len(some), size=rows)) for name, some in texts.items()}
    numbers = compute.cast(pyarrow.array(np.arange(first, first + rows)), pyarrow.string())
    given["path"] = compute.binary_join_element_wise(given["storage_element"], "//data/run1/file", numbers, ".root", "")
    moments = np.datetime64(day.replace(tzinfo=None), "ms") + np.linspace(0, 86_000_000, rows).astype("timedelta64[ms]")
    given["made"] = pyarrow.array(moments)
    columns = []
    for one in row_schema():
        if one.name in given:
            columns.append(given[one.name].cast(one.type))
        elif one.type == pyarrow.int64():
            columns.append(pyarrow.array(chance.integers(10**9, size=rows)))
        elif one.type == pyarrow.float64():
            columns.append(pyarrow.array(chance.uniform(0, 100, size=rows)))
        else:
            columns.append(pyarrow.array([[]] * rows, one.type))
    return pyarrow.Table.from_arrays(columns, schema=row_schema())


def pages(folder: str, repeats: int) -> list[Timed]:
    """Measure the queries of all pages. Runs in a separate process."""
    room = ControlRoom(Path(folder))
    row = room.jobs(JobQuery(first=10)).rows[0]
    now = datetime.now(UTC)
    measure = with_measure(room)
    with_trains(room)
    trains = room.trains.trains()[0]
    room.findings.look("week")
    week = Period((now - timedelta(days=7)).isoformat(), now.isoformat())
    asked: dict[str, Callable[[], object]] = {
        "jobs, the newest": lambda: room.jobs(JobQuery()),
        "jobs by events": lambda: room.jobs(JobQuery(order="events")),
        "jobs, page 1000": lambda: room.jobs(JobQuery(first=50_000)),
        "jobs with a text": lambda: room.jobs(JobQuery(search="run77")),
        "jobs at a site with an element": lambda: room.jobs(JobQuery(site="site3", element="root://se3.example")),
        "jobs from an element": lambda: room.jobs(JobQuery(element="root://se3.example")),
        "jobs with a wagon": lambda: room.jobs(JobQuery(wagon="Wagon7")),
        "one job": lambda: room.job(row.identity.job),
        "sites x elements, all": lambda: room.site_table(Period()),
        "sites x elements, a week": lambda: room.site_table(week),
        "elements by hour, a week": lambda: room.element_hours(week),
        "costs of users": lambda: room.costs("user", Period()),
        "costs of wagons": lambda: room.costs("wagon", Period()),
        "measures": lambda: room.measures.measures(),
        "effect of a measure": lambda: room.measures.effect(measure),
        "latest findings": lambda: room.findings.last("week"),
        "detecting findings of a week": lambda: room.findings.look("week"),
        "trains": lambda: room.trains.trains(),
        "one train": lambda: (room.trains.status(trains[0]), room.trains.earlier(trains[0])),
        "plans and queue": lambda: [room.plans.waiting(one.plan, now) for one in room.plans.plans()[:PLAN_ROWS]],
        "wagons and datasets": lambda: room.trials.last(sorted(room.registry.grid().enabled)),
        "files of a job": lambda: room.files(row.identity.job, 0, 50),
        "rows of files by site and element": lambda: room.file_groups(["site", "storage_element"], Period()),
    }
    found = [Timed.of(what, ask, repeats) for what, ask in asked.items()]
    room.close()
    return found


def whole_pages(folder: Path, repeats: int) -> list[Timed]:
    """Measure complete pages requested from a server, rendered for each request, after the tasks at server start."""
    room = ControlRoom(folder)
    job = room.jobs(JobQuery(first=10)).rows[0].identity.job
    room.close()
    paths = [*SHOWN, f"/jobs/{job}", f"/jobs/{job}/files"]
    with serving(folder) as (address, process):
        load = Load(address)
        time.sleep(SETTLE_S)
        return [_asked(load, process, path, repeats) for path in paths]


def _asked(load: Load, process: psutil.Process, path: str, repeats: int) -> Timed:
    wall_s, cpu_s = [], []
    for number in range(repeats + 1):
        before_s = _used_s(process)
        # A unique query bypasses the server's cache of rendered pages.
        wall_s.append(load.ask("GET", f"{path}{'&' if '?' in path else '?'}drawn={number}", headers=_HTML))
        cpu_s.append(_used_s(process) - before_s)
    assert not load.failures, path
    # The first request compiles the template.
    return Timed(path, wall_s[1:], cpu_s[1:], process.memory_info().rss)


def _used_s(process: psutil.Process) -> float:
    """Return the CPU time of a process, including ended threads.

    Reads the CPU clock of the process; its id is computed as in clock_getcpuclockid(3) on Linux.
    """
    return time.clock_gettime((~process.pid << 3) | 2)


def with_measure(room: ControlRoom) -> Measure:
    """Return a measure of the control room, adding one if necessary."""
    if not room.measures.measures()[1]:
        order = MeasureOrder(AVOID_ELEMENT, storage_element="root://se3.example", why="to be measured")
        room.measures.switch_on(order, Person("bench", ADMINISTRATOR))
    return room.measures.measures()[0][0]


def with_trains(room: ControlRoom) -> None:
    """Add enabled wagons with passed trials, a plan for each dataset, and trains, unless they exist."""
    who = Person("bench", ADMINISTRATOR)
    if room.plans.plans():
        return
    sha256 = room.sources.keep(b"class Wagon:\n    def process(self, events):\n        return {}\n")
    wagon = WagonEntry("bench", "Wagon", source=WagonSource(sha256), wagon_class="Wagon")
    names = [f"Wagon{index}" for index in range(ENABLED)]
    for name in names:
        room.registry.save_wagon(replace(wagon, name=name), who)
    wagons = [f"bench/{name}" for name in names]
    datasets = [f"bench/data{index}" for index in range(DATASETS)]
    for index, dataset in enumerate(datasets):
        room.registry.save_dataset(DatasetEntry("bench", f"data{index}", files=[f"/data/{index}/*.root"]), who)
        room.registry.enable(wagons, dataset, who)
        room.plans.save(Plan("bench", f"plan{index}", dataset, full=Fullness(wagons=100)), who)
    keys = {(one, dataset): room.trials.key_of(one, dataset) for one in wagons for dataset in datasets}
    outcome = json.dumps(TrialOutcome(events=1000, seconds=60.0, memory_bytes=10**9).as_dict())
    now = datetime.now(UTC).isoformat()
    trials = [(*pair, key, DONE, now, now, outcome) for pair, key in keys.items()]
    orders = [TrainOrder("bench", "all", datasets[index % DATASETS], wagons) for index in range(TRAINS)]
    trains = [(json.dumps(to_plain(Train(0, order, ordered=now))), FINISHED) for order in orders]
    with room._database.writing() as connection:
        query = "INSERT INTO trials (wagon, dataset, key, state, queued, ended, outcome) VALUES (?, ?, ?, ?, ?, ?, ?)"
        connection.executemany(query, trials)
        connection.executemany("INSERT INTO trains (content, state) VALUES (?, ?)", trains)


def takes(threads: int, count: int) -> list[Timed]:
    """Accept batches in several threads, each batch acknowledged, then write their rows to the history."""
    chance = random.Random(threads)
    batches = [job_batch(chance, index, count, FILES_A_BATCH, is_last=False) for index in range(count)]
    with tempfile.TemporaryDirectory() as folder:
        room = ControlRoom(Path(folder))
        with ThreadPoolExecutor(threads) as pool:
            found = [Timed.of(f"{count} batches by {threads}", lambda: list(pool.map(room.take, batches)), 1)]
        found.append(Timed.of(f"{count * FILES_A_BATCH} rows", room.upkeep.tidy, 1))
        room.close()
    return found


def in_a_process(call: str) -> Any:
    """Return the result of a function of this module, run in a separate process."""
    program = f"import json; from benches.control_room import *; print(json.dumps({call}, default=asdict))"
    words = [sys.executable, "-c", program]
    return json.loads(subprocess.run(words, capture_output=True, check=True, cwd=REPOSITORY).stdout)


def control_room_page(
    cache: Path, jobs: int, rows: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure a control room of this size and return the page and its rows."""
    folder = filled(cache, jobs, rows, progress)
    progress("measuring queries")
    asked = [Timed(**one) for one in in_a_process(f"pages({str(folder)!r}, {repeats})")]
    progress("measuring complete pages")
    shown = whole_pages(folder, repeats)
    progress("measuring batches")
    count = max(20, min(1000, jobs))
    taken = {
        threads: [[Timed(**one) for one in in_a_process(f"takes({threads}, {count})")] for _ in range(repeats)]
        for threads in (1, 16)
    }
    lines = [
        "# The control room",
        "",
        f"A room with {jobs} jobs of {DAYS} days and {rows} rows of files, {SITES} sites, {ELEMENTS} storage elements. "
        f"Goals: queries of a page within {PAGE_MS_MAX} ms, sums over all rows of files within {GROUPS_S_MAX} s. "
        "Findings are detected in the background, and no page waits for them. Median, lowest and highest of "
        f"{repeats}; memory is the peak of the process up to then.",
        "",
        *machine_lines(repeats),
        "",
        _timed_table("query", asked),
        "",
        "Complete pages, requested from a server on this machine and rendered for each request. CPU time and memory "
        "refer to the server.",
        "",
        _timed_table("page", [replace(one, what=_PAGE_OF_JOB.sub("/jobs/JOB", one.what)) for one in shown]),
        "",
        f"Batches of {FILES_A_BATCH} files are acknowledged once they are on the disk. Their rows are written to the "
        "history later, in bulk.",
        "",
        table(
            ["threads", "batches a second", "CPU ms a batch", "history, CPU us a row"],
            [
                [
                    str(threads),
                    spread(Spread.of([count / batches.seconds[0] for batches, _ in found]), 1, 0),
                    spread(Spread.of([batches.cpu_seconds[0] / count for batches, _ in found]), 1e3, 2),
                    spread(Spread.of([written.cpu_seconds[0] / count / FILES_A_BATCH for _, written in found]), 1e6, 1),
                ]
                for threads, found in taken.items()
            ],
        ),
        "",
    ]
    every = [*asked, *shown, *(one for found in taken.values() for each in found for one in each)]
    return "\n".join(lines), [asdict(one) for one in every]


def _timed_table(what: str, rows: list[Timed]) -> str:
    return table(
        [what, "ms", "CPU ms", "memory MB"],
        [
            [
                one.what,
                spread(Spread.of(one.seconds), 1e3, 1),
                spread(Spread.of(one.cpu_seconds), 1e3, 1),
                f"{one.memory_bytes / 1e6:.0f}",
            ]
            for one in rows
        ],
    )
