"""Planning a train over many files: the time until its sub-jobs are known, and that no file is opened for it.

The files are empty, of 3 MB each and without blocks on the disk: planning looks at names, sizes and times only.
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
# Runs in a process of its own; counts the files that Python opens.
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
    """One measurement."""

    files: int
    subjobs: int
    opened: int
    wall_s: float
    cpu_s: float


def written(cache: Path, count: int, progress: Callable[[str], None]) -> Path:
    """A folder with folders of files, which is made once, and a list of all files beside it."""
    folder = cache / f"planning-{count}"
    names = folder / "files.txt"
    if not names.exists():
        progress(f"making {count} empty files")
        paths = [folder / f"{index // FILES_PER_FOLDER:04}" / f"f{index:06}.root" for index in range(count)]
        for path in paths:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("wb") as file:
                file.truncate(FILE_BYTES)
        names.write_text("\n".join(map(str, paths)) + "\n")
    return folder


def planned(given: str) -> Planned:
    """Plans once."""
    words = [sys.executable, "-c", PROGRAM, given]
    done = subprocess.run(words, capture_output=True, check=True, cwd=REPOSITORY)
    return Planned(*json.loads(done.stdout))


def planning_page(
    cache: Path, count: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measures planning by a folder, by a pattern and by a list of the same files, as a page and as rows."""
    folder = written(cache, count, progress)
    ways = {"a folder": str(folder), "a pattern": f"{folder}/**/*.root", "a list": str(folder / "files.txt")}
    rows, found = [], []
    for name, given in ways.items():
        progress(f"planning {count} files from {name}")
        planned(given)  # so that the system has the names and sizes of all files at hand
        times = [planned(given) for _ in range(repeats)]
        found += [{"dataset": name, **asdict(one)} for one in times]
        walls, cpus = (Spread.of(values) for values in ([one.wall_s for one in times], [one.cpu_s for one in times]))
        one = times[0]
        rows.append([name, str(one.files), str(one.subjobs), str(one.opened), spread(walls), spread(cpus)])
    head = ["the dataset is", "files", "sub-jobs", "files opened", "wall s", "CPU s"]
    lines = [
        "# Planning a train",
        "",
        f"From the name of a dataset to its sub-jobs, to be done in {WALL_S_MAX} s of wall time: {count} files of "
        f"{FILE_BYTES // 1_000_000} MB on a local disk, without content. The system has the names and sizes of the "
        f"files at hand; median, lowest and highest of {repeats} runs, in a process each, after its imports.",
        "",
        *machine_lines(repeats),
        "",
        table(head, rows),
        "",
    ]
    return "\n".join(lines), found
