"""Compares Branchline, coffea and distributed RDataFrame on Dask, with the same files, analysis and results."""

from __future__ import annotations

import importlib.metadata
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.cluster_arms import ARMS, TREE, WORKERS
from benches.conditions import machine_lines
from benches.rounds import Spread, UnequalWorkError
from benches.tables import spread, table
from benches.worker import REPOSITORY

EVENTS_PER_FILE = 25_000
SETTINGS = {
    "Branchline": "`branchline.run([Pairs()], files, on=client)`: default sub-jobs, branches learned from the first "
    "file",
    "coffea": "`Runner(DaskExecutor(client, compression=None), BaseSchema, chunksize)`, one runner for all rounds, "
    "which caches the metadata of the files",
    "coffea, savemetrics": "the same with `savemetrics=True`, which records read statistics, as Branchline always does",
    "RDataFrame": "`ROOT.RDataFrame(tree, files, executor=client, npartitions)`, columns as strings compiled by ROOT",
}


def made(cache: Path, count: int, events: int, progress: Callable[[str], None]) -> list[Path]:
    """Create files of muons and jets with names as in NanoAOD, about 3 MB each, unless they exist."""
    import awkward as ak
    import numpy as np
    import uproot

    folder = cache / f"cluster-{events}"
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"f{index:04}.root" for index in range(count)]
    for index, path in enumerate(paths):
        if path.exists():
            continue
        if index % 20 == 0:
            progress(f"making files of muons and jets: {index} of {count}")
        random = np.random.default_rng(index)

        def objects(mean: float, random: Any = random) -> Any:
            counts = random.poisson(mean, events)
            total = int(counts.sum())
            columns = {
                "pt": random.exponential(30.0, total).astype("f4") + np.float32(3),
                "eta": random.normal(0, 1.5, total).astype("f4"),
                "phi": random.uniform(-np.pi, np.pi, total).astype("f4"),
                "charge": random.choice(np.array([-1, 1], "i4"), total),
            }
            return ak.unflatten(ak.zip(columns), counts)

        temporary = path.with_suffix(".tmp")
        with uproot.recreate(temporary, compression=uproot.ZLIB(1)) as file:
            columns = {"Muon": objects(2.0), "Jet": objects(5.0), "MET_pt": ak.Array(random.exponential(40, events))}
            file.mktree(TREE, {name: one.type for name, one in columns.items()}).extend(columns)
        os.replace(temporary, path)
    return paths


class PeerProcess:
    """The parent's handle to the process of an arm."""

    def __init__(self, name: str, files: list[str]) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benches.cluster_arms", name],
            cwd=REPOSITORY,
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._ask(json.dumps(files))
        self.ready = self._answer()

    def run(self) -> dict[str, Any]:
        self._ask("run")
        return self._answer()

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _ask(self, line: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with {self._process.wait()}; see the output above")
        answer: dict[str, Any] = json.loads(line)
        return answer


def check_equal(rows: list[dict[str, Any]]) -> None:
    """Raise UnequalWorkError unless all runs have the same bin contents."""
    first = rows[0]
    for row in rows:
        for name, counts in row["counts"].items():
            expected = first["counts"][name]
            different = [at for at, pair in enumerate(zip(counts, expected, strict=True)) if pair[0] != pair[1]]
            if different:
                raise UnequalWorkError(f"{row['arm']} and {first['arm']} differ in {name}, in the bins {different[:5]}")


def cluster_peers_page(
    cache: Path, count: int, events: int, repeats: int, progress: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Run each arm once per round, in rotating order, and return the page and its rows."""
    files = made(cache, count, events, progress)
    peers: list[PeerProcess] = []
    rows: list[dict[str, Any]] = []
    try:
        for name in ARMS:
            progress(f"starting {name}, and choosing its settings")
            peers.append(PeerProcess(name, [str(one) for one in files]))
        for number in range(repeats):
            turn = number % len(peers)
            progress(f"round {number + 1} of {repeats}")
            rows += [{"arm": one.name, "round": number, **one.run()} for one in peers[turn:] + peers[:turn]]
    finally:
        for one in peers:
            one.close()
    check_equal(rows)
    return _page(files, events, repeats, rows, {one.name: one.ready for one in peers}), rows


def _page(
    files: list[Path], events: int, repeats: int, rows: list[dict[str, Any]], ready: dict[str, dict[str, Any]]
) -> str:
    by_round = {(row["arm"], row["round"]): row for row in rows}
    cells = []
    for name in ARMS:
        own = [by_round[name, number] for number in range(repeats)]
        ratios = [row["wall_s"] / by_round["Branchline", row["round"]]["wall_s"] for row in own]
        walls, cpus = (Spread.of([row[key] for row in own]) for key in ("wall_s", "cpu_s"))
        rate = len(files) * events / walls.median / 1000
        cells.append([name, spread(walls), spread(cpus), f"{rate:.0f}", spread(Spread.of(ratios))])
    size_mb = sum(one.stat().st_size for one in files) / 1e6
    return "\n".join([
        "# One analysis on Dask with three packages",
        "",
        f"{len(files)} files, {size_mb:.0f} MB, {len(files) * events} events of muons and jets, written by uproot with "
        "zlib 1, in the page cache; two histograms: the transverse momentum of all muons, the mass of the first two. "
        f"Each package has a separate warm cluster, a `LocalCluster` with {WORKERS} processes of one thread; the other "
        "clusters are idle during a run. All bins of all runs were equal.",
        "",
        *machine_lines(repeats),
        "- also: " + ", ".join(f"{name} {importlib.metadata.version(name)}" for name in ("coffea", "distributed")),
        f"- rounds: {repeats}; each package runs once per round, in rotating order; median, lowest and highest; CPU "
        "time of client, scheduler and workers",
        *(f"- **{name}**: {text}; setting {_setting(ready[name])}" for name, text in SETTINGS.items()),
        "",
        table(["package", "wall s", "CPU s", "1000 events/s", "times Branchline's wall"], cells),
        "",
    ])  # fmt: skip


def _setting(ready: dict[str, Any]) -> str:
    if len(ready["tried"]) == 1:
        return "default" if ready["setting"] == 0 else str(ready["setting"])
    tried = ", ".join(f"{setting}: {wall_s:.1f} s" for setting, wall_s in ready["tried"].items())
    return f"{ready['setting']}, the fastest of {tried}"
