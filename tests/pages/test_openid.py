"""Somebody logs in with a real browser by a real provider of OpenID Connect, which is another site for it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.pages.conftest import NARROW, WIDE, Keep, expect
from tests.unit.control.web.openid.provider import PASSWORD
from tests.unit.control.web.openid.test_openid import joined


@pytest.mark.long
def test_a_person_of_an_institute_logs_in_and_out(browser: Any, tmp_path: Path, picture: Keep) -> None:
    for both in joined(tmp_path):
        complaints: list[str] = []

        def heard(said: Any) -> None:
            # What the provider's page lacks is its own matter.
            if said.type in ("error", "warning") and said.location["url"].startswith(both.server.base):  # noqa: B023
                complaints.append(said.text)  # noqa: B023

        page = browser.new_context(viewport={"width": WIDE, "height": 800}).new_page()
        page.on("console", heard)
        page.on("pageerror", lambda error: complaints.append(str(error)))  # noqa: B023
        page.goto(f"{both.server.base}/findings")
        picture(page, "login-openid-wide")
        page.set_viewport_size({"width": NARROW, "height": 800})
        picture(page, "login-openid-narrow")
        page.get_by_role("link", name="Log in with the institute").click()
        page.get_by_label("Name").fill("ada")
        page.get_by_label("Password").fill(PASSWORD)
        page.get_by_role("button", name="Sign in").click()
        expect(page).to_have_url(f"{both.server.base}/findings")
        page.get_by_role("link", name="ada").click()
        expect(page.get_by_text("You log in by http://localhost")).to_be_visible()
        expect(page.get_by_text("administrator", exact=True)).to_be_visible()
        page.get_by_role("link", name="People").click()
        expect(page.get_by_text("none: logs in by")).to_be_visible()
        picture(page, "people-openid-narrow")
        page.go_back()
        page.get_by_role("button", name="Log out").click()
        expect(page.get_by_role("heading", name="Log in", exact=True)).to_be_visible()
        assert complaints == []
