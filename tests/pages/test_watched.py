"""Somebody looks in a browser at the history of the reference job, and at its alarms among the findings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.pages.conftest import NARROW, WIDE, Keep, Open, expect
from tests.pages.test_every_page import check
from tests.sampled import long_but
from tests.unit.control.web.server import Server
from tests.unit.control.web.test_watched import reference_room


@pytest.fixture(scope="module")
def watching(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    room = tmp_path_factory.mktemp("watching") / "room"
    reference_room(room)
    with Server(room) as server:
        yield server


LOOKS = [(WIDE, "light"), (NARROW, "dark"), (WIDE, "dark"), (NARROW, "light")]


@pytest.mark.parametrize(("width", "colours"), long_but(LOOKS, [(NARROW, "dark")]))
def test_the_reference_job_has_charts_and_alarms(
    viewer: Open, watching: Server, picture: Keep, width: int, colours: str
) -> None:
    page = viewer("/watched", width, server=watching, color_scheme=colours)
    expect(page.get_by_role("img", name="MB per second of reading time over time")).to_have_count(3)
    expect(page.get_by_role("img", name="CPU time of the benchmark in s over time")).to_have_count(3)
    # A line through the turns, and one for the level before and after the change.
    chart = page.locator("figure").first
    assert chart.locator("path.curve").count() == 2
    assert chart.locator("path.curve").nth(1).get_attribute("d").count("M") == 2
    expect(page.locator("p.message")).to_have_count(2)
    expect(page.locator("p.message").first).to_contain_text("wrong values: /eos/test on Xeon")
    check(page, width)
    picture(page, f"watched-{width}-{colours}")
    page.get_by_role("link", name="Findings").click()
    expect(page.get_by_role("heading", name="slower since a change")).to_be_visible()
    picture(page, f"watched-findings-{width}-{colours}")
    page.get_by_role("link", name="its history").first.click()
    expect(page.get_by_role("heading", name="Watched storages")).to_be_visible()
