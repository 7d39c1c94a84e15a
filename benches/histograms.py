"""Files of many small histograms: opening some of them, and merging two files, in whole processes.

The numbers are seconds of CPU time, user and system: other processes of a busy machine change these least.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benches.conditions import machine_lines
from benches.rounds import Spread
from benches.tables import spread, table

BINS = 50
#: Of this many histograms of a file, one is opened.
OPENED_OF = 3
OPENING = """
import sys
import {module}
with {module}.open(sys.argv[1]) as file:
    print(sum(file[f"h{{number}}"].values().sum() for number in range(int(sys.argv[2]))))
"""


def written(cache: Path, count: int, say: Callable[[str], None]) -> list[Path]:
    """Two files of this many histograms, made once."""
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


def cpu_seconds(command: list[str]) -> float:
    """The CPU time of a process. Raises RuntimeError if it fails."""
    with open(os.devnull, "wb") as nowhere:
        child = os.posix_spawnp(
            command[0], command, os.environ, file_actions=[(os.POSIX_SPAWN_DUP2, nowhere.fileno(), 1)]
        )
        _, status, used = os.wait4(child, 0)
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{' '.join(command)} failed")
    return used.ru_utime + used.ru_stime


def commands(paths: list[Path], count: int, output: Path) -> dict[tuple[str, str], list[str]]:
    """The process of each task and arm."""
    import ROOT

    hadd = str(Path(ROOT.__file__).parent / "bin" / "hadd")
    names, opened = [str(path) for path in paths], count // OPENED_OF
    opening, merging = f"open {opened} of {count}", f"merge two files of {count}"
    python = {
        name: [sys.executable, "-c", OPENING.format(module=module), names[0], str(opened)]
        for name, module in (("Branchline", "branchline"), ("uproot", "uproot"))
    }
    return {
        **{(opening, name): command for name, command in python.items()},
        (merging, "Branchline"): [sys.executable, "-m", "branchline", "merge", *names, "-o", str(output)],
        (merging, "hadd"): [hadd, "-fk", "-v", "0", str(output), *names],
        ("nothing", "Branchline"): [sys.executable, "-c", "import branchline"],
        ("nothing", "uproot"): [sys.executable, "-c", "import uproot"],
    }


def histograms_page(
    cache: Path, count: int, repeats: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """All processes in turn, in each round in another order, as a page and as rows."""
    folder = cache / "histograms"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    all_commands = commands(written(cache, count, say), count, folder / "all.root")
    rows: list[dict[str, Any]] = []
    for number in range(repeats):
        say(f"round {number + 1} of {repeats}: {len(all_commands)} processes")
        places = list(all_commands)
        turn = number % len(places)
        for task, arm in [*places[turn:], *places[:turn]]:
            (folder / "all.root").unlink(missing_ok=True)
            seconds = cpu_seconds(all_commands[task, arm])
            rows.append({"task": task, "arm": arm, "round": number, "cpu_seconds": seconds})
    found = {
        place: Spread.of([row["cpu_seconds"] for row in rows if (row["task"], row["arm"]) == place])
        for place in all_commands
    }
    lines = [
        "# Many histograms", "", *machine_lines(repeats), "",
        f"Each file has {count} TH1D of {BINS} bins. CPU time of whole processes, user and system: the median of",
        f"{repeats} rounds, with the lowest and the highest; `nothing` is starting Python and importing the package.",
        "", table(["task", "process", "CPU s"], [[task, arm, spread(one)] for (task, arm), one in found.items()]),
    ]  # fmt: skip
    return "\n".join(lines) + "\n", rows
