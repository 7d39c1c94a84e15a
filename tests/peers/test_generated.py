"""Random files of each format from a fixed seed; `make peers` runs many more."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest
from tests.peers.generator import stages
from tests.peers.generator.cases import Outcome
from tests.peers.generator.report import from_line
from tests.peers.generator.run import Draw, run
from tests.peers.generator.worker import in_children
from tests.sampled import long_but

SEED = 50
#: For each format, the number of cases, and the minimum number of equal objects.
CASES = {
    ("TTree", 16): 150,
    ("RNTuple", 16): 60,
    ("written", 20): 60,
    ("written", 200): 600,
    ("cycles", 4): 60,
    ("cycles", 40): 600,
}
#: Random TTrees and RNTuples need a dictionary, which takes ROOT most of a minute to compile.
KEPT = [("written", 20), ("cycles", 4)]


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


def test_the_outcome_of_a_case_whose_process_dies_says_at_which_stage() -> None:
    def case(seed: int) -> Outcome:
        if seed == 1:
            stages.begin(stages.ROOT_READS)
            os.kill(os.getpid(), signal.SIGKILL)
        if seed == 2:
            stages.begin(stages.BRANCHLINE_READS)
            os._exit(3)
        return Outcome(seed)

    outcomes = [from_line(line) for line in in_children(case, range(4))]
    died = "the process of the case died of"
    assert [one.lost for one in outcomes] == [[], [f"seed 1: {died} signal 9 when ROOT read"], [], []]
    assert [one.wrong for one in outcomes] == [[], [], [f"seed 2: {died} status 3 when Branchline read"], []]
