"""The files of the studies are whole: each can be asked, and what was published of it names arms that it has."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from studies import published
from studies.findings import FOUND, NOT_FOUND, NOT_JUDGED, UNSURE, Samples, findings_here, verdict_of
from studies.making.sets import FULL, QUICK, Sets
from studies.measuring import quick
from studies.pages import write
from studies.published import Finding, StudyPair
from studies.yard.places import PLACES

from branchline.lab.sampling.job import JobOutcome
from branchline.lab.sampling.machine import Surroundings
from branchline.lab.sampling.samples import StudySample
from branchline.lab.statistics import Ratio
from branchline.lab.studies.study_file import load_study
from branchline.lab.study import Study

PAIRS = published.all_studies()
ASKED = [one for one in PAIRS if not one.published.cannot]


def loaded(pair: StudyPair) -> Study:
    return load_study(pair.asked, AnyVariable())


class AnyVariable(dict[str, str]):
    """Any variable has a value here; which ones a place sets is seen when a study runs."""

    def __contains__(self, _: object) -> bool:
        return True

    def __missing__(self, _: str) -> str:
        return "/nowhere"


@pytest.mark.parametrize("pair", ASKED, ids=lambda pair: pair.name)
def test_published_arms_are_arms_of_the_study(pair: StudyPair) -> None:
    arms = [one.levels for one in loaded(pair).arms()]
    for number in pair.published.numbers:
        assert number.arm is None or number.arm in arms, number
    for finding in pair.published.findings:
        assert finding.of in arms, finding
        assert finding.over in arms, finding


@pytest.mark.parametrize("pair", ASKED, ids=lambda pair: pair.name)
def test_every_study_has_enough_files_at_both_scales(pair: StudyPair) -> None:
    for scale, study in ((FULL, loaded(pair)), (QUICK, quick(loaded(pair)))):
        small = {"small", "generated", "generated-plain"}
        for arm in study.arms():
            job = arm.settings
            top = job.folder.partition("/")[0]
            if top != "sizes":
                assert job.jobs * job.files_per_job <= (scale.files if top in small else scale.large), arm.name
            assert top in pair.published.sets, arm.name


def test_sets_and_places_of_studies_exist(tmp_path: Path) -> None:
    known = Sets(tmp_path, QUICK, print).names
    for pair in PAIRS:
        assert set(pair.published.sets) <= known, pair.name
        assert set(pair.published.places) <= set(PLACES), pair.name


def test_all_studies_together_fit_into_two_hours() -> None:
    budgets_s = sum(loaded(pair).budget_s for pair in ASKED)
    # What making the files, starting the servers and filling the disks takes besides.
    assert budgets_s + len(ASKED) * 20 + 300 <= 7200, f"{budgets_s / 60:.0f} min of budgets"


@pytest.mark.parametrize(
    ("low", "high", "verdict"), [(1.2, 1.4, FOUND), (0.9, 1.05, NOT_FOUND), (1.0, 1.3, UNSURE), (None, None, UNSURE)]
)
def test_a_verdict_needs_the_whole_interval(low: float | None, high: float | None, verdict: str) -> None:
    finding = Finding("it grows", "events_per_s", {}, {}, least=1.1)
    assert verdict_of(finding, Ratio(1.2, 6, low, high)) == verdict


def test_a_finding_is_the_ratio_of_pairs_of_the_same_round() -> None:
    (pair,) = (one for one in PAIRS if one.name == "gsi-test-1-4")
    study = loaded(pair)
    taken = [
        StudySample(number, 0, f"data {name}", "arm", "", wall_s * (number + 1), [JobOutcome(0, events=100)], 1000)
        for number in range(6)
        for name, wall_s in (("level 1", 1.0), ("uncompressed", 2.0))
    ]
    found = {one.finding.text: one for one in findings_here(pair.published, Samples(study, taken), is_quick=False)}
    faster = found["events are analysed faster when they are compressed"]
    assert faster.ratio is not None
    assert faster.ratio.value == pytest.approx(2.0)
    assert faster.verdict == FOUND
    assert found["throughput is higher without compression"].verdict == NOT_FOUND
    quick = findings_here(pair.published, Samples(study, taken), is_quick=True)
    assert FOUND not in {one.verdict for one in quick}
    assert NOT_FOUND not in {one.verdict for one in quick}
    busy = [replace(one, surroundings=Surroundings(others_share=0.5)) for one in taken]
    disturbed = {one.finding.text: one for one in findings_here(pair.published, Samples(study, busy), is_quick=False)}
    assert disturbed[faster.finding.text].verdict == NOT_JUDGED


def test_pages_name_every_study_also_where_nothing_was_measured(tmp_path: Path) -> None:
    write(tmp_path / "docs", tmp_path / "no-records")
    for pair in PAIRS:
        page = (tmp_path / "docs" / f"{pair.published.document}.md").read_text()
        assert pair.published.title in page
    assert "make studies" in (tmp_path / "docs" / "index.md").read_text()
