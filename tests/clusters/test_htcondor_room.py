"""A train that is ordered in the browser of a control room on the pool's machine, and runs on a real HTCondor."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.farm import Train, files_of, wait_until
from tests.clusters.htcondor import HTCondor
from tests.pages.conftest import NARROW, WIDE, Keep, browser, expect, picture  # noqa: F401 - fixtures
from tests.unit.control.web.server import Server

FILES = 3
TIMEOUT_S = 240
WAGON = """
import hist
import numpy as np


class Spectra:
    branches = ["px"]

    def process(self, events):
        px = np.asarray(events.px)
        histogram = hist.Hist.new.Reg(50, -5, 5, name="px").Weight()
        histogram.fill(px, weight=0.1)
        return {"px": histogram, "sum": float(np.sum(px)), "events": len(events)}
"""

# Making the pool's folder takes minutes, once.
pytestmark = pytest.mark.timeout(1800)


class PoolRoom:
    """A control room that the pool's user has alone, with a wagon that passed on a dataset."""

    def __init__(self, pool: HTCondor) -> None:
        self.folder = pool.folder / "control"
        self.folder.mkdir()
        Train(self.folder, FILES).make()
        pool.own(self.folder)
        self.server = Server(self.folder / "room", wrapped=lambda words: pool.inside(words, self.folder))
        self.server.do("upload", text=WAGON)
        self.owner = self.values("/grid")["wagons"][0]["owner"]
        self.server.do("save-dataset", name="events", files=str(self.folder / "data" / "*.root"))
        self.server.do("enable", wagon=f"{self.owner}/Spectra", dataset=f"{self.owner}/events", to="on")
        is_tried = lambda: self.values("/grid")["cells"][0][0]["state"] in ("done", "warned")  # noqa: E731
        wait_until(is_tried, "the trial", TIMEOUT_S)

    def values(self, page: str) -> Any:
        answer = self.server.get(f"{page}.json")
        assert answer.status == 200, answer.text
        return answer.json()

    def ended(self, number: int) -> Any:
        """The train once it has come to an end."""

        def over() -> Any:
            found = self.values(f"/trains/{number}")
            return found if found["train"]["state"] in ("finished", "partial", "failed", "cancelled") else None

        return wait_until(over, f"the end of train {number}", TIMEOUT_S)

    def results(self, number: int) -> Path:
        return self.folder / "room" / "trains" / str(number) / "spectra.train"

    def end(self) -> None:
        """Ends the server itself: what started it would leave it."""
        os.kill(int((self.folder / "room" / "control.lock").read_text()), signal.SIGTERM)
        self.server.process.communicate(timeout=280)


@pytest.fixture(scope="module")
def room(pool: HTCondor) -> Iterator[PoolRoom]:
    room = PoolRoom(pool)
    yield room
    room.end()


def test_a_train_goes_from_the_page_to_htcondor_and_its_results_come_back(
    room: PoolRoom,
    browser: Any,  # noqa: F811 - a fixture
    picture: Keep,  # noqa: F811 - a fixture
) -> None:
    complaints: list[str] = []
    page = browser.new_context(viewport={"width": WIDE, "height": 900}).new_page()
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(room.server.address)
    numbers = {}
    for place in ("here", "htcondor"):
        page.get_by_role("link", name="Trains").click()
        page.get_by_role("link", name="New train").click()
        page.get_by_label("Name", exact=True).fill("spectra")
        page.get_by_label("Place:", exact=False).fill(place)
        page.get_by_role("button", name="Run").click()
        # It appears by itself.
        expect(page.get_by_role("link", name="results.root")).to_be_visible(timeout=1000 * TIMEOUT_S)
        numbers[place] = int(page.url.rpartition("/")[2])
        assert room.ended(numbers[place])["train"]["state"] == "finished"
    picture(page, "operator-htcondor")
    page.set_viewport_size({"width": NARROW, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    here, there = (room.results(numbers[place]) for place in ("here", "htcondor"))
    assert files_of(there) == files_of(here)
    assert (there / "batch" / "submission").is_file()
    shown = room.values(f"/trains/{numbers['htcondor']}")
    assert shown["train"]["order"]["place"] == "htcondor"
    assert shown["failures"] == []
    # The submission and its jobs have reported to the room.
    jobs = [one for one in room.values("/jobs")["rows"] if one["identity"]["job"] == shown["job"]]
    assert [one["status"] for one in jobs] == ["finished"]
    assert complaints == []


def test_a_train_on_htcondor_is_cancelled_and_run_again_from_the_page(room: PoolRoom, pool: HTCondor) -> None:
    order = {"name": "spectra", "dataset": f"{room.owner}/events", "wagon": f"{room.owner}/Spectra"}
    # No job begins while it is cancelled.
    pool.call(["condor_off", "-startd", "-fast"], Path("/"), user="root")
    try:
        answer = room.server.do("order-train", place="htcondor", **order)
        number = int(answer.json()["page"].rpartition("/")[2])
        wait_until(lambda: (room.results(number) / "batch" / "submission").is_file(), "the submission", TIMEOUT_S)
        wait_until(lambda: pool.command("condor_q", "-af", "ClusterId").strip(), "the jobs", TIMEOUT_S)
        answer = room.server.do("cancel-train", number=str(number))
        assert answer.status == 200, answer.text
        assert room.values(f"/trains/{number}")["train"]["state"] == "cancelled"
        wait_until(lambda: not pool.command("condor_q", "-af", "ClusterId").strip(), "the end of the jobs", TIMEOUT_S)
    finally:
        pool.call(["condor_on", "-startd"], Path("/"), user="root")
    answer = room.server.do("run-again", number=str(number))
    assert answer.status == 200, answer.text
    assert room.ended(number)["train"]["state"] == "finished"
