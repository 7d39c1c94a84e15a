"""Random trees of all kinds of branches, written by ROOT, from a fixed seed; `make peers` runs many more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.peers.generator.run import run
from tests.sampled import long_but

SEED = 50
#: How many cases, and how many objects of them at least are equal.
CASES = {3: 25, 16: 150}


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("cases", long_but(CASES, [3]))
def test_random_objects_read_as_root_wrote_them(
    root: Any, tmp_path: Path, record_property: pytest.RecordProperty, cases: int
) -> None:
    summary = run(SEED, cases, tmp_path, jobs=1)
    record_property("summary", f"SEED={SEED} CASES={cases}: {summary.text().splitlines()[-1]}")
    assert summary.is_good, summary.text()
    assert summary.cases == cases
    assert summary.equal.total() > CASES[cases]
