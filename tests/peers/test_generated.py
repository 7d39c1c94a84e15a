"""Random files of each format from a fixed seed; `make peers` runs many more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.peers.generator.run import Draw, run
from tests.sampled import long_but

SEED = 50
#: How many cases of each format, and how many objects of them at least are equal.
CASES = {
    ("TTree", 3): 25,
    ("TTree", 16): 150,
    ("RNTuple", 3): 9,
    ("RNTuple", 16): 60,
    ("written", 20): 60,
    ("written", 200): 600,
    ("cycles", 4): 60,
    ("cycles", 40): 600,
}
KEPT = [("TTree", 3), ("RNTuple", 3), ("written", 20), ("cycles", 4)]


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(("of", "cases"), long_but(CASES, KEPT))
def test_random_files_are_read_as_they_were_written(
    root: Any, tmp_path: Path, record_property: pytest.RecordProperty, of: str, cases: int
) -> None:
    draw = Draw(SEED, cases, cases_per_family=1000, formats=[of])
    summary = run(draw, tmp_path, jobs=1)
    record_property("summary", f"{draw.command}: {summary.text().splitlines()[-1]}")
    assert summary.is_good, summary.text()
    assert summary.cases == cases
    assert summary.equal.total() > CASES[of, cases]
