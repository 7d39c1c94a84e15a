"""Random trees of all kinds of branches, written by ROOT, from a fixed seed; `make peers` runs many more."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.peers.generator.run import run

SEED = 50
CASES = 16


@pytest.mark.peer
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_random_objects_read_as_root_wrote_them(
    root: Any, tmp_path: Path, record_property: pytest.RecordProperty
) -> None:
    summary = run(SEED, CASES, tmp_path, jobs=1)
    record_property("summary", f"SEED={SEED} CASES={CASES}: {summary.text().splitlines()[-1]}")
    assert summary.is_good, summary.text()
    assert summary.cases == CASES
    assert summary.equal.total() > 150
