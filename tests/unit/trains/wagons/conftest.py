"""Small ROOT files, made by uproot, that the tests of trains run over."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import awkward as ak
import numpy as np
import pytest
import uproot

from branchline.jobs.interruption import Interruption
from branchline.reading.access import Access
from branchline.reading.sources import Source
from branchline.reading.trees.stream import Chunk, ChunkStream
from branchline.records.sensors.record import LinkRecord
from branchline.records.sensors.storage_counts import links_chosen
from branchline.trains.plan import TrainRequest
from branchline.trains.run_options import RunOptions
from branchline.trains.running.result import TrainResult
from branchline.trains.running.train_run import run_train
from branchline.trains.wagons.clock import PhaseClock
from branchline.trains.wagons.events import ChunkColumns

FILES = 5
EVENTS_PER_FILE = 1500
TYPES = {"px": "float64", "run": "int32", "pt": "var * float32", "vertex": np.dtype(("f8", (3,)))}


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with five files of 1500 events: px, run and a vertex for each event, and a few pt."""
    folder = tmp_path_factory.mktemp("events")
    for index in range(FILES):
        write_file(folder / f"f{index}.root", index)
    return folder


@pytest.fixture(autouse=True)
def near_disks(monkeypatch: pytest.MonkeyPatch) -> None:
    """How far a disk is is measured: here it is near, however slow others made it, unless a test says else."""

    def chosen(access: Access, site: str = "") -> list[LinkRecord]:
        return links_chosen(access) if access.requests_in_flight else []

    monkeypatch.setattr("branchline.trains.worker.train_worker.links_chosen", chosen)


def run_in_chunks(wagons: Any, dataset: str, **settings: Any) -> TrainResult:
    """Runs wagons in chunks of 400 entries, in this process unless ``workers`` says otherwise."""
    is_traced = settings.pop("is_traced", False)
    names = ("progress", "ledger", "tables", "begin", "stopping")
    of_run = {name: settings.pop(name) for name in names if name in settings}
    interruption = settings.pop("interruption", None) or Interruption()
    checked = RunOptions(**{"workers": 0, "step_size": 400, "memory_limit": "256 MiB", **settings})
    return run_train(TrainRequest(wagons, dataset, checked, is_traced), interruption, **of_run)


def write_file(path: Path, seed: int, tree: str = "events") -> None:
    random = np.random.default_rng(seed)
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        events = file.mktree(tree, TYPES)
        for _ in range(3):
            count = EVENTS_PER_FILE // 3
            counts = random.poisson(3, count)
            pt = ak.unflatten(random.exponential(size=counts.sum()).astype("f4"), counts)
            vertex = random.normal(size=(count, 3))
            run = np.full(count, seed, "i4")
            events.extend({"px": random.normal(size=count), "run": run, "pt": pt, "vertex": vertex})


@pytest.fixture
def small_subjobs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is a sub-job of its own."""
    largest_bytes = max(one.stat().st_size for one in folder.iterdir())
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest_bytes)


FirstChunk = Callable[..., AbstractContextManager[ChunkColumns]]


@pytest.fixture
def first_chunk() -> FirstChunk:
    """Gives the columns of the first 500 entries of a file."""

    @contextmanager
    def opened(path: Path, branches: list[str], *, learning: bool = False) -> Iterator[ChunkColumns]:
        stream = ChunkStream([Source(str(path), "events", 0, 500)], branches, step_size=500)
        try:
            chunk: Chunk = next(iter(stream))
            columns = ChunkColumns(chunk, PhaseClock("other"), learning)
            columns.wagon = "this"
            yield columns
        finally:
            stream.close()

    return opened


def by_hand(wagon: Callable[[Any], Any], factors: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """The wagon with one run for each weight: px, and px with each factor."""

    def run(events: Any) -> Any:
        weights = {"nominal": ak.Array(events.px)} | {name: events.px * make(events) for name, make in factors.items()}
        return {name: wagon(events.varied(name, {"weight": weight})) for name, weight in weights.items()}

    run.name = "by_hand"  # type: ignore[attr-defined]
    return run
