"""A run divides its time among studies, and resumes after an interruption."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.planning import LEAST_PART, MOST_PART, StudiesRun, own_budget_s
from studies.published import all_studies

PAIRS = all_studies()[:4]
OWN_S = {one.name: own_budget_s(one) for one in PAIRS}


def test_unused_time_goes_to_later_studies(tmp_path: Path) -> None:
    run = StudiesRun(PAIRS, tmp_path / "run.json", 80.0 + sum(OWN_S.values()), is_quick=False)
    for pair in PAIRS:
        assert run.budget_s(pair.name) == pytest.approx(OWN_S[pair.name], rel=0.01)
    for pair in PAIRS[:-1]:  # They took no time at all.
        run.end(pair.name, "done")
    assert run.budget_s(PAIRS[-1].name) == pytest.approx(MOST_PART * OWN_S[PAIRS[-1].name])


def test_a_study_has_a_minimum_time(tmp_path: Path) -> None:
    run = StudiesRun(PAIRS, tmp_path / "run.json", 1.0, is_quick=False)
    assert run.budget_s(PAIRS[0].name) == pytest.approx(LEAST_PART * OWN_S[PAIRS[0].name])


def test_an_interrupted_run_resumes_and_repeats_failed_studies(tmp_path: Path) -> None:
    first = StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=False)
    first.end(PAIRS[0].name, "6 rounds")
    first.fail(PAIRS[1].name)
    assert first.left == [one.name for one in PAIRS[2:]]
    second = StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=False)
    assert second.state.done == {PAIRS[0].name: "6 rounds"}
    assert second.left == [one.name for one in PAIRS[1:]]
    assert "(1 are finished)" in second.estimate()
    assert StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=True).left == [one.name for one in PAIRS]
    second.forget()
    assert not StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=False).state.done
