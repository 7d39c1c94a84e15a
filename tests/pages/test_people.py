"""Two people at once in a shared control room: each logs in, one acts, the other sees it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.pages.conftest import NARROW, WIDE, Keep, Page, expect
from tests.pages.test_every_page import check
from tests.unit.control.web.server import Server
from tests.unit.control.web.test_shared import PASSWORD, PEOPLE, people

SOURCE = "class Count:\n    branches = ['px']\n    def process(self, events):\n        return {'n': len(events)}\n"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    folder: Path = tmp_path_factory.mktemp("shared") / "room"
    for name, role in PEOPLE.items():
        people(folder, "add", name, "--role", role, "--password-stdin", password=PASSWORD)
    with Server(folder, options=["--shared"]) as server:
        yield server


def logged_in(browser: Any, server: Server, name: str, path: str, complaints: list[str]) -> Page:
    page = browser.new_context().new_page()
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(server.base + path)
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    page.get_by_label("Name").fill(name)
    page.get_by_label("Password").fill(PASSWORD)
    page.keyboard.press("Enter")
    expect(page).to_have_url(server.base + path)
    return page


def test_one_registers_a_wagon_and_the_other_sees_it_appear(browser: Any, shared: Server, picture: Keep) -> None:
    complaints: list[str] = []
    emmy = logged_in(browser, shared, "emmy", "/changes", complaints)
    lise = logged_in(browser, shared, "lise", "/new-wagon", complaints)
    lise.locator("textarea[name=text]").fill(SOURCE)
    lise.get_by_role("button", name="Register").first.click()
    expect(lise.get_by_role("heading", level=1)).to_contain_text("Count")
    expect(emmy.get_by_role("link", name="lise").or_(emmy.get_by_text("lise")).first).to_be_visible()
    picture(emmy, "changes-of-two")
    assert complaints == []


@pytest.mark.long
def test_an_administrator_lets_somebody_in_who_makes_a_token_and_leaves(browser: Any, shared: Server) -> None:
    complaints: list[str] = []
    ada = logged_in(browser, shared, "ada", "/people", complaints)
    new = ada.locator("form[action='/do/add-person']")
    new.get_by_label("Name").fill("marie")
    new.get_by_label("Password").fill(PASSWORD)
    new.get_by_role("button", name="Add").click()
    expect(ada.get_by_role("cell", name="marie", exact=True)).to_be_visible()
    marie = logged_in(browser, shared, "marie", "/me", complaints)
    marie.locator("form[action='/do/make-token']").get_by_label("Name").fill("laptop")
    marie.get_by_role("button", name="Make a token").click()
    secret = marie.locator("#secret").inner_text()
    assert secret.startswith("bl_")
    marie.get_by_role("link", name="Back").click()
    expect(marie.get_by_role("cell", name="laptop", exact=True)).to_be_visible()
    expect(marie.get_by_text(secret)).to_have_count(0)
    marie.get_by_role("button", name="Revoke laptop").click()
    expect(marie.get_by_role("cell", name="laptop", exact=True)).to_have_count(0)
    marie.get_by_role("button", name="Log out").click()
    expect(marie.get_by_role("heading", name="Log in")).to_be_visible()
    assert complaints == []


@pytest.mark.long
@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize(("name", "path"), [("ada", "/people"), ("lise", "/me")])
def test_pages_about_people_fit_and_are_used_without_a_mouse(
    browser: Any, shared: Server, name: str, path: str, width: int
) -> None:
    complaints: list[str] = []
    page = logged_in(browser, shared, name, path, complaints)
    page.set_viewport_size({"width": width, "height": 900})
    check(page, width)
    page.emulate_media(media="print")
    assert page.locator("form:visible, .no-print:visible").count() == 0
    assert page.locator("h1").is_visible()
    assert complaints == []
