"""`python -m benches reporting`: the overhead of reporting to a control room, measured with the same job with and
without reports.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benches.conditions import machine_lines
from benches.data import TREE, collisions
from benches.rounds import Spread
from benches.tables import spread, table
from benches.tracing_cost import Cost

WAGON = """
import awkward as ak
import hist


class Spectrum:
    branches = {branches!r}

    def process(self, events):
        histogram = hist.Hist.new.Reg(100, 0, 20, name="value").Weight()
        for name in self.branches:
            histogram.fill(ak.to_numpy(ak.flatten(events[name], axis=None)), weight=0.5)
        return histogram
"""
PLACES = {"this process (`workers=0`)": 0, "a worker process (`workers=1`)": 1}
#: Maximum overhead of reporting.
WANTED = 0.01


@dataclass(frozen=True)
class Took:
    """Wall seconds of a job, and CPU seconds of all its processes. ``threads_s`` are the CPU seconds of the reporting
    threads, ``end_s`` the seconds that the job waits for them at its end.
    """

    wall_s: float
    cpu_s: float
    threads_s: float = 0.0
    end_s: float = 0.0


@dataclass(frozen=True)
class Room:
    """A running control room."""

    url: str
    token: str


@contextmanager
def room_in(folder: Path) -> Iterator[Room]:
    """Run `branchline serve` in a separate process."""
    command = [sys.executable, "-m", "branchline", "serve", str(folder), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        found = re.search(r"(http://\S+)/\?token=(\S+)", process.stdout.readline())
        assert found is not None
        yield Room(found[1], found[2])
    finally:
        os.kill(process.pid, signal.SIGTERM)
        process.wait(60)


def cpu_seconds() -> float:
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@contextmanager
def reporter_clocked() -> Iterator[dict[str, float]]:
    """Sum the CPU time of reporting threads with their own clocks, independent of other programs."""
    from branchline.records.sending.reporter import Reporter

    spent = {"threads_s": 0.0, "end_s": 0.0}
    methods = {name: getattr(Reporter, name) for name in ("_keep_making", "_keep_sending", "end")}

    def clocked(name: str, clock: Callable[[], float], counter: str) -> Callable[..., Any]:
        def run(*arguments: Any) -> Any:
            begin_s = clock()
            try:
                return methods[name](*arguments)
            finally:
                spent[counter] += clock() - begin_s

        return run

    Reporter._keep_making = clocked("_keep_making", time.thread_time, "threads_s")  # type: ignore[method-assign]
    Reporter._keep_sending = clocked("_keep_sending", time.thread_time, "threads_s")  # type: ignore[method-assign]
    Reporter.end = clocked("end", time.perf_counter, "end_s")  # type: ignore[method-assign]
    try:
        yield spent
    finally:
        for name, method in methods.items():
            setattr(Reporter, name, method)


def job(wagons: Path, files: list[str], out: Path, workers: int, room: Room | None) -> Took:
    """Run one job."""
    import branchline

    with reporter_clocked() as reporter:
        begin_s, spent_s = time.perf_counter(), cpu_seconds()
        result = branchline.run(
            str(wagons),
            files,
            out,
            workers=workers,
            tree=TREE,
            reuse=False,
            pictures="none",
            report_to="" if room is None else f"{room.url}/?token={room.token}",
        )
        took = Took(time.perf_counter() - begin_s, cpu_seconds() - spent_s, **reporter)
    result.raise_error()
    shutil.rmtree(out)
    return took


def measured(
    place: str, wagons: Path, files: list[str], folder: Path, rooms: dict[str, Room | None], repeats: int
) -> dict[str, Any]:
    """Run the job in each way per round, in rotating order."""
    ways = list(rooms)
    job(wagons, files, folder / "out", PLACES[place], None)
    rounds = []
    for number in range(repeats):
        turned = ways[number % len(ways) :] + ways[: number % len(ways)]
        rounds.append({way: asdict(job(wagons, files, folder / "out", PLACES[place], rooms[way])) for way in turned})
    return {"place": place, "files": len(files), "rounds": rounds}


def row_of(found: dict[str, Any], way: str) -> list[str]:
    rounds = found["rounds"]
    costs = [Cost.of([one[way][name] / one["without"][name] - 1 for one in rounds]) for name in ("wall_s", "cpu_s")]
    sides = [spread(Spread.of([one[side]["wall_s"] for one in rounds])) for side in (way, "without")]
    threads_ms = spread(Spread.of([one[way]["threads_s"] for one in rounds]), scale=1000, digits=0)
    part = 100 * median(one[way]["threads_s"] / one[way]["cpu_s"] for one in rounds)
    end_ms = spread(Spread.of([one[way]["end_s"] for one in rounds]), scale=1000, digits=0)
    return [found["place"], way, *sides, *map(str, costs), threads_ms, f"{part:.2f} %", end_ms]


def reporter_cpu(folder: Path, room: Room, readings: int, seconds: float) -> dict[str, float]:
    """Return the CPU seconds of a reporter alone, for this many readings and five states per second."""
    from branchline.records.sending.address import ReportTarget
    from branchline.records.sending.message import identity_of
    from branchline.records.sending.reporter import Reporter
    from branchline.records.sending.spool import Spool
    from branchline.records.sensors.record import FINISHED, FileRecord, JobRecord, SiteReading
    from branchline.records.sensors.status import TrainStatus

    target = ReportTarget.of(f"{room.url}/?token={room.token}")
    assert target is not None
    one = Reporter(identity_of("train", name="by itself"), target, Spool(folder / "spool"))
    files = [FileRecord(f"root://se.example//store/data/run{n}/events-{n}.root", "root://se.example", bytes_read=n)
             for n in range(readings)]  # fmt: skip
    sites = [SiteReading("site", "root://se.example", "site", 1, 1000) for _ in files]
    rounds = max(1, round(seconds * 5))
    begin_s, spent_s = time.perf_counter(), cpu_seconds()
    one.begin()
    for number in range(rounds):
        one.note(TrainStatus(events=number))
        share = slice(readings * number // rounds, readings * (number + 1) // rounds)
        one.read(files[share], sites[share])
        time.sleep(max(0.0, begin_s + (number + 1) / 5 - time.perf_counter()))
    for sentence in one.end(JobRecord(status=FINISHED)):
        print(sentence, file=sys.stderr)  # Reports wait on disk, as if the server were busy.
    return {"seconds": time.perf_counter() - begin_s, "cpu_s": cpu_seconds() - spent_s, "readings": readings}


def reporting_page(
    cache: Path, files: int, events: int, copies: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure and return the page with its rows."""
    from benches.data import SOME_BRANCHES

    sources = collisions(cache, files, events, progress)
    folder = Path(tempfile.mkdtemp(prefix="reporting-", dir=cache))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    warnings.simplefilter("ignore")  # The spool of reports to an unreachable control room.
    try:
        copied = []
        for number in range(copies):
            copied.append(str(folder / f"collisions-{number}.root"))
            shutil.copy(sources[number % len(sources)], copied[-1])
        wagons = folder / "wagons.py"
        wagons.write_text(WAGON.format(branches=list(SOME_BRANCHES)))
        with room_in(folder / "room") as room:
            away = Room("http://127.0.0.1:9", room.token)
            rooms = {"with": room, "unreachable": away, "without": None}
            rows = []
            for place in PLACES:
                progress(f"{place}: {repeats} rounds")
                rows.append(measured(place, wagons, copied, folder, rooms, repeats))
            alone = [reporter_cpu(folder, room, readings, min(12.0, 4.0 * repeats)) for readings in (0, 20 * copies)]
    finally:
        shutil.rmtree(folder)
    return page_of(rows, alone), [*rows, {"alone": alone}]


def page_of(rows: list[dict[str, Any]], alone: list[dict[str, float]]) -> str:
    head = ["job in", "reporting", "with s", "without s", "more wall time", "more CPU time"]
    head += ["its threads ms", "of the job", "wait at the end ms"]
    lines = ["# Overhead of reporting to a control room", "", *machine_lines(len(rows[0]["rounds"])), ""]
    ways = ("with", "unreachable")
    lines += [table(head, [row_of(row, way) for row in rows for way in ways]), ""]
    idle, busy = alone
    each_us = 1e6 * (busy["cpu_s"] - idle["cpu_s"]) / busy["readings"]
    lines += [
        f"A job reads {rows[0]['files']} files, copies of a few, and fills a histogram. In each round it runs with a",
        "control room on this machine (`branchline serve`), with an unreachable one, and without one, in rotating",
        f"order. Overheads are medians of the rounds with 95 % intervals; the goal is below {100 * WANTED:.0f} %.",
        "",
        "CPU time includes all processes of the job, but not the server, which runs on the same cores. At its end,",
        "a job waits until its last report is on the server's disk; this time does not depend on its length. The CPU",
        "time of the reporting threads is measured with their own clocks, independent of other programs.",
        "",
        f"A reporter alone that gets five states per second needs {1e3 * idle['cpu_s']:.0f} ms of CPU time in",
        f"{idle['seconds']:.0f} s, plus {each_us:.0f} us per reading of a file ({busy['readings']:.0f} readings).",
    ]
    return "\n".join(lines) + "\n"
