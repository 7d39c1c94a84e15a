"""How far a run is, as it writes it down while it works."""

from __future__ import annotations

from pathlib import Path

from branchline.running.claim import claimed
from branchline.running.standing import standing_of
from branchline.train import TrainProgress


def test_a_run_at_work_says_how_far_it_is(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert standing_of(out) is None
    with claimed(out, force=False) as claim:
        claim.begin("branchline run")
        claim.note(TrainProgress(10.0, 5000, 20_000_000, 0, 0.5))
        claim.note(TrainProgress(11.0, 9000, 20_000_000, 0, 0.6))  # too early to be written again
        found = standing_of(out)
    assert found is not None
    assert found.is_good
    assert "5 000 events after 10 s; 500 events/s, 2.0 MB/s read" in found.lines[1]
