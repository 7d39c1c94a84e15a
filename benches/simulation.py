"""`python -m benches simulation`: jobs at once, simulated from the trace of one, beside as many real jobs; and how long
simulations take.
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

from studies.yard.caps import Group
from studies.yard.disks import DiskKind, Disks
from studies.yard.skipping import LackingError

from benches.conditions import machine_lines
from benches.links import link
from benches.places import LARGE_TREE, large_file, served
from benches.tables import table
from branchline.forecast.jobs_at_once import JobsPoint, JobsRequest, simulate_jobs
from branchline.forecast.platform import Disk, Link, Nodes, Platform, Storage
from branchline.forecast.simulated_plan import Block, BlockPlan, Reading, plans_of
from branchline.lab.at_once import run_at_once
from branchline.lab.cold import make_cold
from branchline.lab.job import JobRequest
from branchline.tracing import read_trace
from branchline.tracing.recording import recording
from branchline.tree import ChunkStream, Source

#: Numbers of real jobs at once.
COUNTS = (1, 2, 4, 8, 16)
WAIT_S = 300.0
MB = 1e6
DISK = DiskKind("disk", 30_000_000, 1000)
LINK_RATE, ROUND_TRIP_S = 30e6, 0.02
#: Of the page: how far a simulation may be from what was measured.
GOAL = 0.15
#: Nothing else holds jobs back: memory, and the loop of this machine.
FREE = 1e12


@dataclass(frozen=True)
class RealPlace:
    """Where jobs read: the files of each, and the platform as the simulator has it."""

    name: str
    files: list[str]
    platform: Platform
    is_local: bool


@contextmanager
def capped_disk(source: Path, jobs: int) -> Iterator[RealPlace]:
    """A loop device whose reads the kernel caps, with a file for each job. Raises LackingError where that cannot be."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        group = Group()
        stack.callback(group.close)
        disks = Disks(folder, group)
        stack.callback(disks.close)
        size = source.stat().st_size
        mounted, _ = disks.disk("capped", DISK, int(size * jobs * 1.2) + 64_000_000)
        files = []
        for number in range(jobs):
            copy = mounted / f"{number}.root"
            copy.write_bytes(source.read_bytes())
            files.append(str(copy))
        os.sync()
        # An operation has 128 KiB here, the read-ahead of the device: the rate is used up first.
        disk = Disk("capped", float(DISK.bytes_per_s))
        yield RealPlace("a capped disk", files, _platform((disk,), (), Storage("here", disk="capped")), is_local=True)


@contextmanager
def shaped_link(source: Path, jobs: int) -> Iterator[RealPlace]:
    """An XRootD server behind a proxy that delays, and passes so many bytes a second for all jobs together."""
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
    """The plan of a job, from the trace of one that read the first file alone."""
    if place.is_local:
        make_cold(place.files[:1])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "one.trace"
        with recording(path, "one job"), ChunkStream([Source(place.files[0], LARGE_TREE)], None, threads=1) as stream:
            for chunk in stream:
                chunk.release()
        trace = read_trace(path)
    (plan,) = plans_of(trace, "here")
    # The trace begins before its stream, and the first connection is made before the first request.
    return plan


def measured(place: RealPlace, count: int) -> tuple[float, list[float]]:
    """The makespan of so many jobs at once, and the seconds of each."""
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
    """A row for each number of jobs: measured in rounds, and simulated."""
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


def scaled(jobs: int, nodes: int, disks: int, seed: int) -> tuple[JobsPoint, float, int]:
    """A simulation of so many jobs with 31 blocks each, the seconds that it takes, and its blocks."""
    chance = Random(seed)
    platform = Platform(
        tuple(Storage(f"s{one}", disk=f"d{one}", links=("site",)) for one in range(disks)),
        (Nodes("farm", nodes, 16, 1.25e9),),
        tuple(Disk(f"d{one}", 2e9 / disks) for one in range(disks)),
        (),
        (Link("site", 10e9, 0.002),),
    )
    reading = Reading(requests_in_flight=1, blocks_ahead=1)
    plans = tuple(
        BlockPlan(
            tuple(
                Block(f"s{chance.randrange(disks)}", chance.uniform(1e6, 9e6), chance.uniform(0.1, 1.0))
                for _ in range(31)
            ),
            reading,
        )
        for _ in range(64)
    )
    begin_s = time.perf_counter()
    request = JobsRequest(platform, plans, cpu_spread=0.1, start_spread_s=1.0, seed=seed)
    point = simulate_jobs(request, jobs)
    return point, time.perf_counter() - begin_s, 31 * jobs


def scale_rows(largest: int, progress: Callable[[str], None]) -> list[dict[str, Any]]:
    rows = []
    for jobs, disks in ((largest // 10, 1), (largest // 10, 20), (largest, 1), (largest, 20)):
        progress(f"simulating {jobs} jobs and {disks} disks")
        point, took_s, blocks = scaled(jobs, -(-jobs // 16), disks, 1)
        rows.append(
            {"jobs": jobs, "disks": disks, "blocks": blocks, "took_s": took_s, "simulated_makespan_s": point.makespan_s}
        )
    return rows


def simulation_page(
    cache: Path, file_bytes: int, largest: int, rounds: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measures, simulates, and gives the page with its rows."""
    source = large_file(cache, file_bytes, progress)
    lines = ["# Simulated jobs beside real ones", "", *machine_lines(rounds), ""]
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
        f"Each job reads a file of {size:.0f} MB of its own, all branches, with one thread. The disk is a loop device",
        f"whose reads the kernel caps at {DISK.bytes_per_s / MB:.0f} MB/s; the link is a proxy of",
        f"{1000 * ROUND_TRIP_S:.0f} ms and {LINK_RATE / MB:.0f} MB/s before an XRootD server. The plan is that of the",
        f"trace of one job alone; the platform is what is capped, and the cores here. The goal is {GOAL:.0%}.",
        "",
        real_table(rows),
        "",
        "## How long a simulation takes",
        "",
        scale_table(scale),
    ]
    return "\n".join(lines) + "\n", [*rows, *scale]


def real_table(rows: list[dict[str, Any]]) -> str:
    """Measured and simulated, and the difference in percent."""
    head = ["place", "jobs", "makespan s", "simulated", "%", "median s", "simulated", "%", "held back by"]
    cells = []
    for one in rows:
        line = [one["place"], str(one["jobs"])]
        for name in ("makespan_s", "median_s"):
            real, simulated = one[name], one[f"simulated_{name}"]
            line += [f"{real:.2f}", f"{simulated:.2f}", f"{100 * (simulated / real - 1):+.0f}"]
        cells.append([*line, one["limited_by"]])
    return table(head, cells)


def scale_table(rows: list[dict[str, Any]]) -> str:
    """Jobs, disks and blocks of simulations, and the seconds that they took."""
    counts = [[str(one[name]) for name in ("jobs", "disks", "blocks")] for one in rows]
    times = [[f"{one['simulated_makespan_s']:.1f}", f"{one['took_s']:.2f}"] for one in rows]
    cells = [[*count, *time] for count, time in zip(counts, times, strict=True)]
    return table(["jobs", "disks", "blocks", "simulated s", "took s"], cells)
