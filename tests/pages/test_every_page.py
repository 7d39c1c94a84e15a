"""Every page there is: it fits, is reached by keyboard in the order in which it is read, needs no script, prints."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.pages.busy_day import busy_day
from tests.pages.conftest import NARROW, WIDE, Open, Page
from tests.sampled import long_but
from tests.unit.control.plans.passed_room import DATASET, WAGONS, make_room
from tests.unit.control.web.server import WAIT_S, Server

from branchline.control.web.app import PAGES

#: What cannot be seen at once lies in something that scrolls; nothing else is wider than the window.
TOO_WIDE = """() => [...document.querySelectorAll('main *, header *')].filter(one => {
    const box = one.getBoundingClientRect();
    const hidden = one.closest('.skip, .scroll, pre, textarea, svg, [hidden]') || !box.width;
    return !hidden && box.right > innerWidth + 1;
}).map(one => one.outerHTML.slice(0, 120))"""
#: What people fill in or press without a name that is read to those who do not see it.
NAMELESS = """() => [...document.querySelectorAll(
    'input:not([type=hidden]), select, textarea, button, a[href], summary')]
    .filter(one => !(one.labels?.length || one.ariaLabel || one.textContent.trim() || one.title
        || one.querySelector('img[alt]:not([alt=""])')))
    .map(one => one.outerHTML.slice(0, 120))"""
#: Tables and texts that scroll sideways, which without a mouse only what has the focus does.
NOT_SCROLLED = """() => [...document.querySelectorAll('.scroll, pre')].filter(one =>
    one.scrollWidth > one.clientWidth + 1 && one.tabIndex < 0 && !one.querySelector('a, button, input, select'))
    .map(one => one.outerHTML.slice(0, 120))"""
CUT_OFF = """() => [...document.querySelectorAll('.scroll')]
    .filter(one => getComputedStyle(one).overflowX != 'visible').length"""
#: The place of what has the focus among all elements, -1 where nothing has it, and whether it has an outline.
FOCUSED = """() => {
    const one = document.activeElement;
    const place = one === document.body ? -1 : [...document.querySelectorAll('*')].indexOf(one);
    return [place, getComputedStyle(one).outlineStyle != 'none'];
}"""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A room with jobs, and one of all that is registered, made and done."""
    folder = tmp_path_factory.mktemp("whole")
    made = make_room(folder)
    shutil.copytree(made, folder / "served")
    with Server(folder / "served") as server:
        for batch in busy_day():
            assert server.report(batch).json() == {"taken": True}
        plan = {"name": "nightly", "dataset": DATASET, "trigger": "schedule", "day": "Monday", "at": "06:00"}
        measure = {"kind": "avoid-element", "storage_element": "root://se.gsi.example", "hours": "2", "why": "slow"}
        order = {"name": "spectra", "dataset": DATASET, "wagon": WAGONS[0], "workers": "1"}
        for action, fields in (("save-plan", plan), ("switch-on-measure", measure), ("order-train", order)):
            answer = server.do(action, **fields)
            assert answer.status == 200, answer.text
        assert server.do("order-train", **order).status == 200
        end_s = time.monotonic() + WAIT_S
        while not all(one["state"] == "finished" for one in server.get("/trains.json").json()["trains"]):
            assert time.monotonic() < end_s
            time.sleep(0.2)
        yield server


def filled(path: str, server: Server) -> str:
    """The address of something that there is."""
    if path.startswith("/jobs/{job}"):
        job = server.get("/jobs.json").json()["rows"][-1]["identity"]["job"]
        return path.replace("{job}", job)
    owner, name = {"/wagons": WAGONS[0], "/datasets": DATASET}.get(path.rpartition("/{owner}")[0], "/").split("/")
    if path.startswith("/plans/"):
        owner, name = server.get("/plans.json").json()["plans"][0]["kept"]["plan"]["owner"], "nightly"
    number = "2" if path.startswith("/trains") else "1"
    query = {"/new-train": f"?dataset={DATASET}", "/compare": f"?first={WAGONS[0]}&second={WAGONS[1]}"}.get(path, "")
    query = f"?subject=wagon&address={WAGONS[0]}" if path == "/moments" else query
    return path.replace("{owner}", owner).replace("{name}", name).replace("{number}", number) + query


# Those about people are in test_people.py: here somebody is alone.
PATHS = [one for one in PAGES if one not in ("/me", "/people")]
#: Tried on every change: the widest tables, forms, live pages and pages of a single thing.
SOME_PATHS = ["/jobs", "/jobs/{job}", "/sites", "/new-train", "/trains/{number}"]


@pytest.mark.parametrize(
    ("path", "width"),
    long_but(
        itertools.product(PATHS, [NARROW, WIDE]),
        [*itertools.product(SOME_PATHS, [NARROW]), *itertools.product(["/jobs", "/jobs/{job}"], [WIDE])],
    ),
)
def test_it_fits_and_is_used_without_a_mouse(
    viewer: Open, whole: Server, path: str, width: int, tmp_path: Path
) -> None:
    page = viewer(filled(path, whole), width, server=whole)
    check(page, width)
    # On paper there is no form and nothing is cut off.
    page.emulate_media(media="print")
    assert page.locator("form:visible, .no-print:visible").count() == 0
    assert page.locator("h1").is_visible()
    if width == WIDE:
        page.pdf(path=tmp_path / "paper.pdf")
        assert page.evaluate(CUT_OFF) == 0


def check(page: Page, width: int) -> None:
    """What holds for all of them."""
    # A page that a form led to may have its address, and not yet its style sheet.
    page.wait_for_load_state()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(TOO_WIDE) == []
    assert page.evaluate(NAMELESS) == []
    assert page.evaluate(NOT_SCROLLED) == []
    assert page.locator("h1").count() == 1
    places = []
    for _ in range(40):
        page.keyboard.press("Tab")
        place, is_seen = page.evaluate(FOCUSED)
        if place < 0:
            break
        assert is_seen
        places.append(place)
    assert places == sorted(places)
    assert len(places) > 5


@pytest.mark.parametrize("path", long_but(PATHS, SOME_PATHS))
def test_it_says_the_same_without_a_script(viewer: Open, whole: Server, path: str) -> None:
    address = filled(path, whole)
    page = viewer(address, NARROW, server=whole, java_script_enabled=False)
    assert page.locator("h1").is_visible()
    assert "This did not work" not in page.locator("h1").inner_text()
    # Buttons are in forms, which need no script, or do nothing without one and are not shown.
    lone = page.locator("button:not([form])").evaluate_all("all => all.filter(one => !one.form).length")
    assert lone == 0
