"""`python -m benches reporting`: what reporting to a control room costs a job, the same job with it and without."""

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
#: What reporting may cost a job.
WANTED = 0.01


@dataclass(frozen=True)
class Took:
    """Seconds of a job, and seconds of the processor in all of its processes. ``threads_s`` are those in threads that
    report, ``end_s`` the seconds for which the job waited for them at its end.
    """

    wall_s: float
    cpu_s: float
    threads_s: float = 0.0
    end_s: float = 0.0


@dataclass(frozen=True)
class Room:
    """A control room that serves."""

    url: str
    token: str


@contextmanager
def room_in(folder: Path) -> Iterator[Room]:
    """`branchline serve` in a process of its own."""
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
    """Adds up what reporters take inside, by the clocks of their threads: other programs do not change it."""
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
    """One job, to its last file."""
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
    """Rounds in which the job runs in each way, in turn."""
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
    """What a reporter takes of the processor by itself: for so many readings and a state five times a second."""
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
        print(sentence, file=sys.stderr)  # It waits on disk, as where the server is busy.
    return {"seconds": time.perf_counter() - begin_s, "cpu_s": cpu_seconds() - spent_s, "readings": readings}


def reporting_page(
    cache: Path, files: int, events: int, copies: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measures, and gives the page with its rows."""
    from benches.data import SOME_BRANCHES

    sources = collisions(cache, files, events, progress)
    folder = Path(tempfile.mkdtemp(prefix="reporting-", dir=cache))
    os.environ["XDG_STATE_HOME"] = str(folder / "state")
    warnings.simplefilter("ignore")  # Of reports that wait, where there is no control room.
    try:
        copied = []
        for number in range(copies):
            copied.append(str(folder / f"collisions-{number}.root"))
            shutil.copy(sources[number % len(sources)], copied[-1])
        wagons = folder / "wagons.py"
        wagons.write_text(WAGON.format(branches=list(SOME_BRANCHES)))
        with room_in(folder / "room") as room:
            away = Room("http://127.0.0.1:9", room.token)
            rooms = {"with": room, "with it away": away, "without": None}
            rows = []
            for place in PLACES:
                progress(f"{place}: {repeats} rounds")
                rows.append(measured(place, wagons, copied, folder, rooms, repeats))
            alone = [reporter_cpu(folder, room, readings, min(12.0, 4.0 * repeats)) for readings in (0, 20 * copies)]
    finally:
        shutil.rmtree(folder)
    return page_of(rows, alone), [*rows, {"alone": alone}]


def page_of(rows: list[dict[str, Any]], alone: list[dict[str, float]]) -> str:
    head = ["the job in", "reporting", "with s", "without s", "more wall time", "more processor time"]
    head += ["its threads ms", "of the job's", "wait at the end ms"]
    lines = ["# What reporting to a control room costs a job", "", *machine_lines(len(rows[0]["rounds"])), ""]
    ways = ("with", "with it away")
    lines += [table(head, [row_of(row, way) for row in rows for way in ways]), ""]
    idle, busy = alone
    each_us = 1e6 * (busy["cpu_s"] - idle["cpu_s"]) / busy["readings"]
    lines += [
        f"A job reads {rows[0]['files']} files, copies of a few, and makes a histogram. In each round it runs with a",
        "control room that `branchline serve` serves on this machine, with one that is not there, and without any, in",
        "turn. A cost is the median of the rounds; in brackets is where it lies with 95 % confidence. Processor time",
        "is that of all processes of the job; that of the server is not in it, but it runs on the same cores. A job",
        "with a control room waits at its end until the last report is on the server's disk, whatever its length. What",
        "its threads take is by their own clocks, in which other programs of the machine are not.",
        f"Wanted: below {100 * WANTED:.0f} %.",
        "",
        f"By itself, a reporter that gets five states a second takes {1e3 * idle['cpu_s']:.0f} ms of the processor in",
        f"{idle['seconds']:.0f} s, and {each_us:.0f} us more for each reading of a file, of {busy['readings']:.0f}.",
    ]
    return "\n".join(lines) + "\n"
