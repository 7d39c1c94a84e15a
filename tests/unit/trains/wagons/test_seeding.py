"""Wagons draw the same random numbers with any workers and beside any other wagons."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import run_in_chunks


class Draws:
    def __init__(self, name: str = "draws") -> None:
        self.name = name

    def process(self, events: Any) -> list[tuple[float, float]]:
        return [(random.random(), float(np.random.uniform()))]  # noqa: NPY002


@pytest.mark.usefixtures("small_subjobs")
def test_draws_depend_on_the_wagon_and_the_chunk_alone(folder: Path) -> None:
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    expected = random.Random(1).random(), float(np.random.RandomState(1).uniform())
    alone = run_in_chunks([Draws()], str(folder)).outputs["draws"]
    # The caller's generators go on as if there had been no train.
    assert (random.random(), float(np.random.uniform())) == expected  # noqa: NPY002
    for workers in (1, 2):
        result = run_in_chunks([Draws("other"), Draws()], str(folder), workers=workers)
        assert result.outputs["draws"] == alone
        assert not set(result.outputs["other"]) & set(alone)
    assert len(set(alone)) == len(alone) > 5
