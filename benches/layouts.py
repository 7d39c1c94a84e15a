"""Measures file layouts: the same train over small files, over their merges in all orders, and over a merge with larger
clusters.

Each of four jobs reads a quarter of the events: a quarter of the small files, or a range of entries of the merged file.
Before every pass the files are evicted from the page cache. Read calls and seeks are counted by strace in a separate
pass.
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benches import data
from benches.arms import BRANCHLINE, GET_ENTRY, Arm
from benches.conditions import conditions
from benches.layouts_picture import draw
from benches.requests import Counts, counted
from benches.rounds import Case, Sample, Spread, check_equal_work
from benches.split_objects import readable_branches
from benches.tables import MEGA, spread, table
from benches.worker import REPOSITORY, Worker
from branchline.lab.sampling.page_cache import make_cold, sequential_bytes_per_s

JOBS = 4
SOME_BRANCHES = 10
CLUSTER_EVENTS = 500
# Size of the TTreeCache, large enough for a cluster of every layout.
CACHE_BYTES = 30_000_000
SMALL, PLAIN = "small files", "hadd -fk"
# The options of `branchline merge` for each layout.
MERGES = {
    "order offset": ["--order", "offset"],
    "order entry": ["--order", "entry"],
    "order branch": ["--order", "branch"],
    f"clusters of {CLUSTER_EVENTS}": ["--cluster-events", str(CLUSTER_EVENTS)],
}
# Jobs may use both cores, with one decoding thread each, so that four jobs load them equally with every reader.
READERS = (
    Arm("Branchline", BRANCHLINE, "branchline_split", 2, {"threads": 1}),
    Arm("GetEntry, TTreeCache", GET_ENTRY, "get_split_entry", 2, {"cache_bytes": CACHE_BYTES}),
    Arm("GetEntry, no TTreeCache", GET_ENTRY, "get_split_entry", 2, {"cache_bytes": 0}),
)
CONDITIONS = ("date", "commit", "processor", "system", "versions")


@dataclass(frozen=True)
class Layout:
    """The same events in one or more files. A job reads some of the files, or a range of entries of a single file."""

    name: str
    files: list[str]
    entries: int

    def part(self, job: int) -> dict[str, Any]:
        """Return the files and the range of entries for a job."""
        first, stop = (job * self.entries // JOBS, (job + 1) * self.entries // JOBS)
        if len(self.files) == 1:
            return {"files": self.files, "entries": [first, stop]}
        size = len(self.files) // JOBS
        return {"files": self.files[job * size : (job + 1) * size], "entries": [0, -1]}


def layouts_of(cache: Path, count: int, progress: Callable[[str], None]) -> list[Layout]:
    """Create the small files unless they exist, and merge them in all ways."""
    small = [str(path.resolve()) for path in data.split_object_files(cache, count, progress)]
    folder = (cache / "layouts").resolve()
    folder.mkdir(parents=True, exist_ok=True)
    paths = {name: folder / f"{name.replace(' ', '-')}.root" for name in (PLAIN, *MERGES)}
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPOSITORY / "python"), str(REPOSITORY)])}
    ours = [sys.executable, "-m", "branchline", "merge", "--force"]
    commands = {name: [*ours, *options, "-o", str(paths[name])] for name, options in MERGES.items()}
    commands[PLAIN] = [str(hadd()), "-fk", "-v", "0", str(paths[PLAIN])]
    for name, command in commands.items():
        progress(f"merging {count} files: {name}")
        done = subprocess.run([*command, *small], env=environment, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(f"{name} could not be made: {done.stderr[-1000:]}")
    entries = sum(entries_of(path) for path in small)
    merged = [Layout(name, [str(path)], entries_of(str(path))) for name, path in paths.items()]
    if any(one.entries != entries for one in merged):
        raise RuntimeError(f"of {entries} entries merges have {[one.entries for one in merged]}")
    return [Layout(SMALL, small, entries), *merged]


def hadd() -> Path:
    """Return the path of hadd, without importing ROOT."""
    found = importlib.util.find_spec("ROOT")
    if found is None or found.origin is None:
        raise FileNotFoundError("ROOT is not installed; run make peer-packages")
    return Path(found.origin).parent / "bin" / "hadd"


def entries_of(path: str) -> int:
    import branchline

    return int(branchline.open(f"{path}:{data.SPLIT_TREE}").num_entries)


def selections_of(path: str) -> dict[str, list[str]]:
    """Return all branches that Branchline reads, and a few branches spread over them."""
    everything = readable_branches(Path(path))
    some = everything[:: len(everything) // SOME_BRANCHES][:SOME_BRANCHES]
    return {"all branches": everything, f"{len(some)} branches": some}


def request(layout: Layout, branches: list[str], job: int) -> dict[str, Any]:
    return {**layout.part(job), "tree": data.SPLIT_TREE, "branches": branches}


def started(arm: Arm, setup: dict[str, Any], warming: dict[str, Any]) -> list[Worker]:
    """Return processes for the jobs. Each has already read a file."""
    workers = []
    for number in range(JOBS):
        workers.append(Worker(arm, setup))
        if number == 0:  # the first process may have to compile
            workers[0].wait_ready()
    for worker in workers[1:]:
        worker.wait_ready()
    for worker in workers:
        worker.run(warming)
    return workers


def key(arm: Arm, jobs: int) -> str:
    return f"{arm.name}, {jobs} job{'s' if jobs > 1 else ''}"


def measure(workers: list[Worker], layout: Layout, case: Case, number: int) -> Sample:
    """Run one pass of all jobs at once over cold files. Its duration is that of the slowest job."""
    make_cold(layout.files)
    asked = [request(layout, case.branches or [], job) for job in range(len(workers))]
    with ThreadPoolExecutor(len(workers)) as pool:
        done = list(pool.map(lambda worker, one: worker.run(one), workers, asked))
    extra = {name: sum(one["extra"][name] for one in done) for name in ("read_calls", "bytes_read")}
    seconds = max(one["seconds"] for one in done)
    entries = sum(one["entries"] for one in done)
    return Sample(case.name, key(workers[0].arm, len(workers)), number, seconds, entries, None, extra)


def rounds(
    workers: list[list[Worker]], pairs: list[tuple[Layout, Case]], repeats: int, progress: Callable[[str], None]
) -> list[Sample]:
    """Run every reader on every layout, with one job and with four, in a different order in each round."""
    samples = []
    for number in range(1, repeats + 1):
        order = [(jobs, own, pair) for pair in pairs for own in workers for jobs in (1, JOBS)]
        random.Random(number).shuffle(order)
        progress(f"round {number} of {repeats}: {len(order)} passes")
        samples += [measure(own[:jobs], layout, case, number) for jobs, own, (layout, case) in order]
    for jobs in (1, JOBS):
        check_equal_work([sample for sample in samples if sample.arm in {key(arm, jobs) for arm in READERS}])
    return samples


def count(
    setup: dict[str, Any], layouts: list[Layout], selections: dict[str, list[str]], progress: Callable[[str], None]
) -> dict[tuple[str, str], Counts]:
    """Count the requests of one job, for each case and reader."""
    counts = {}
    for selection, branches in selections.items():
        for arm in READERS:
            progress(f"counting the requests of {arm.name}, {selection}")
            found = counted(arm, setup, [request(layout, branches, 0) for layout in layouts])
            for layout, one in zip(layouts, found, strict=True):
                counts[case_name(layout, selection), arm.name] = one
    return counts


def case_name(layout: Layout, selection: str) -> str:
    return f"{layout.name}, {selection}"


def cells(mine: list[Sample]) -> list[str]:
    """Return the MB/s and events/s of the passes of a reader."""
    rate = Spread.of([sample.extra["bytes_read"] / MEGA / sample.seconds for sample in mine])
    events = Spread.of([(sample.entries or 0) / sample.seconds for sample in mine])
    return [f"{rate.median:.0f}", spread(events, digits=0)]


def rows_of(case: Case, samples: list[Sample], counts: dict[tuple[str, str], Counts]) -> list[list[str]]:
    """Return a row for each reader of a layout."""
    rows = []
    for arm in READERS:
        one = counts[case.name, arm.name]
        row = [case.name.split(", ")[0], arm.name, str(one.calls), str(one.seeks), f"{one.got_bytes / MEGA:.1f}"]
        for jobs in (1, JOBS):
            row += cells([s for s in samples if (s.case, s.arm) == (case.name, key(arm, jobs))])
        rows.append(row)
    return rows


def page(
    cases: list[Case], samples: list[Sample], counts: dict[tuple[str, str], Counts], disk: Spread, about: list[str]
) -> str:
    head = ["layout", "reader", "calls", "seeks", "MB read", "1 job, MB/s", "1 job, events/s"]
    head += [f"{JOBS} jobs, MB/s", f"{JOBS} jobs, events/s"]
    lines = ["# Effect of the file layout", "", *about]
    lines += [
        f"- disk: {spread(disk, 1 / MEGA, 0)} MB/s for a sequential read of a cold file in blocks of 8 MiB, before and",
        "  after the rounds; caches below a virtual disk may stay warm",
        "",
        "strace counts the read calls of one job (**calls**), the calls that do not continue the previous read of the",
        "same file, including the first one (**seeks**), and the bytes read (**MB read**). **MB/s** are the bytes that",
        "the reader counts, and **events/s** the events of all jobs, divided by the seconds of the slowest job; median",
        "(lowest-highest). MB are 10^6 bytes.",
    ]
    for selection in dict.fromkeys(case.selection for case in cases):
        rows = [row for case in cases if case.selection == selection for row in rows_of(case, samples, counts)]
        lines += ["", f"## {selection}", "", table(head, rows)]
    return "\n".join([*lines, "", "![](layouts.svg)"]) + "\n"


def about(layouts: list[Layout], repeats: int, cold: int) -> list[str]:
    """Return the conditions of the measurement."""
    known = conditions(repeats)
    small, merged = len(layouts[0].files), os.path.getsize(layouts[1].files[0]) / MEGA
    own = {
        "load": f"{os.getloadavg()[0]:.1f} on average over the last minute; the jobs cause at most {JOBS} of it",
        "layouts": f"{small} files of split objects with {layouts[0].entries} events in total; merged by `hadd -fk`, "
        f"{merged:.0f} MB; by `branchline merge` in each order; and by `branchline merge --cluster-events "
        f"{CLUSTER_EVENTS}`, with new baskets",
        "cache": f"cold: before each of the {cold} passes, all files of the layout were synced and evicted from the "
        "page cache (POSIX_FADV_DONTNEED), which was verified with mincore",
        "jobs": f"{JOBS} concurrent processes, each with a quarter of the events: {small // JOBS} small files, or a "
        "quarter of the entries of the merged file. `1 job` is the first of them alone",
        "readers": "every job decodes in one thread, on two cores of the machine; Branchline returns all values as "
        "arrays, as for a train, and prefetches in another thread; GetEntry is a compiled loop with a TTreeCache of "
        f"{CACHE_BYTES / MEGA:.0f} MB that is given its branches",
        "clock": "opening the files and reading all values, in processes that have completed imports and compilation "
        "and have already read one file",
        "rounds": f"{repeats}, each with all passes in a different order",
    }
    return [f"- {name}: {text}" for name, text in {**{one: known[one] for one in CONDITIONS}, **own}.items()]


def layouts_page(
    cache: Path, results: Path, files: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[Case], list[Sample]]:
    """Create the layouts, measure, draw the picture, and return the page with its cases and samples."""
    layouts = layouts_of(cache, files, progress)
    selections = selections_of(layouts[0].files[0])
    setup: dict[str, Any] = {"cache": str(cache), "columns": {}}
    pairs = []
    for selection, branches in selections.items():
        for one in layouts:
            size = sum(map(os.path.getsize, one.files))
            name = case_name(one, selection)
            pairs.append((one, Case(name, "zlib", selection, one.files, data.SPLIT_TREE, branches, 0, size, 0)))
    counts = count(setup, layouts, selections, progress)
    disk = [sequential_bytes_per_s(layouts[1].files[0])]
    first = {"files": layouts[0].files[:1], "tree": data.SPLIT_TREE, "branches": selections["all branches"]}
    workers: list[list[Worker]] = []
    try:
        for arm in READERS:
            progress(f"starting {JOBS} jobs of {arm.name}")
            workers.append(started(arm, setup, first))
        samples = rounds(workers, pairs, repeats, progress)
    finally:
        for worker in (worker for own in workers for worker in own):
            worker.close()
    disk.append(sequential_bytes_per_s(layouts[1].files[0]))
    cases = [case for _, case in pairs]
    draw(results / "layouts", [one.name for one in layouts], list(selections), samples, counts)
    text = page(cases, samples, counts, Spread.of(disk), about(layouts, repeats, len(samples)))
    return text, cases, [with_counts(sample, counts) for sample in samples]


def with_counts(sample: Sample, counts: dict[tuple[str, str], Counts]) -> Sample:
    """Return a pass of one job with the requests that strace counted."""
    for arm in READERS:
        if sample.arm == key(arm, 1):
            one = counts[sample.case, arm.name]
            sample.extra.update(strace_calls=one.calls, strace_seeks=one.seeks, strace_bytes=one.got_bytes)
    return sample
