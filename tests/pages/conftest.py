"""A real browser, and a control room that it looks at."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.browser import NAMES
from tests.pages.busy_day import busy_day
from tests.peers.peers import imported, missing
from tests.unit.control.web.server import Server

playwright = imported("playwright.sync_api")

NARROW, WIDE = 390, 1280
#: Only ends what hangs, also on a busy machine, in ms.
SOON_MS = 120_000

# What a browser shows; its types are only there where the package is.
Page = Any
Open = Callable[..., Page]
Keep = Callable[[Page, str], None]
playwright.expect.set_options(timeout=SOON_MS)
expect = playwright.expect


# Of a module: as long as Playwright runs, this thread has an event loop, and tests of other modules start their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    program = next((found for name in NAMES if (found := shutil.which(name))), None)
    if program is None:
        missing("chromium")
    with playwright.sync_playwright() as started:
        # No sandbox: tests may run in a container for which it cannot be made; the pages are our own.
        browser = started.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("room")) as server:
        for batch in busy_day():
            assert server.report(batch).json() == {"taken": True}
        yield server


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    """The cookies that each server has given, by its address with the token: one browser is led there, not all."""
    return {}


@pytest.fixture
def viewer(browser: Any, server: Server, known: dict[str, Any]) -> Iterator[Open]:
    """Opens a page as somebody with a browser of their own; at the end no page may have complained, nor asked
    anybody else for anything.
    """
    contexts, complaints = [], []
    of_all = server

    def opened(
        path: str, width: int = WIDE, *, server: Server = of_all, may_complain: bool = False, **options: Any
    ) -> Page:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SOON_MS)
        if not may_complain:
            page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda asked: asked.url.startswith(f"{server.base}/") or complaints.append(asked.url))
        if server.address in known:
            context.add_cookies(known[server.address])
        else:
            page.goto(server.address)
            assert server.token not in page.url
            known[server.address] = context.cookies()
        page.goto(server.base + path)
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


@pytest.fixture
def picture() -> Keep:
    """Keeps a picture of a page in the folder BRANCHLINE_TEST_PICTURES, if there is one, to be looked at."""
    folder = os.environ.get("BRANCHLINE_TEST_PICTURES")

    def keep(page: Page, name: str) -> None:
        if folder:
            page.screenshot(path=Path(folder) / f"{name}.png", full_page=True)

    return keep
