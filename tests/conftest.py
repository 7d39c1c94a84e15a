"""What all tests may ask for: the shared test data, and a small dataset of simulated collisions."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parent.parent


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


@pytest.fixture(scope="session")
def repository() -> Path:
    """The top folder of the sources."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of collected ROOT files and their oracles, which does not come with the sources.

    It lies in `../shared/data` or in `$BRANCHLINE_SHARED/data`. Tests that need it are skipped where it is missing,
    except in CI, where they fail.
    """
    folder = Path(os.environ.get("BRANCHLINE_SHARED", REPOSITORY.parent / "shared")) / "data"
    if not (folder / "root").is_dir():
        message = f"needs the shared test data in {folder} (BRANCHLINE_SHARED names another place)"
        if in_ci():
            pytest.fail(message)
        pytest.skip(message)
    return folder


@pytest.fixture(scope="session")
def collisions(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder with three small files of simulated collisions, and `collisions.txt`, which lists them."""
    from branchline.demo.files import make_data

    session = tmp_path_factory.getbasetemp()
    folder = (session if worker_id == "master" else session.parent) / "collisions"
    make_data(folder, files=3, events_per_file=20, seed=7, workers=1)
    return folder
