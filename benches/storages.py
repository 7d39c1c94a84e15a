"""Measures one file at several storages: the throughput and CPU time of Branchline as bytes and as arrays, and the
throughput of another client.
"""

from __future__ import annotations

import os
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benches.conditions import conditions
from benches.rounds import Case, Sample, Spread
from benches.storage_places import NAME, Place, places
from benches.tables import MEGA, spread, table

BRANCHES = 20
PIECE_BYTES = 8 * 2**20
# Number of ranges requested at a time, as in a job.
PIECES = 4
CONDITIONS = ("date", "commit", "processor", "system", "load", "versions")
BARE, BYTES, ARRAYS, STAGE, AGAIN = "bare client", "bytes", "arrays", "arrays, staged", "arrays, cached"
TO_DISK, COPY = "bare client, to disk", "copy, staged"
WAYS = (BARE, BYTES, ARRAYS, TO_DISK, COPY, STAGE, AGAIN)

READING = """\
Every pass reads the whole file once, from the memory of the server or the page cache: the table compares protocols and
clients, not disks. Server and client share the cores of this machine, so an expensive server slows its client.

- **bare client**: a common command that copies the file to /dev/null; its whole process.
- **bytes**: Branchline's store, four ranges of 8 MiB at a time, without decoding.
- **arrays**: `branchline.iterate` over all branches, awkward arrays.
- **bare client, to disk**: the same command, copying to a file on the local disk.
- **copy, staged**: Branchline's store with `access="stage"`, until the copy is on the local disk, without decoding. It
  is compared with the bare client that writes to disk; the other rows are compared with the one that does not.
- **arrays, staged**: arrays with `access="stage"`: copied to the local disk, then read from there.
- **arrays, cached**: arrays from a `cache_dir` with the whole file; only the version of the file is requested. The row
  is missing for servers without versions, since their files are not cached.
- **MB/s**: size of the file in 10^6 bytes, divided by the median seconds, with the slowest and the fastest round.
- **CPU s/GB**: median user and system time of the client's process for 10^9 bytes of the file, without the server."""


def make_file(cache: Path, megabytes: int, say: Callable[[str], None]) -> Path:
    """Write a file with twenty branches of numbers that compress by a third, in LZ4, with baskets of about 1 MB."""
    import uproot

    path = cache / f"storages-{megabytes}.root"
    if path.exists():
        return path
    say(f"making {path}")
    cache.mkdir(parents=True, exist_ok=True)
    numbers = np.random.default_rng(3)
    entries = max(1000, min(100_000, megabytes * 6000))
    stored = entries * BRANCHES * 8 * 2 / 3
    temporary = path.with_suffix(".part")
    with uproot.recreate(temporary, compression=uproot.LZ4(1)) as file:
        tree = file.mktree("events", {f"x{number}": "float64" for number in range(BRANCHES)})
        for _ in range(max(1, round(megabytes * MEGA / stored))):
            plain = numbers.normal(size=(BRANCHES, entries)).view(np.uint64) & np.uint64(0xFFFFFFFFFF000000)
            tree.extend({f"x{number}": row.view(np.float64) for number, row in enumerate(plain)})
    temporary.rename(path)
    return path


def bare_pass(command: list[str], target: str = os.devnull) -> tuple[float, float]:
    command = [target if word == os.devnull else word for word in command]
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL, timeout=300)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    return seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def branchline_pass(way: str, url: str, environment: dict[str, str], folder: str) -> tuple[float, float, int]:
    """Return the seconds, CPU seconds, and bytes or entries of a pass. Runs in a separate, persistent process."""
    import branchline
    from branchline._core import Store

    os.environ.update(environment)
    count, start, cpu = 0, time.perf_counter(), time.process_time()
    if way == COPY:
        staged = Store(url, branchline.Access(mode="stage", stage_dir=folder))
        # Removing the copy is not measured, as for the bare client.
        return time.perf_counter() - start, time.process_time() - cpu, staged.size_bytes
    if way == BYTES:
        store = Store(url)
        ranges = [(at, min(PIECE_BYTES, store.size_bytes - at)) for at in range(0, store.size_bytes, PIECE_BYTES)]
        for first in range(0, len(ranges), PIECES):
            count += sum(map(len, store.read(ranges[first : first + PIECES]).contents))
    else:
        chosen: dict[str, Any] = {
            ARRAYS: {},
            STAGE: {"mode": "stage", "stage_dir": folder},
            AGAIN: {"cache_dir": folder},
        }
        access = branchline.Access(**chosen[way])
        for chunk in branchline.iterate(f"{url}:events", step_size="100 MB", access=access):
            count += len(chunk)
    return time.perf_counter() - start, time.process_time() - cpu, count


def gives_versions(url: str, environment: dict[str, str]) -> bool:
    """Whether the server identifies each version of a file; otherwise nothing is cached."""
    from branchline._core import Store

    os.environ.update(environment)
    return Store(url).identity is not None


def run(file: Path, made: list[Place], repeats: int, say: Callable[[str], None]) -> list[Sample]:
    """Measure all places in rotating order. The first round is a warm-up and is discarded."""
    samples = []
    ways = {place.name: list(WAYS) for place in made}
    with (
        tempfile.TemporaryDirectory(prefix="branchline-benches-") as folder,
        ProcessPoolExecutor(1, mp_context=get_context("spawn")) as process,
    ):
        for place in made:
            if place.name == "local":
                ways[place.name] = [BARE, BYTES, ARRAYS]
            elif not process.submit(gives_versions, place.url, place.environment).result(timeout=60):
                ways[place.name].remove(AGAIN)
        for number in range(-1, repeats):
            say(f"storages: round {number + 1} of {repeats}")
            for place in made:
                for way in ways[place.name]:
                    sample = one(file, place, way, process, folder, number)
                    samples += [sample] if number >= 0 else []
    return samples


def one(file: Path, place: Place, way: str, process: ProcessPoolExecutor, folder: str, number: int) -> Sample:
    if way in (BARE, TO_DISK):
        target = str(Path(folder) / "bare.root") if way == TO_DISK else os.devnull
        seconds, cpu = bare_pass(place.bare, target)
        if way == TO_DISK:
            Path(target).unlink()
        return Sample(place.name, way, number, seconds, None, None, {"cpu_s": cpu})
    done = process.submit(branchline_pass, way, place.url, place.environment, folder)
    seconds, cpu, count = done.result(timeout=300)
    if way in (BYTES, COPY) and count != file.stat().st_size:
        msg = f"{place.name}: {count} bytes of {file.stat().st_size}"
        raise RuntimeError(msg)
    return Sample(place.name, way, number, seconds, count if way not in (BYTES, COPY) else None, None, {"cpu_s": cpu})


def of(samples: list[Sample], place: Place, way: str) -> list[Sample]:
    return [sample for sample in samples if (sample.case, sample.arm) == (place.name, way)]


def rates(samples: list[Sample], size_bytes: int) -> Spread:
    return Spread.of([size_bytes / MEGA / sample.seconds for sample in samples])


def results_table(made: list[Place], samples: list[Sample], size_bytes: int) -> str:
    rows = []
    for place in made:
        for way in WAYS:
            own = of(samples, place, way)
            if not own:
                continue
            bare = rates(of(samples, place, TO_DISK if way == COPY else BARE), size_bytes).median
            took = rates(own, size_bytes)
            cpu = median(sample.extra["cpu_s"] for sample in own) / (size_bytes / 1e9)
            share = "" if way in (BARE, TO_DISK) else f"{100 * took.median / bare:.0f}"
            rows.append([place.name, way, spread(took, digits=0), share, f"{cpu:.2f}"])
    return table(["storage", "way", "MB/s", "% of the bare client", "CPU s/GB"], rows)


def page(file: Path, made: list[Place], missing: list[str], samples: list[Sample], repeats: int) -> str:
    size_bytes = file.stat().st_size
    known = {name: text for name, text in conditions(repeats).items() if name in CONDITIONS}
    lines = ["# One file at several storages", "", *(f"- {name}: {text}" for name, text in known.items())]
    lines += [f"- rounds: {repeats}, after one to warm up; every place is read in every way per round", ""]
    lines += [f"A file of {size_bytes / MEGA:.0f} MB with {BRANCHES} branches, in LZ4.", "", READING, ""]
    lines += [results_table(made, samples, size_bytes), "", "![MB/s of each](storages.svg)", "", "## Servers", ""]
    lines += [f"- {place.name}: {place.server}; bare client `{Path(place.bare[0]).name}`" for place in made]
    lines += ["", "## Not measured", "", *(f"- {reason}" for reason in missing)] if missing else []
    return "\n".join(lines) + "\n"


def draw(target: Path, made: list[Place], samples: list[Sample], size_bytes: int) -> None:
    """Draw a picture of the rates, with a group of bars for each storage."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "branchline"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.2), layout="constrained")
    colours = ("#8d99a6", "#4f7cac", "#2f4b6e", "#c4cad0", "#e0b878", "#c98b3c", "#6a994e")
    for index, (way, colour) in enumerate(zip(WAYS, colours, strict=True)):
        with_way = [(at, of(samples, place, way)) for at, place in enumerate(made)]
        found = [(at, rates(own, size_bytes)) for at, own in with_way if own]
        positions = [at + (index - 3) * 0.12 for at, _ in found]
        middle = [one.median for _, one in found]
        ends = [[one.median - one.low for _, one in found], [one.high - one.median for _, one in found]]
        axes.bar(positions, middle, 0.11, yerr=ends, label=way, color=colour, error_kw={"lw": 0.8})
    axes.set_xticks(range(len(made)), [place.name for place in made])
    axes.set_ylabel("MB/s of the file")
    axes.set_yscale("log")
    axes.legend(fontsize=8, ncols=7, loc="upper center", bbox_to_anchor=(0.5, 1.12), frameon=False)
    axes.spines[["top", "right"]].set_visible(False)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, metadata={"Date": None})
    plt.close(figure)


def storages(
    cache: Path, results: Path, megabytes: int, chosen: list[str], repeats: int, say: Callable[[str], None]
) -> tuple[str, list[Case], list[Sample]]:
    """Return the page, its cases and samples, and write the picture to ``results``."""
    file = make_file(cache, megabytes, say)
    with places(file, chosen, say) as (made, missing):
        samples = run(file, made, repeats, say)
    draw(results / "storages.svg", made, samples, file.stat().st_size)
    size_bytes = file.stat().st_size
    cases = [Case(one.name, "LZ4", "all", [NAME], "events", None, 0, size_bytes, 0) for one in made]
    return page(file, made, missing, samples, repeats), cases, samples
