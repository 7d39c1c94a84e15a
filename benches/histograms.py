"""Files with many small histograms: opening some of them, merging two files, and writing a file.

Each task is a whole process. User and system CPU seconds are measured, which depend least on other processes.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benches.conditions import machine_lines
from benches.rounds import Spread
from benches.tables import spread, table

BINS = 50
#: One in this many histograms is opened.
OPENED_OF = 3
#: Factor between the numbers of histograms in consecutive rows of the table of writing.
MORE = 2
OPENING = """
import sys
import {module}
with {module}.open(sys.argv[1]) as file:
    print(sum(file[f"h{{number}}"].values().sum() for number in range(int(sys.argv[2]))))
"""
WRITING = """
import sys
import numpy
import {module}
counts, edges = numpy.arange({bins}), numpy.linspace(0, 1, {bins} + 1)
with {module}.recreate(sys.argv[1]) as file:
    for number in range(int(sys.argv[2])):
        file[f"h{{number}}"] = counts, edges
"""


class Used(NamedTuple):
    """Wall and CPU seconds of a process."""

    cpu_seconds: float
    wall_seconds: float


def written(cache: Path, count: int, say: Callable[[str], None]) -> list[Path]:
    """Write two files with this many histograms each with Branchline, unless they exist."""
    import branchline

    paths = [cache / f"histograms-{count}-{number}.root" for number in range(2)]
    edges = np.linspace(0, 1, BINS + 1)
    for number, path in enumerate(paths):
        if not path.exists():
            say(f"writing {count} histograms to {path.name}")
            cache.mkdir(parents=True, exist_ok=True)
            random = np.random.default_rng(number)
            with branchline.recreate(path) as file:
                for name in range(count):
                    file[f"h{name}"] = random.poisson(3, BINS), edges
    return paths


def written_by_root(cache: Path, count: int, say: Callable[[str], None]) -> list[Path]:
    """Write two files with this many histograms each with ROOT's default settings, unless they exist."""
    import ROOT

    paths = [cache / f"root-histograms-{count}-{number}.root" for number in range(2)]
    for number, path in enumerate(paths):
        if not path.exists():
            say(f"writing {count} histograms to {path.name}")
            cache.mkdir(parents=True, exist_ok=True)
            random = np.random.default_rng(number)
            file = ROOT.TFile(str(path), "RECREATE")
            for name in range(count):
                histogram = ROOT.TH1D(f"h{name}", f"h{name}", BINS, 0, 1)
                histogram.SetDirectory(ROOT.nullptr)
                values = random.random(100)
                histogram.FillN(len(values), values, np.ones(len(values)))
                histogram.Write()
            file.Close()
    return paths


def used(command: list[str]) -> Used:
    """Measure a process. Raises RuntimeError if it fails."""
    begin = time.perf_counter()
    with open(os.devnull, "wb") as nowhere:
        child = os.posix_spawnp(
            command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
        )
        _, status, usage = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{' '.join(command)} failed")
    return Used(usage.ru_utime + usage.ru_stime, time.perf_counter() - begin)


def commands(files: dict[str, list[Path]], count: int, output: Path) -> dict[tuple[str, str], list[str]]:
    """Return the command of each task and arm. ``files`` are two for each writer."""
    import ROOT

    hadd = str(Path(ROOT.__file__).parent / "bin" / "hadd")
    branchline = [sys.executable, "-m", "branchline"]
    opened = count // OPENED_OF
    made: dict[tuple[str, str], list[str]] = {}
    for writer, paths in files.items():
        names = [str(path) for path in paths]
        for module, arm in (("branchline", "Branchline"), ("uproot", "uproot")):
            task = f"open {opened} of {count} of {writer}"
            made[task, arm] = [sys.executable, "-c", OPENING.format(module=module), names[0], str(opened)]
        task = f"merge two files of {count} of {writer}"
        made[task, "Branchline"] = [*branchline, "merge", *names, "-o", str(output)]
        # With the compression of the inputs, as in Branchline, and with hadd's default, which is faster than zstd.
        made[task, "hadd -fk"] = [hadd, "-fk", "-v", "0", str(output), *names]
        made[task, "hadd -f"] = [hadd, "-f", "-v", "0", str(output), *names]
    for number in (count, MORE * count):
        for module, arm in (("branchline", "Branchline"), ("uproot", "uproot")):
            program = WRITING.format(module=module, bins=BINS)
            made[f"write {number}", arm] = [sys.executable, "-c", program, str(output), str(number)]
    for module, arm in (("branchline", "Branchline"), ("uproot", "uproot")):
        made["nothing", arm] = [sys.executable, "-c", f"import {module}"]
    return made


def histograms_page(
    cache: Path, count: int, repeats: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Run all processes once per round, in rotating order, and return the page and its rows."""
    folder = cache / "histograms"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    files = {"Branchline": written(cache, count, say), "ROOT": written_by_root(cache, count, say)}
    all_commands = commands(files, count, folder / "all.root")
    rows: list[dict[str, Any]] = []
    for number in range(repeats):
        say(f"round {number + 1} of {repeats}: {len(all_commands)} processes")
        places = list(all_commands)
        turn = number % len(places)
        for task, arm in [*places[turn:], *places[:turn]]:
            (folder / "all.root").unlink(missing_ok=True)
            row = used(all_commands[task, arm])._asdict()
            rows.append({"task": task, "arm": arm, "round": number, **row})
    lines = [
        "# Many histograms", "", *machine_lines(repeats), "",
        f"Each file has {count} TH1D of {BINS} bins; Branchline writes them with zstd, ROOT with zlib. Times of whole",
        f"processes, CPU (user and system) and wall: the median of {repeats} rounds, with the lowest and the highest.",
        "`hadd -fk` keeps the compression of the inputs, like `branchline merge`; `hadd -f` always uses zlib.",
        "`nothing` only starts Python and imports the package.",
        "", table(["task", "process", "CPU s", "wall s"], [_row(rows, *place) for place in all_commands]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n", rows


def _row(rows: list[dict[str, Any]], task: str, arm: str) -> list[str]:
    found = [row for row in rows if (row["task"], row["arm"]) == (task, arm)]
    cpu, wall = (spread(Spread.of([row[what] for row in found])) for what in Used._fields)
    return [task, arm, cpu, wall]
