"""Planning a train over many files: the time to create its sub-jobs, and a check that no file is opened.

The sparse files of 3 MB have no content, since planning uses only names, sizes and times.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benches.conditions import machine_lines
from benches.rounds import Spread
from benches.tables import spread, table
from benches.worker import REPOSITORY

FILE_BYTES = 3_000_000
FILES_PER_FOLDER = 1000
WALL_S_MAX = 10
# Runs in a separate process and counts the files that Python opens.
PROGRAM = """
import json, sys, time
opened = 0
def count(event, arguments):
    global opened
    opened += event == "open" and str(arguments[0]).endswith(".root")
from branchline import Dataset
from branchline.trains.subjobs.shares import cut
sys.addaudithook(count)
begin_s, begin_cpu_s = time.perf_counter(), time.process_time()
dataset = Dataset.of(sys.argv[1])
shares = cut([one for one in dataset if not one.is_missing])
took = time.perf_counter() - begin_s, time.process_time() - begin_cpu_s
print(json.dumps([len(dataset), len(shares), opened, *took]))
"""


@dataclass(frozen=True)
class Planned:
    """A measurement of planning."""

    files: int
    subjobs: int
    opened: int
    wall_s: float
    cpu_s: float


def written(cache: Path, count: int, progress: Callable[[str], None]) -> Path:
    """Create a folder with subfolders of files, and a list of all files next to it, unless they exist."""
    folder = cache / f"planning-{count}"
    names = folder / "files.txt"
    if not names.exists():
        progress(f"creating {count} empty files")
        paths = [folder / f"{index // FILES_PER_FOLDER:04}" / f"f{index:06}.root" for index in range(count)]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(FILE_BYTES)
        names.write_text("\n".join(map(str, paths)) + "\n")
    return folder


def planned(given: str) -> Planned:
    """Run the planning once."""
    words = [sys.executable, "-c", PROGRAM, given]
    done = subprocess.run(words, capture_output=True, check=True, cwd=REPOSITORY)
    return Planned(*json.loads(done.stdout))


def planning_page(
    cache: Path, count: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure planning from a folder, a pattern and a list of the same files, and return the page and its rows."""
    folder = written(cache, count, progress)
    ways = {"a folder": str(folder), "a pattern": f"{folder}/**/*.root", "a list": str(folder / "files.txt")}
    rows, found = [], []
    for name, given in ways.items():
        progress(f"planning {count} files from {name}")
        planned(given)  # warm the kernel's cache of names and sizes
        times = [planned(given) for _ in range(repeats)]
        found += [{"dataset": name, **asdict(one)} for one in times]
        walls, cpus = (Spread.of(values) for values in ([one.wall_s for one in times], [one.cpu_s for one in times]))
        one = times[0]
        rows.append([name, str(one.files), str(one.subjobs), str(one.opened), spread(walls), spread(cpus)])
    head = ["dataset given as", "files", "sub-jobs", "files opened", "wall s", "CPU s"]
    lines = [
        "# Planning a train",
        "",
        f"Time from the name of a dataset to its sub-jobs; the goal is {WALL_S_MAX} s of wall time. The dataset has "
        f"{count} sparse files of {FILE_BYTES // 1_000_000} MB on a local disk, whose metadata is in the kernel's "
        f"cache. Median, lowest and highest of {repeats} runs, each in a new process, without imports.",
        "",
        *machine_lines(repeats),
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(lines), found
