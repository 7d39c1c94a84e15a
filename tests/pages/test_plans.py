"""An operator makes a plan in a browser, sees what waits, and pauses it: with and without JavaScript."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pages.conftest import NARROW, WIDE, Keep, Open, expect
from tests.sampled import long_but
from tests.unit.control.plans.passed_room import DATASET, make_room
from tests.unit.control.web.server import Server


@pytest.fixture(scope="module")
def passed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_room(tmp_path_factory.mktemp("passed"))


@pytest.fixture
def planned(passed: Path, tmp_path: Path) -> Iterator[Server]:
    shutil.copytree(passed, tmp_path / "room")
    with Server(tmp_path / "room") as server:
        yield server


@pytest.mark.long
@pytest.mark.parametrize(("width", "has_scripts"), long_but([(WIDE, True), (NARROW, False)], [(NARROW, False)]))
def test_an_operator_makes_a_plan_and_pauses_it(
    planned: Server, viewer: Open, picture: Keep, width: int, has_scripts: bool
) -> None:
    page = viewer("/trains", width, server=planned, java_script_enabled=has_scripts)
    page.get_by_role("link", name="Plans, which put trains together").click()
    page.get_by_role("link", name="New plan").click()
    page.get_by_label("Name, which its trains have too").fill("nightly")
    page.get_by_label("Dataset").select_option(DATASET)
    page.get_by_label("Friday").check()
    page.get_by_label("Time zone").fill("Europe/Zurich")
    page.get_by_role("button", name="Make the plan").press("Enter")
    expect(page.get_by_text("Monday, Friday 06:00 Europe/Zurich; next")).to_be_visible()
    expect(page.get_by_text("2 wagons, at most")).to_be_visible()
    page.get_by_role("button", name="Pause").click()
    expect(page.get_by_text("Monday, Friday 06:00 Europe/Zurich, paused")).to_be_visible()
    picture(page, f"plan-{width}")
    page.get_by_label("When it is full").check()
    page.get_by_label("Wagons that wait").fill("3")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("when full: 3 wagons, paused")).to_be_visible()
    expect(page.get_by_text("1 more wagon")).to_be_visible()
    expect(page.get_by_text("changed by").first).to_be_visible()
    assert page.get_by_label("When it is full").is_checked()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{planned.base}/plans")
    expect(page.get_by_role("row").filter(has_text="nightly")).to_contain_text("paused")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
