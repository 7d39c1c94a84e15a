"""The page of faulty wagons says what really happens: for a few kinds here, for all of them in `make test-faults`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.faults.kinds import ALL
from tests.faults.table import (
    BATCH_S,
    BATCH_SYSTEMS,
    CHANGES_OTHERS,
    DASK,
    HERE,
    PLACES,
    WORKERS,
    Trains,
    rows_of_page,
    trains,
)
from tests.sampled import long_but

FEW = [
    "returns a result that no other process can unpickle",
    "cannot be unpickled by a worker",
    "replaces a function of NumPy",
    "closes standard output",
    "sends itself `SIGKILL`",
    "changes a variable of a module that another wagon uses",
]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trains]:
    with trains(tmp_path_factory.mktemp("faults"), with_dask=False) as found:
        yield found


@pytest.fixture(scope="module")
def on_dask(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Trains]:
    with trains(tmp_path_factory.mktemp("faults")) as found:
        yield found


def test_the_page_has_all_kinds_and_places() -> None:
    rows = rows_of_page()
    assert list(rows) == ALL
    # Columns of batch systems are written where these are installed.
    assert all(set(PLACES) - set(BATCH_SYSTEMS) <= set(cells) <= set(PLACES) for cells in rows.values())


@pytest.mark.parametrize("place", [HERE, WORKERS])
@pytest.mark.parametrize("kind", long_but(ALL, FEW))
def test_what_happens_is_what_the_page_says(here: Trains, kind: str, place: str) -> None:
    assert here.cell(place, kind) == rows_of_page()[kind][place]


@pytest.mark.parametrize("kind", long_but(ALL, FEW[:2]))
def test_on_dask_it_is_what_the_page_says(on_dask: Trains, kind: str) -> None:
    assert on_dask.cell(DASK, kind) == rows_of_page()[kind][DASK]


@pytest.mark.long
@pytest.mark.timeout(BATCH_S + 300)
@pytest.mark.parametrize("system", BATCH_SYSTEMS)
def test_on_a_batch_system_it_is_what_the_page_says(here: Trains, system: str) -> None:
    rows = rows_of_page()
    if not all(system in cells for cells in rows.values()):
        pytest.skip(f"the page has no column of {PLACES[system]}; make fault-table PLACES={system} writes it")
    assert here.batch_cells(system, ALL) == {kind: cells[system] for kind, cells in rows.items()}


def test_other_wagons_keep_their_results_but_where_the_program_ends() -> None:
    """Without workers a wagon can end the program, and shared variables of users are looked at by `branchline test`."""
    for kind, cells in rows_of_page().items():
        for place in cells.keys() - {HERE}:
            assert "the train ends" not in cells[place], kind
            assert "the program" not in cells[place], kind
            assert "different results" not in cells[place], kind
    assert [kind for kind, cells in rows_of_page().items() if CHANGES_OTHERS in cells.values()] == [FEW[-1]]
