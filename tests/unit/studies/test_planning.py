"""A run of studies shares its time out, and goes on where it was interrupted."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies.planning import LEAST_PART, MOST_PART, StudiesRun, own_budget_s
from studies.published import all_studies

PAIRS = [one for one in all_studies() if not one.published.cannot][:4]
OWN_S = {one.name: own_budget_s(one) for one in PAIRS}


def test_what_studies_leave_is_for_those_behind_them(tmp_path: Path) -> None:
    run = StudiesRun(PAIRS, tmp_path / "run.json", 80.0 + sum(OWN_S.values()), is_quick=False)
    for pair in PAIRS:
        assert run.budget_s(pair.name) == pytest.approx(OWN_S[pair.name], rel=0.01)
    for pair in PAIRS[:-1]:  # They took no time at all.
        run.end(pair.name, "done")
    assert run.budget_s(PAIRS[-1].name) == pytest.approx(MOST_PART * OWN_S[PAIRS[-1].name])


def test_a_study_has_some_time_though_all_is_spent(tmp_path: Path) -> None:
    run = StudiesRun(PAIRS, tmp_path / "run.json", 1.0, is_quick=False)
    assert run.budget_s(PAIRS[0].name) == pytest.approx(LEAST_PART * OWN_S[PAIRS[0].name])


def test_an_interrupted_run_goes_on_and_tries_again_what_failed(tmp_path: Path) -> None:
    first = StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=False)
    first.end(PAIRS[0].name, "6 rounds")
    first.fail(PAIRS[1].name)
    assert first.left == [one.name for one in PAIRS[2:]]
    second = StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=False)
    assert second.state.done == {PAIRS[0].name: "6 rounds"}
    assert second.left == [one.name for one in PAIRS[1:]]
    assert "1 are done" in second.estimate()
    assert StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=True).left == [one.name for one in PAIRS]
    second.forget()
    assert not StudiesRun(PAIRS, tmp_path / "run.json", 3600.0, is_quick=False).state.done


def test_studies_that_cannot_be_measured_get_no_time(tmp_path: Path) -> None:
    lacking = next(one for one in all_studies() if one.published.cannot)
    run = StudiesRun([lacking, *PAIRS], tmp_path / "run.json", 3600.0, is_quick=False)
    assert run.budget_s(lacking.name) == 0
    assert run.estimate().startswith("4 studies to be measured")
