"""python -m tests.faults.table: runs a train with each kind of faulty wagon at each place, and writes what happens to
the wagon and to those beside it to docs/reference/faulty-wagons.md. `test_faulty_wagons.py` compares with that page.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import uproot
from tests.conftest import REPOSITORY
from tests.faults.kinds import ALL
from tests.faults.one_train import TEST
from tests.local_dask import local_cluster

PAGE = REPOSITORY / "docs" / "reference" / "faulty-wagons.md"
FILES, EVENTS_PER_FILE = 4, 600
#: How long a train may take: without workers one that hangs is never ended.
TRAIN_S, HANGING_S = 120, 20
HERE, WORKERS, DASK = "0", "2", "dask"
PLACES = {HERE: "without workers", WORKERS: "worker processes", DASK: "Dask"}
CHANGES_OTHERS = "runs, and changes the results of the others: `branchline test` names it"
#: Kinds that wait for ever without workers; a longer wait would only cost time.
_HANGS = ("without end", "lock that it holds")

BEGIN = """# Faulty wagons

<!-- Written by `make fault-table`. -->

What happens to a wagon that fails, or that changes its process, and to the wagons beside it. `make test-faults` runs a
train for each cell: the faulty wagon between two others, which compute with all that it could disturb. It is faulty
from the second of four files on. If a cell says no more, **both others have, bit by bit, the results of a train without
it**.

"runs" means that the wagon is not stopped: what it changed is undone behind each of its calls. A wagon that is stopped
keeps the sum from before its first failing chunk, and the report names the error, the file, the entries and the line.
Without workers (`--workers 0`) wagons run in the calling process, which nothing can protect from a crash.

"""


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
        if answer is None:
            return f"**the program {how}**"
        faults = dict(answer["faults"])
        fault = faults.pop("faulty", None)
        parts = ["runs" if fault is None else _sentence(*fault)]
        changed = [name for name, digest in self.alone.items() if answer["digests"].get(name) != digest]
        if answer["errors"]:
            parts.append(f"**the train ends: {_short(answer['errors'][0])}**")
        elif changed or faults:
            named = self._run(TEST, kind)[0] or {}
            is_named = all(named.get(name) == ["faulty"] for name in changed)
            if is_named and not faults:
                return CHANGES_OTHERS
            parts.append("**the others have other results**")
        return "; ".join(parts)

    def _run(self, place: str, kind: str) -> tuple[dict[str, Any] | None, str]:
        where = self.dask if place == DASK else place
        paths = f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'python'}"
        hangs = place == HERE and any(one in kind for one in _HANGS)
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.faults.one_train", where, kind],
            cwd=self.folder,
            env={**os.environ, "PYTHONPATH": paths, "LC_ALL": "C.UTF-8"},
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


def _sentence(kind: str, message: str) -> str:
    """How a wagon was stopped, without what differs from run to run."""
    died = re.search(r"signal \d+ \((\w+)\)|exit code \d+|closed its connection|ran out of memory", message)
    if kind == "WorkerDiedError" and died:
        return f"stopped: its process died ({died[1] or died[0]})"
    if kind == "TimeoutError":
        return "stopped: silent for too long"
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
    lines = [line for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| ")][1:]
    cells = [[one.strip() for one in line.strip("|").split(" | ")] for line in lines]
    return {kind: dict(zip(PLACES, rest, strict=True)) for kind, *rest in cells}


def main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as name, trains(Path(name)) as here:
        lines = [row("the wagon", list(PLACES.values())), "|---|---|---|---|"]
        for kind in ALL:
            cells = [here.cell(place, kind) for place in PLACES]
            lines.append(row(kind, cells))
            print(lines[-1], flush=True)
    PAGE.write_text(BEGIN + "\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
