"""Trains that are put together by forms of the control room, and run on a real Slurm or Dask."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.farm import Train, files_of, wait_until
from tests.clusters.slurm import Slurm
from tests.local_dask import local_cluster
from tests.pages.conftest import NARROW, WIDE, Keep, browser, expect, picture  # noqa: F401 - fixtures
from tests.unit.control.web.server import Server

FILES = 5
TIMEOUT_S = 180
WAGON = """
import os
import time
from pathlib import Path

import hist
import numpy as np


class Spectra:
    branches = ["px"]

    def __init__(self, folder: str = ""):
        self.folder = folder

    def process(self, events):
        while Path(self.folder, "closed").exists() and "SLURM_JOB_ID" in os.environ:
            time.sleep(0.05)
        if Path(self.folder, "broken").exists():
            raise ValueError("the calibration is gone")
        histogram = hist.Hist.new.Reg(50, -5, 5, name="px").Weight()
        px = np.asarray(events.px)
        histogram.fill(px, weight=0.1)
        return {"px": histogram, "sum": float(np.sum(px)), "events": len(events)}
"""


class Room:
    """A served control room whose wagon has passed on a dataset of five files, and has run here."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "gate").mkdir()
        Train(folder, FILES).make()
        self.server = Server(folder / "room")
        self.server.do("upload", text=WAGON)
        self.owner = self.values("/grid")["wagons"][0]["owner"]
        wagon = {"address": f"{self.owner}/Spectra", "value.folder": str(folder / "gate")}
        revision = str(self.values(f"/wagons/{self.owner}/Spectra")["wagon"]["revision"])
        self.done("save-wagon", **wagon, revision=revision)
        self.done("save-dataset", name="events", files=str(folder / "data" / "*.root"))
        self.done("enable", wagon=wagon["address"], dataset=f"{self.owner}/events", to="on")
        wait_until(lambda: self.values("/grid")["cells"][0][0]["state"] in ("done", "warned"), "the trial", TIMEOUT_S)
        self.here = self.ordered("here")
        assert self.ended(self.here)["state"] == "finished"

    def values(self, page: str) -> Any:
        """What a page shows."""
        answer = self.server.get(f"{page}.json")
        assert answer.status == 200, answer.text
        return answer.json()

    def done(self, action: str, **fields: str) -> str:
        """The page to which a form leads."""
        answer = self.server.do(action, **fields)
        assert answer.status == 200, answer.text
        return str(answer.json()["page"])

    def ordered(self, place: str, **fields: str) -> int:
        """The number of a train that was ordered."""
        order = {"name": "spectra", "dataset": f"{self.owner}/events", "wagon": f"{self.owner}/Spectra"}
        page = self.done("order-train", place=place, **{**order, **fields})
        return int(page.rpartition("/")[2])

    def train(self, number: int) -> Any:
        return self.values(f"/trains/{number}")["train"]

    def ended(self, number: int) -> Any:
        """The train once it has come to an end."""

        def over() -> Any:
            found = self.train(number)
            return found if found["state"] in ("finished", "partial", "failed", "cancelled") else None

        return wait_until(over, f"the end of train {number}", TIMEOUT_S)

    def results(self, number: int) -> Path:
        return self.folder / "room" / "trains" / str(number) / "spectra.train"

    def kill_and_start_again(self) -> None:
        """As a machine that loses its power, for a while."""
        self.server.end(signal.SIGKILL)
        self.server = Server(self.folder / "room", self.server.port)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, slurm: Slurm) -> Iterator[Room]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in slurm.environment.items():
            patch.setenv(name, value)
        room = Room(tmp_path_factory.mktemp("control"))
        yield room
        room.server.end()


@pytest.fixture
def room(made: Room, slurm: Slurm) -> Iterator[Room]:
    yield made
    for name in ("closed", "broken"):
        (made.folder / "gate" / name).unlink(missing_ok=True)
    wait_until(lambda: not slurm.command("squeue", "--noheader").strip(), "the end of all jobs", TIMEOUT_S)


def closed(room: Room) -> Path:
    """A gate at which wagons wait on Slurm."""
    gate = room.folder / "gate" / "closed"
    gate.touch()
    return gate


def begun(slurm: Slurm) -> None:
    wait_until(lambda: "RUNNING" in slurm.command("squeue", "--noheader", "--format=%T"), "the jobs", TIMEOUT_S)


def test_a_train_on_slurm_is_followed_to_the_results_of_this_machine(room: Room, slurm: Slurm) -> None:
    gate = closed(room)
    number = room.ordered("slurm")
    begun(slurm)
    running = room.values(f"/trains/{number}")
    assert running["train"]["state"] == "running"
    assert running["status"]["subjobs"] == FILES
    assert "sub-jobs done" in room.server.get(f"/trains/{number}", Accept="text/html").text
    gate.unlink()
    assert room.ended(number)["state"] == "finished"
    assert files_of(room.results(number)) == files_of(room.results(room.here))
    shown = room.values(f"/trains/{number}")
    assert "results.root" in shown["files"]
    assert shown["failures"] == []
    compared = room.values(f"/trains/{number}/compare")
    assert compared
    file = room.server.get(f"/trains/{number}/files/results.root")
    assert file.content == (room.results(number) / "results.root").read_bytes()
    jobs = room.values("/jobs")["rows"]
    [job] = [one for one in jobs if one["identity"]["job"] == shown["job"]]
    assert job["status"] == "finished"


def test_nothing_is_lost_when_the_server_is_killed_in_the_middle(room: Room, slurm: Slurm) -> None:
    gate = closed(room)
    number = room.ordered("slurm")
    begun(slurm)
    room.kill_and_start_again()
    assert room.train(number)["state"] == "running"
    gate.unlink()
    room.kill_and_start_again()
    assert room.ended(number)["state"] == "finished"
    assert files_of(room.results(number)) == files_of(room.results(room.here))
    assert room.values("/trains")["trains"][0]["number"] == number
    job = room.values(f"/trains/{number}")["job"]
    assert [one["identity"]["job"] for one in room.values("/jobs")["rows"]].count(job) == 1


def test_cancelling_ends_the_jobs_and_running_again_does_the_rest(room: Room, slurm: Slurm) -> None:
    gate = closed(room)
    number = room.ordered("slurm")
    begun(slurm)
    room.done("cancel-train", number=str(number))
    assert room.train(number)["state"] == "cancelled"
    wait_until(lambda: not slurm.command("squeue", "--noheader").strip(), "the end of the jobs", TIMEOUT_S)
    gate.unlink()
    room.done("run-again", number=str(number))
    assert room.ended(number)["state"] == "finished"
    assert files_of(room.results(number)) == files_of(room.results(room.here))


def test_failures_are_grouped_and_sent_again_when_their_cause_is_gone(room: Room, slurm: Slurm) -> None:
    gate = closed(room)
    lost = room.folder / "data" / "f02.root"
    number = room.ordered("slurm")
    begun(slurm)
    lost.rename(room.folder / "away.root")
    try:
        gate.unlink()
        assert room.ended(number)["state"] in ("failed", "partial")
    finally:
        (room.folder / "away.root").rename(lost)
    shown = room.values(f"/trains/{number}")
    [group] = shown["failures"]
    assert "f02.root" in group["example"]
    page = room.server.get(f"/trains/{number}", Accept="text/html").text
    assert "1: " in page.partition("<h2>Failures</h2>")[2]
    room.done("run-again", number=str(number))
    assert room.ended(number)["state"] == "finished"
    assert files_of(room.results(number)) == files_of(room.results(room.here))


def test_a_wagon_that_fails_is_named_and_runs_again_when_its_cause_is_gone(room: Room) -> None:
    (room.folder / "gate" / "broken").touch()
    number = room.ordered("slurm")
    assert room.ended(number)["state"] == "partial"
    [wagon] = room.values(f"/trains/{number}")["record"]["wagons"]
    assert wagon["error"]["message"] == "the calibration is gone"
    assert "the calibration is gone" in room.server.get(f"/trains/{number}", Accept="text/html").text
    (room.folder / "gate" / "broken").unlink()
    room.done("run-again", number=str(number))
    assert room.ended(number)["state"] == "finished"
    assert files_of(room.results(number)) == files_of(room.results(room.here))


def test_an_operator_goes_from_wagons_to_merged_results_on_slurm(
    room: Room,
    slurm: Slurm,
    browser: Any,  # noqa: F811 - a fixture
    picture: Keep,  # noqa: F811 - a fixture
) -> None:
    complaints: list[str] = []
    page = browser.new_context(viewport={"width": WIDE, "height": 900}).new_page()
    page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(room.server.address)
    page.get_by_role("link", name="Wagons and datasets").click()
    expect(page.get_by_role("link", name="done", exact=True)).to_be_visible()
    page.get_by_role("link", name="Trains").click()
    page.get_by_role("link", name="New train").click()
    page.get_by_label("Name", exact=True).fill("spectra")
    page.get_by_label("Place:", exact=False).fill("slurm")
    gate = closed(room)
    page.get_by_role("button", name="Run").click()
    expect(page.get_by_role("progressbar", name="sub-jobs done")).to_be_visible()
    expect(page.get_by_text("running", exact=False).first).to_be_visible()
    begun(slurm)
    picture(page, "operator-slurm-running")
    page.set_viewport_size({"width": NARROW, "height": 900})
    picture(page, "operator-slurm-running-narrow")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    gate.unlink()
    # It appears by itself.
    expect(page.get_by_role("link", name="results.root")).to_be_visible(timeout=1000 * TIMEOUT_S)
    picture(page, "operator-slurm-narrow")
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW
    page.set_viewport_size({"width": WIDE, "height": 900})
    picture(page, "operator-slurm")
    number = int(page.url.rpartition("/")[2])
    with page.expect_download() as download:
        page.get_by_role("link", name="results.root").click()
    assert Path(download.value.path()).read_bytes() == (room.results(number) / "results.root").read_bytes()
    assert files_of(room.results(number)) == files_of(room.results(room.here))
    page.get_by_role("link", name="Compare with an earlier run").click()
    expect(page.get_by_text("identical", exact=False).first).to_be_visible()
    assert complaints == []


def test_a_train_on_dask_has_the_results_of_this_machine(room: Room) -> None:
    with ExitStack() as stack:
        cluster = stack.enter_context(local_cluster(2, threads_per_worker=1, processes=True, dashboard_address=None))
        number = room.ordered(f"dask={cluster.scheduler_address}")
        assert room.ended(number)["state"] == "finished", room.values(f"/trains/{number}")["log"]
    assert files_of(room.results(number)) == files_of(room.results(room.here))
