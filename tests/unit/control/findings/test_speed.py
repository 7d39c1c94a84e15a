"""What is slow is blamed on the site, the storage element, or the path: in worlds that seeds choose."""

from __future__ import annotations

import pytest
from tests.sampled import long_but
from tests.unit.control.findings.simulated import ELEMENT, NOTHING, PATH, SITE, WAY, outcome, world

from branchline.control.findings.finding import BAD_ELEMENT, BAD_PATH, BAD_SITE, Finding
from branchline.control.findings.speed import slow_places
from branchline.control.findings.speed_samples import PlaceKey, speeds_of
from branchline.records.diagnosis.remedies import AVOID_ELEMENT, STAGE_ELEMENT

SEEDS = range(8)


@pytest.mark.parametrize("fault", long_but([SITE, ELEMENT, PATH, WAY], [SITE, PATH]))
def test_what_is_five_times_slower_is_found_and_blamed_on_the_right_one(fault: str) -> None:
    outcomes = [outcome(world(seed, fault, slower=5.0)) for seed in SEEDS]
    # Of 60 seeds 9 of 10 and more are found.
    assert sum(found for found, _ in outcomes) >= len(SEEDS) - 2
    assert sum(others for _, others in outcomes) <= 2


@pytest.mark.long
def test_where_nothing_is_wrong_hardly_anything_is_found() -> None:
    # Of 60 seeds 4 had a finding, where 2 % of each family may be false.
    assert sum(others > 0 for _, others in (outcome(world(seed, NOTHING)) for seed in SEEDS)) <= 2


def only(fault: str, kind: str) -> Finding:
    """The finding of this kind in the first world where it is right."""
    for seed in range(20):
        one = world(seed, fault, slower=5.0)
        found = [each for each in slow_places(one.speeds) if each.kind == kind]
        if len(found) == 1 and outcome(one)[0]:
            return found[0]
    raise AssertionError(f"no world with {fault}")


def test_a_finding_has_its_sample_its_interval_what_it_was_compared_with_and_a_proposal() -> None:
    element = only(ELEMENT, BAD_ELEMENT)
    assert "the storage is slow, not a site" in element.sentence
    assert element.sample.jobs > 20
    assert 1.5 < element.estimate.low < element.estimate.value < element.estimate.high
    assert element.estimate.low < 5 < element.estimate.high * 1.3
    assert element.proposal is not None
    assert (element.proposal.kind, element.proposal.site) == (AVOID_ELEMENT, "")
    assert element.proposal.gain_s.low < element.proposal.gain_s.value < element.proposal.gain_s.high
    site = only(SITE, BAD_SITE)
    assert "and also local files" in site.sentence
    assert site.proposal is None
    way = next(each for each in slow_places(world(1, WAY, 5.0).speeds) if len(each.cells) > 1)
    assert "not its machines, and not the storage" in way.sentence
    assert way.proposal is not None
    assert way.proposal.kind == STAGE_ELEMENT
    path = only(PATH, BAD_PATH)
    assert any(" at " in one for one in path.compared[1:])
    assert path.p_value is not None
    assert path.p_value < 0.02


def test_the_same_table_gives_the_same_findings() -> None:
    speeds = world(3, PATH).speeds
    assert slow_places(speeds) == slow_places(list(speeds))


@pytest.mark.parametrize(("sites", "jobs"), [(0, 0), (1, 10), (2, 10), (5, 2)])
def test_a_thin_table_tells_nothing_and_is_no_error(sites: int, jobs: int) -> None:
    places = [PlaceKey(f"s{site}", f"e{element}", site == element) for site in range(sites) for element in range(2)]
    readings = [(place, 1, 1000 + 10**index, 1.0 + index) for index, place in enumerate(places) for _ in range(jobs)]
    assert slow_places(speeds_of(readings)) == []


def test_reads_without_bytes_or_time_are_no_speed() -> None:
    place = PlaceKey("s", "e", True)
    assert speeds_of([(place, 1, 0, 1.0), (place, 1, 10, 0.0)] * 10) == []
