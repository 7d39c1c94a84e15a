"""The files that the checks of places run over, the places, and batch systems that really run: each is started once,
for the tests that ask for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from tests.clusters.event_files import write_events
from tests.clusters.htcondor import HTCondor
from tests.clusters.places import PLACES, PlaceHere
from tests.clusters.slurm import Slurm

pytest.register_assert_rewrite("tests.clusters.conformance")

from tests.clusters.conformance import EVENTS_PER_FILE, FILES  # noqa: E402 - behind what rewrites its checks

GetPlace = Callable[[str], PlaceHere]


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight files; each becomes a sub-job."""
    folder = tmp_path_factory.mktemp("events")
    write_events(folder, FILES, EVENTS_PER_FILE)
    return folder


@pytest.fixture(autouse=True)
def small_subjobs(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every file is a sub-job of its own."""
    largest_bytes = max(one.stat().st_size for one in data.iterdir())
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", largest_bytes)


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GetPlace]:
    """Gives a place by its name, and ends the one before: the processes of a Dask that waits take a tenth of a core."""
    started: dict[str, PlaceHere] = {}
    with ExitStack() as stack:

        def get(name: str) -> PlaceHere:
            if name not in started:
                stack.close()
                started.clear()
                folder = tmp_path_factory.mktemp("place")
                started[name] = stack.enter_context(contextmanager(PLACES[name])(folder))
            return started[name]

        yield get


@pytest.fixture(scope="session")
def slurm() -> Iterator[Slurm]:
    """A Slurm with three nodes."""
    farm = Slurm()
    try:
        farm.start()
        yield farm
    finally:
        farm.close()


@pytest.fixture(scope="module")
def pool() -> Iterator[HTCondor]:
    """A HTCondor with four slots."""
    pool = HTCondor()
    try:
        pool.start()
        yield pool
    finally:
        pool.close()
