"""Measures the overhead of dispatching empty sub-jobs in this process, to local processes, an executor and Dask.

The sub-jobs have one file of 3 MB each and are dispatched by the queue of a train. Each measurement is a separate
process, since its memory is measured.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.conditions import machine_lines
from benches.rounds import Spread
from benches.tables import spread, table
from benches.worker import REPOSITORY
from branchline.jobs.local import InThisProcess, LocalProcesses
from branchline.jobs.pools.executor_pool import ExecutorPool
from branchline.jobs.pools.pooled_workers import PooledWorkers
from branchline.jobs.subjob import Context, Finished, Place, Wait
from branchline.reading.datasets.data_file import DataFile
from branchline.trains.subjobs.shares import Share
from branchline.trains.subjobs.subjob_queue import SubJobQueue

FILE_BYTES = 3_000_000
WORKERS = 2
PLACES = {
    "here": "the calling process (`workers=0`)",
    "processes": "processes of this machine (`workers=2`)",
    "executor": "`ProcessPoolExecutor(2)`",
    "dask": "Dask, `LocalCluster` with 2 processes of one thread",
}
#: Target for the rate on Dask.
DASK_PER_S_MIN = 2000


@dataclass(frozen=True)
class Dispatched:
    """A measurement. ``first_s`` is the time from the start of the run, with the engine running, to the first result.
    ``memory_bytes`` is the increase of the submitting process's peak memory, including ``shares_bytes`` for the
    sub-jobs.
    """

    place: str
    subjobs: int
    engine_s: float
    first_s: float
    all_s: float
    cpu_s: float
    shares_bytes: int
    memory_bytes: int

    @property
    def per_second(self) -> float:
        """The rate of sub-jobs, without the start of worker processes."""
        return (self.subjobs - 1) / (self.all_s - self.first_s)


class Nothing:
    """Does nothing for each sub-job. Fetches one sub-job ahead, as a train does."""

    def __call__(self, context: Context) -> Iterator[Finished]:
        here = context.draw()
        while here is not None:
            ahead = context.draw_ahead()
            yield Finished(here.index, None, context.worker)
            here = context.draw() if isinstance(ahead, Wait) else ahead


@contextmanager
def place_of(name: str) -> Iterator[Place]:
    """Yield the place with this name, after starting its engine (Dask cluster, executor)."""
    if name == "here":
        yield InThisProcess()
    elif name == "processes":
        yield LocalProcesses(WORKERS)
    elif name == "executor":
        with ProcessPoolExecutor(WORKERS) as executor:
            # The executor starts its processes at the first calls.
            list(executor.map(time.sleep, [0.1] * WORKERS))
            yield PooledWorkers(ExecutorPool(executor))
    else:
        from distributed import Client, LocalCluster

        from branchline.jobs.pools.dask_pool import DaskPool

        with (
            LocalCluster(WORKERS, threads_per_worker=1, dashboard_address=None) as cluster,
            Client(cluster) as client,
        ):
            client.wait_for_workers(WORKERS)
            yield PooledWorkers(DaskPool(client))


def measured(name: str, count: int) -> Dispatched:
    """Run empty sub-jobs at a place."""
    before = _peak_bytes()
    files = [DataFile(f"root://se{one % 8}.example:1094//data/{one:06}.root", "events") for one in range(count)]
    shares = [Share((file.changed(size_bytes=FILE_BYTES),)) for file in files]
    shares_bytes = _peak_bytes() - before
    begin_s = time.perf_counter()
    with place_of(name) as place:
        engine_s, with_engine = time.perf_counter() - begin_s, _peak_bytes()
        queue = SubJobQueue(shares, ["pt"], 1000, wagons_count=1, workers_count=WORKERS)
        seen = bytearray(count)
        begin_s, begin_cpu_s, first_s = time.perf_counter(), time.process_time(), 0.0
        for message in place.run(Nothing(), queue.draw):
            if isinstance(message, Finished):
                first_s = first_s or time.perf_counter() - begin_s
                seen[message.index] += 1
        all_s, cpu_s = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
        memory_bytes = _peak_bytes() - with_engine + shares_bytes
    if seen != b"\1" * count:
        raise RuntimeError(f"{count - seen.count(1)} sub-jobs were not returned exactly once")
    return Dispatched(name, count, engine_s, first_s, all_s, cpu_s, shares_bytes, memory_bytes)


def _peak_bytes() -> int:
    # Unlike getrusage, this excludes the memory of the parent before exec.
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024


def dispatched(name: str, count: int) -> Dispatched:
    """Run `measured` in a separate process."""
    words = [sys.executable, "-m", "benches.dispatch", name, str(count)]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, cwd=REPOSITORY, env=os.environ)
    return Dispatched(**json.loads(done.stdout.splitlines()[-1]))


def dispatch_page(
    counts: tuple[int, int], repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure all places in rotating order, with few and with many sub-jobs, and return the page and its rows."""
    found: list[Dispatched] = []
    for number in range(repeats):
        for name in PLACES:
            for count in counts:
                progress(f"round {number + 1} of {repeats}: {count} empty sub-jobs on {name}")
                found.append(dispatched(name, count))
    rows = []
    for name, title in PLACES.items():
        for count in counts:
            of_place = [one for one in found if (one.place, one.subjobs) == (name, count)]
            numbers = (
                (1.0, 0, [one.per_second for one in of_place]),
                (1.0, 2, [one.first_s for one in of_place]),
                (1.0, 2, [one.engine_s for one in of_place]),
                (1e6, 0, [one.cpu_s / count for one in of_place]),
                (1e-6, 0, [float(one.memory_bytes) for one in of_place]),
            )
            rows.append([title, str(count), *(spread(Spread.of(many), by, digits) for by, digits, many in numbers)])
    head = ["place", "sub-jobs", "sub-jobs/s", "first result s", "engine start s", "CPU us each", "memory MB"]
    lines = [
        "# Dispatching empty sub-jobs",
        "",
        f"Sub-jobs of a train, one file each, on {WORKERS} workers; median, lowest and highest of {repeats} rounds. "
        "Each measurement is a separate process.",
        "",
        *machine_lines(repeats),
        "- sub-jobs/s: from the first result to the last one",
        "- first result: time from the start of the run, with the engine (Dask cluster, executor) running",
        "- CPU and memory: of the submitting process; memory is the increase of its peak by the dataset and the run. "
        "On Dask it includes the scheduler, which keeps a log of 100 000 steps",
        f"- goal: {DASK_PER_S_MIN} sub-jobs/s on Dask",
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(lines), [{**asdict(one), "per_second": one.per_second} for one in found]


if __name__ == "__main__":
    print(json.dumps(asdict(measured(sys.argv[1], int(sys.argv[2])))))
