"""Sums of small integers and floats over a train do not overflow, however the dataset is split."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.trains.wagons.conftest import FILES, run_in_chunks

from branchline.trains.sums.digests import digest_of

CHUNKS = FILES * 4


class Returns:
    """Returns a value for each chunk of 400 entries, of which a file has four."""

    branches = ("run",)

    def __init__(self, name: str, value: Any) -> None:
        self.name, self.value = name, value

    def process(self, _events: Any) -> dict[str, Any]:
        return {"scalar": self.value, "array": np.full(3, self.value), "pair": (self.value, {"x": self.value})}


WAGONS = [
    Returns("u8", np.uint8(200)),
    Returns("i32", np.int32(2**30)),
    Returns("f16", np.float16(60000)),
    Returns("f32", np.float32(2**24 + 2)),
]


@pytest.mark.usefixtures("small_subjobs")
def test_small_numbers_do_not_overflow_whatever_the_split(folder: Path) -> None:
    results = [run_in_chunks(WAGONS, str(folder), workers=workers).outputs for workers in (0, 2)]
    assert digest_of(results[0]) == digest_of(results[1])
    for wagon in WAGONS:
        expected = CHUNKS * float(wagon.value)
        found = results[0][wagon.name]
        values = [found["scalar"], *found["array"], found["pair"][0], found["pair"][1]["x"]]
        assert [float(one) for one in values] == [expected] * 6


def test_one_chunk_gives_the_type_of_many(folder: Path) -> None:
    one = run_in_chunks(WAGONS, str(folder / "f0.root"), step_size=10_000).outputs
    many = run_in_chunks(WAGONS, str(folder / "f0.root")).outputs
    for wagon in WAGONS:
        assert one[wagon.name]["scalar"].dtype == many[wagon.name]["scalar"].dtype
        assert one[wagon.name]["array"].dtype == many[wagon.name]["array"].dtype


@pytest.mark.usefixtures("small_subjobs")
@pytest.mark.parametrize(("value", "where"), [(np.int64(2**61), "chunks"), (np.int64(2**60), "sub-jobs")])
def test_a_sum_that_overflows_names_the_wagon_and_the_key(folder: Path, value: Any, where: str) -> None:
    """Within a sub-job of four chunks, and when two sub-jobs are added."""
    result = run_in_chunks([Returns("large", value), Returns("small", 1)], str(folder), workers=1)
    [large, small] = result.record.wagons
    assert large.error is not None
    assert "at ['scalar']: the sum does not fit into int64" in large.error.message
    assert ("result of a sub-job" in large.error.message) == (where == "sub-jobs")
    assert small.error is None
    assert result.outputs["small"]["scalar"] == CHUNKS
    assert result.exit_code == 3
