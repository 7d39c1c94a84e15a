"""`python -m benches simulation`: concurrent jobs, simulated from the trace of one job and compared with real jobs, and
the time that simulations take.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from studies.yard.disks import DiskKind, Disks
from studies.yard.skipping import LackingError

from benches.conditions import machine_lines
from benches.links import link
from benches.places import LARGE_TREE, large_file, served
from benches.tables import table
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.local_jobs import run_at_once
from branchline.lab.sampling.page_cache import make_cold
from branchline.lab.simulation.job_plan import Block, BlockPlan, ReadingAhead, plans_of
from branchline.lab.simulation.platform import Disk, Link, Nodes, Platform, Storage
from branchline.lab.simulation.simulated_jobs import JobsRequest, simulate_counted, simulate_jobs
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording
from branchline.tracing.trace import read_trace

#: Numbers of concurrent real jobs.
COUNTS = (1, 2, 4, 8, 16)
WAIT_S = 300.0
MB = 1e6
DISK = DiskKind("disk without seek times, 30 MB/s", 30 * MB, 0.0, 0.0, 0.0)
LINK_RATE, ROUND_TRIP_S = 30e6, 0.02
#: Largest accepted relative difference between simulation and measurement.
GOAL = 0.15
#: A rate that never limits jobs, for memory and the loopback interface.
FREE = 1e12


@dataclass(frozen=True)
class RealPlace:
    """A place with a file for each job, and its description as a platform for the simulator."""

    name: str
    files: list[str]
    platform: Platform
    is_local: bool


@contextmanager
def capped_disk(source: Path, jobs: int) -> Iterator[RealPlace]:
    """Yield an emulated disk with a file for each job. Raises LackingError if the machine cannot emulate one."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        disks = Disks(folder)
        stack.callback(disks.close)
        size = source.stat().st_size
        mounted, _ = disks.disk("capped", DISK, int(size * jobs * 1.2) + 64_000_000)
        files = []
        for number in range(jobs):
            copy = mounted / f"{number}.root"
            copy.write_bytes(source.read_bytes())
            files.append(str(copy))
        os.sync()
        disk = Disk("capped", float(DISK.bytes_per_s))
        yield RealPlace("a capped disk", files, _platform((disk,), (), Storage("here", disk="capped")), is_local=True)


@contextmanager
def shaped_link(source: Path, jobs: int) -> Iterator[RealPlace]:
    """Yield an XRootD server with a proxy that adds latency and limits the total bandwidth of all jobs."""
    throttle = f"latency={1000 * ROUND_TRIP_S:.0f}ms,bandwidth={LINK_RATE / MB:.0f}MB/s"
    with served({f"{number}.root": source for number in range(jobs)}) as place, link(place.port, throttle) as base:
        files = [f"{base}/{number}.root" for number in range(jobs)]
        way = Link("shaped", LINK_RATE, ROUND_TRIP_S)
        yield RealPlace(
            "a shaped link", files, _platform((), (way,), Storage("here", links=("shaped",))), is_local=False
        )


def _platform(disks: tuple[Disk, ...], links: tuple[Link, ...], storage: Storage) -> Platform:
    cores = len(os.sched_getaffinity(0))
    return Platform((storage,), (Nodes("here", 1, cores, FREE, slots=max(COUNTS)),), disks, links=links)


def plan_of_one(place: RealPlace) -> BlockPlan:
    """Return the plan of a job, from the trace of a job that read only the first file."""
    if place.is_local:
        make_cold(place.files[:1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.trace"
        with recording(path, "one job"), ChunkStream([Source(place.files[0], LARGE_TREE)], None, threads=1) as stream:
            for chunk in stream:
                chunk.release()
        trace = read_trace(path)
    (plan,) = plans_of(trace, "here")
    # Remove the time from the start of the trace to the first request, including the first connection.
    return plan


def measured(place: RealPlace, count: int) -> tuple[float, list[float]]:
    """Return the makespan of this many concurrent jobs, and the seconds of each."""
    if place.is_local:
        make_cold(place.files)
    requests = [
        JobRequest(number, "branchline", [place.files[number]], "", LARGE_TREE, options={"threads": 1})
        for number in range(count)
    ]
    makespan_s, outcomes = run_at_once(requests, {}, WAIT_S)
    failed = [one.error for one in outcomes if one.error]
    if failed:
        raise RuntimeError(f"a job failed: {failed[0]}")
    return makespan_s, [one.wall_s for one in outcomes]


def real_rows(place: RealPlace, rounds: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return a row for each number of jobs, with measured and simulated times."""
    plan = plan_of_one(place)
    request = JobsRequest(place.platform, (plan,))
    found: dict[int, list[tuple[float, float]]] = {count: [] for count in COUNTS if count <= len(place.files)}
    for number in range(rounds):
        for count in found:
            progress(f"{place.name}: {count} jobs, round {number + 1} of {rounds}")
            makespan_s, walls = measured(place, count)
            found[count].append((makespan_s, statistics.median(walls)))
    rows = []
    for count, taken in found.items():
        point = simulate_jobs(request, count)
        makespan_s, median_s = (statistics.median(column) for column in zip(*taken, strict=True))
        rows.append(
            {
                "place": place.name,
                "jobs": count,
                "rounds": rounds,
                "makespan_s": makespan_s,
                "median_s": median_s,
                "simulated_makespan_s": point.makespan_s,
                "simulated_median_s": point.job_times.median_s,
                "limited_by": point.limited_by,
            }
        )
    return rows


@dataclass(frozen=True)
class Farm:
    """The shared resources of simulated jobs: nodes of 16 cores with network cards, a link with a fixed rate or
    ``link_part`` of the total rate of all cards, and disks with a total rate.
    """

    name: str
    disks: int
    card: float
    disk_rate: float
    link_rate: float = 0.0
    link_part: float = 0.0

    def platform(self, jobs: int) -> Platform:
        """Return the platform, with a slot for each job. Rates of links and disks are for 1000 jobs and scaled."""
        nodes = -(-jobs // NODE_CORES)
        link_rate = self.link_rate * jobs / 1000 or self.link_part * self.card * nodes
        disk_rate = self.disk_rate * jobs / 1000 / self.disks
        return Platform(
            tuple(Storage(f"s{one}", disk=f"d{one}", links=("site",)) for one in range(self.disks)),
            (Nodes("farm", nodes, NODE_CORES, self.card),),
            tuple(Disk(f"d{one}", disk_rate) for one in range(self.disks)),
            (),
            (Link("site", link_rate, 0.002),),
        )


NODE_CORES, BLOCKS = 16, 31
NARROW, WIDE = 12e6, 1.25e9
#: With narrow cards and a nearly full link, the bottleneck of a job alternates between card and link.
FARMS = (
    Farm("wide cards, one saturated disk", 1, WIDE, 2e9, link_rate=10e9),
    Farm("wide cards, saturated disks", 20, WIDE, 2e9, link_rate=10e9),
    *(
        Farm(f"narrow cards, a link of {part} of them", 1, NARROW, FREE, link_part=part)
        for part in (0.7, 0.95, 1.0, 1.05)
    ),
    Farm("narrow cards, a link and disks nearly full", 20, NARROW, 1e9, link_part=0.95),
    Farm("cards of 120 MB/s, a link of 0.9 of them", 1, 10 * NARROW, FREE, link_part=0.9),
)


def scale_row(farm: Farm, jobs: int, seed: int) -> dict[str, Any]:
    """Simulate this many jobs with 31 blocks each. Return the seconds it takes, and counts determined by the seed."""
    chance = Random(seed)
    reading = ReadingAhead(requests_in_flight=1, blocks_ahead=1)

    def block() -> Block:
        return Block(f"s{chance.randrange(farm.disks)}", chance.uniform(1e6, 9e6), chance.uniform(0.1, 1.0))

    plans = tuple(BlockPlan(tuple(block() for _ in range(BLOCKS)), reading) for _ in range(64))
    request = JobsRequest(farm.platform(jobs), plans, cpu_spread=0.1, start_spread_s=1.0, seed=seed)
    begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
    counted = simulate_counted(request, jobs)
    totals = counted.totals
    return {
        "farm": farm.name,
        "jobs": jobs,
        "blocks": BLOCKS * jobs,
        "took_s": time.perf_counter() - begin_s,
        "cpu_s": time.process_time() - begin_cpu_s,
        "events": totals.events_count,
        "levels": totals.levels_count,
        "moves": totals.moves_count,
        "fillings": totals.fillings_count,
        "simulated_makespan_s": counted.point.makespan_s,
    }


def scale_rows(largest: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    """Return rows for each farm, with a tenth of the largest number of jobs and with all of them."""
    rows = []
    for jobs in (largest // 10, largest):
        for farm in FARMS:
            progress(f"simulating {jobs} jobs: {farm.name}")
            rows.append(scale_row(farm, jobs, 1))
    return rows


def simulation_page(
    cache: Path, file_bytes: int, largest: int, rounds: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure, simulate, and return the page with its rows."""
    source = large_file(cache, file_bytes, progress)
    lines = ["# Simulated jobs compared with real jobs", "", *machine_lines(rounds), ""]
    rows: list[dict[str, Any]] = []
    for make in (capped_disk, shaped_link):
        try:
            with make(source, max(COUNTS)) as place:
                rows += real_rows(place, rounds, progress)
        except LackingError as error:
            lines += [f"Not measured here: {make.__name__}: {error}", ""]
    scale = scale_rows(largest, progress)
    size = source.stat().st_size / MB
    lines += [
        f"Each job reads a separate file of {size:.0f} MB, all branches, with one thread. The disk is a loop device",
        f"whose reads the kernel limits to {DISK.bytes_per_s / MB:.0f} MB/s. The link is a proxy with",
        f"{1000 * ROUND_TRIP_S:.0f} ms and {LINK_RATE / MB:.0f} MB/s in front of an XRootD server. The plan of a job",
        "comes from the trace of a single job. The platform consists of the limited disk or link, and the cores of",
        f"this machine. The goal is a difference of at most {GOAL:.0%}.",
        "",
        real_table(rows),
        "",
        "## Duration of simulations",
        "",
        "Farms have a slot for each job, on nodes of 16 cores. Blocks have 1 to 9 MB and take 0.1 to 1 s of computing;",
        f"one block is read ahead. Narrow cards have {NARROW / MB:.0f} MB/s, wide ones {WIDE / MB:.0f} MB/s. The link",
        "has the stated fraction of the total rate of all cards.",
        "",
        "A *level* is the common rate of all requests limited by the same resource. A *move* changes the resource that",
        "limits a request. Both are counted per event. A *filling* recomputes all rates.",
        "",
        scale_table(scale),
    ]
    return "\n".join(lines) + "\n", [*rows, *scale]


def real_table(rows: list[dict[str, Any]]) -> str:
    """Return a table of measured and simulated times with their difference in per cent."""
    head = ["place", "jobs", "makespan s", "simulated", "%", "median s", "simulated", "%", "bottleneck"]
    cells = []
    for one in rows:
        line = [one["place"], str(one["jobs"])]
        for name in ("makespan_s", "median_s"):
            real, simulated = one[name], one[f"simulated_{name}"]
            line += [f"{real:.2f}", f"{simulated:.2f}", f"{100 * (simulated / real - 1):+.0f}"]
        cells.append([*line, one["limited_by"]])
    return table(head, cells)


def scale_table(rows: list[dict[str, Any]]) -> str:
    """Return a table of the size of simulations, their cost per event, and their duration."""
    cells = []
    for one in rows:
        per_event = [f"{one[name] / one['events']:.2f}" for name in ("levels", "moves")]
        seconds = [
            f"{one[name]:.{digits}f}" for name, digits in (("simulated_makespan_s", 1), ("took_s", 2), ("cpu_s", 2))
        ]
        counts = [str(one[name]) for name in ("jobs", "blocks", "events")]
        cells.append([one["farm"], *counts, *per_event, str(one["fillings"]), *seconds])
    head = ["farm", "jobs", "blocks", "events", "levels", "moves", "fillings", "simulated s", "took s", "CPU s"]
    return table(head, cells)
