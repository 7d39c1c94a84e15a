"""Every place does the same: in this process, in others of this machine, in an executor, on Dask."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.clusters.conformance import CHECKS, Case
from tests.clusters.conftest import GetPlace
from tests.clusters.places import PLACES

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", PLACES)
def test_place(name: str, check: Callable[[Case], None], places: GetPlace, data: Path, tmp_path: Path) -> None:
    check(Case(places(name), data, tmp_path))
