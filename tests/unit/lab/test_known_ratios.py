"""Studies of jobs with a known ratio, and what the benchmark counts as a mistake."""

from __future__ import annotations

import pytest
from benches.lab_ratios import RATIOS, Outcome, page, study_of


def outcome(truth: float, ratio: float | None, *, differs: bool, others: int = 0) -> Outcome:
    return Outcome("computes", truth, others, ratio, differs, "wall time", "")


@pytest.mark.parametrize(
    ("found", "wrong", "false", "detected"),
    [
        (outcome(0.75, 0.8, differs=True), False, False, True),
        (outcome(0.75, 1.2, differs=True), True, False, False),
        (outcome(1.33, 0.9, differs=True), True, False, False),
        (outcome(1.33, 0.9, differs=False), False, False, False),
        (outcome(1.0, 1.1, differs=True), False, True, False),
        (outcome(1.0, 1.1, differs=False), False, False, False),
        (outcome(0.75, None, differs=False), False, False, False),
    ],
)
def test_mistakes_are_counted(found: Outcome, wrong: bool, false: bool, detected: bool) -> None:
    assert (found.has_wrong_sign, found.is_false, found.is_found) == (wrong, false, detected)
    text = page([found], 1)
    assert f"Wrong sign: {int(wrong)} of 1" in text
    assert f"False positives: {int(false)} of {int(found.truth == 1.0)}" in text


@pytest.mark.parametrize("program", ["computes", "waits"])
@pytest.mark.parametrize("truth", RATIOS)
def test_the_arms_differ_only_in_the_amount_of_work(program: str, truth: float) -> None:
    same, other = (arm.settings.command for arm in study_of(program, truth, 1000).arms())
    assert same.rpartition(" ")[0] == other.rpartition(" ")[0]
    assert int(other.rpartition(" ")[2]) / int(same.rpartition(" ")[2]) == truth
