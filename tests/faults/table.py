"""python -m tests.faults.table: runs a train with each kind of faulty wagon at each place, and writes what happens to
the wagon and to those beside it to docs/reference/faulty-wagons.md. `test_faulty_wagons.py` compares with that page.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot
from tests.clusters.htcondor import HTCondor
from tests.clusters.slurm import Slurm
from tests.conftest import REPOSITORY
from tests.faults.kinds import ALL
from tests.faults.one_train import TEST
from tests.local_dask import local_cluster

PAGE = REPOSITORY / "docs" / "reference" / "faulty-wagons.md"
FILES, EVENTS_PER_FILE = 4, 600
#: How long a train may take: without workers one that hangs is never ended.
TRAIN_S, HANGING_S = 120, 20
HERE, WORKERS, DASK, SLURM, HTCONDOR = "0", "2", "dask", "slurm", "htcondor"
PLACES = {HERE: "without workers", WORKERS: "worker processes", DASK: "Dask", SLURM: "Slurm", HTCONDOR: "HTCondor"}
#: Trains of all kinds are submitted at once, side by side: most of the time of one is that of its jobs in the queue.
BATCH_SYSTEMS = (SLURM, HTCONDOR)
BATCH_S = 1700
CHANGES_OTHERS = "runs, and changes results of other wagons: `branchline test` names it"
#: Kinds that hang without workers; they get a shorter timeout.
_HANGS = ("forever", "deadlocks")

BEGIN = """# Faulty wagons

<!-- Written by `make fault-table`. -->

The table shows the effects of a wagon that fails or changes the state of its process. For each cell, `make test-faults`
runs a train with the faulty wagon between two correct wagons, whose results depend on everything that it might change.
The wagon misbehaves from the second of four files on. Unless a cell states otherwise, **both other wagons have results
that are bit-identical to a train without the faulty wagon**.

- "runs": the wagon is not stopped. Changes it makes to the process are reverted after each of its calls.
- "stopped": the wagon keeps its sum from before the first chunk that failed. The report states the error, the file, the
  entries and the line.
- Without workers (`--workers 0`), wagons run in the calling process, so a crash ends that process.

"""


VARIABLES = {"PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'python'}", "LC_ALL": "C.UTF-8"}


@dataclass(frozen=True)
class Trains:
    """Runs trains over small files in a folder."""

    folder: Path
    dask: str = ""

    @classmethod
    def of(cls, folder: Path, dask: str = "") -> Trains:
        """With new files."""
        (folder / "data").mkdir(exist_ok=True)
        (folder / "scratch").mkdir(exist_ok=True)
        for number in range(FILES):
            random = np.random.default_rng(number)
            counts = random.poisson(3, EVENTS_PER_FILE)
            pt = ak.unflatten(random.exponential(size=counts.sum()).astype("f4"), counts)
            with uproot.recreate(folder / "data" / f"f{number}.root") as file:
                events = file.mktree("events", {"px": "float64", "run": "int32", "pt": "var * float32"})
                run = np.full(EVENTS_PER_FILE, number, "i4")
                events.extend({"px": random.normal(size=EVENTS_PER_FILE), "run": run, "pt": pt})
        return cls(folder, dask)

    @cached_property
    def alone(self) -> dict[str, Any]:
        """The results of the others without a faulty wagon."""
        answer, _ = self._run(HERE, "")
        assert answer is not None
        assert not answer["faults"]
        digests: dict[str, Any] = answer["digests"]
        return digests

    def cell(self, place: str, kind: str) -> str:
        """What happens to the wagon and to the others at a place."""
        answer, how = self._run(place, kind)
        return f"**the program {how}**" if answer is None else self._cell_of(kind, answer, self.alone)

    def cells(self, place: str, kinds: Sequence[str]) -> dict[str, str]:
        """``cell`` of each kind, printed as soon as it is known."""
        found = {}
        for kind in kinds:
            found[kind] = self.cell(place, kind)
            print(f"{place}: {kind}: {found[kind]}", flush=True)
        return found

    def batch_cells(self, system: str, kinds: Sequence[str]) -> dict[str, str]:
        """What happens to the wagons of these kinds and to the others on a batch system, which is started for them."""
        words = [sys.executable, "-m", "tests.faults.batch_trains", system, "", *kinds]
        with _batch_system(system, self.folder) as run:
            ended = run(words)
        answers = [json.loads(line) for line in ended.stdout.splitlines() if line.startswith("{")]
        assert len(answers) == 1 + len(kinds), ended.stderr
        alone, *others = answers
        assert alone["faults"] == {}
        assert alone["errors"] == []
        return {kind: self._cell_of(kind, answer, alone["digests"]) for kind, answer in zip(kinds, others, strict=True)}

    def _cell_of(self, kind: str, answer: Mapping[str, Any], alone: Mapping[str, str]) -> str:
        faults = dict(answer["faults"])
        fault = faults.pop("faulty", None)
        parts = ["runs" if fault is None else _sentence(*fault)]
        changed = [name for name, digest in alone.items() if answer["digests"].get(name) != digest]
        if answer["errors"]:
            parts.append(f"**the train ends: {_short(answer['errors'][0])}**")
        elif changed or faults:
            named = self._run(TEST, kind)[0] or {}
            is_named = all(named.get(name) == ["faulty"] for name in changed)
            if is_named and not faults:
                return CHANGES_OTHERS
            parts.append("**the other wagons have different results**")
        return "; ".join(parts)

    def _run(self, place: str, kind: str) -> tuple[dict[str, Any] | None, str]:
        where = self.dask if place == DASK else place
        hangs = place == HERE and any(one in kind for one in _HANGS)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.one_train", where, kind],
            cwd=self.folder,
            env={**os.environ, **VARIABLES},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            said, _ = process.communicate(timeout=HANGING_S if hangs else TRAIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, "hangs" if hangs else "does not end"
        lines = [line for line in said.decode(errors="replace").splitlines() if line.startswith("{")]
        if not lines:
            code = process.returncode
            return None, f"ends ({signal.Signals(-code).name})" if code < 0 else f"ends (exit code {code})"
        answer: dict[str, Any] = json.loads(lines[-1])
        return answer, ""


@contextmanager
def _batch_system(system: str, folder: Path) -> Iterator[Callable[[list[str]], subprocess.CompletedProcess[str]]]:
    """Starts a batch system. Gives what runs a command where trains can be submitted, in a folder with new files."""
    farm: Slurm | HTCondor = Slurm() if system == SLURM else HTCondor()
    if isinstance(farm, HTCondor):
        folder = farm.folder  # that all of its jobs see
    folder = folder / "faults"
    folder.mkdir()
    Trains.of(folder)

    def run(words: list[str]) -> subprocess.CompletedProcess[str]:
        if isinstance(farm, HTCondor):
            farm.own(folder)
            settings = [f"{name}={value}" for name, value in VARIABLES.items()]
            return farm.call(["env", *settings, *words], folder, timeout_s=BATCH_S)
        environment = {**os.environ, **VARIABLES, **farm.environment}
        return subprocess.run(
            words, cwd=folder, env=environment, capture_output=True, text=True, timeout=BATCH_S, check=False
        )

    try:
        farm.start()
        yield run
    finally:
        farm.close()


def _sentence(kind: str, message: str) -> str:
    """How a wagon was stopped, without what differs from run to run."""
    died = re.search(r"signal \d+ \((\w+)\)|exit code \d+|closed its connection|ran out of memory", message)
    if kind == "WorkerDiedError" and died:
        return f"stopped: its process died ({died[1] or died[0]})"
    if kind == "TimeoutError":
        return "stopped: made no progress"
    return f"stopped: `{kind}`"


def _short(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"process \d+", "process", text)).replace("|", "/")[:80]


@contextmanager
def trains(folder: Path, *, with_dask: bool = True) -> Iterator[Trains]:
    """Trains at all places."""
    if not with_dask:
        yield Trains.of(folder)
        return
    settings: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": "127.0.0.1:0"}
    before = Path.cwd()
    # Wagons of this test look at the directory.
    os.chdir(folder)
    try:
        with local_cluster(2, local_directory=str(folder / "dask"), **settings) as cluster:
            yield Trains.of(folder, f"dask={cluster.scheduler_address}")
    finally:
        os.chdir(before)


def row(kind: str, cells: list[str]) -> str:
    """A line of the table; places that say the same are named once."""
    return f"| {kind} | {' | '.join(cells)} |"


def rows_of_page() -> dict[str, dict[str, str]]:
    """The cells of the page, by kind and place."""
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    (_, *names), *cells = [[one.strip() for one in line.strip("|").split(" | ")] for line in lines]
    places = [next(place for place, shown in PLACES.items() if shown == name) for name in names]
    return {kind: dict(zip(places, rest, strict=True)) for kind, *rest in cells}


def write_page(columns: Mapping[str, Mapping[str, str]]) -> None:
    """Writes the columns of places. A column that is not given stays as it is if it has all kinds, and else goes."""
    rows = rows_of_page()
    before = {place: {kind: rows[kind][place] for kind in rows if place in rows[kind]} for place in PLACES}
    cells = {**before, **columns}
    shown = [place for place in PLACES if set(ALL) <= cells[place].keys()]
    lines = [row("the wagon", [PLACES[place] for place in shown]), "|---" * (1 + len(shown)) + "|"]
    lines += [row(kind, [cells[place][kind] for place in shown]) for kind in ALL]
    PAGE.write_text(BEGIN + "\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "places", nargs="*", help=f"whose columns are written anew, of {', '.join(PLACES)}; all if none"
    )
    places = parser.parse_args().places or list(PLACES)
    with tempfile.TemporaryDirectory() as name, trains(Path(name), with_dask=DASK in places) as here:
        columns = {
            place: here.batch_cells(place, ALL) if place in BATCH_SYSTEMS else here.cells(place, ALL)
            for place in places
        }
    write_page(columns)


if __name__ == "__main__":
    main()
