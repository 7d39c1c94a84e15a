"""Trains of a shared control room on a real HTCondor: its server is an unprivileged user, and becomes the Unix users of
owners by sudo.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.event_files import write_events
from tests.clusters.farm import wait_until
from tests.clusters.htcondor import USER, USER_NUMBER, HTCondor
from tests.unit.control.web.test_shared import PASSWORD, SharedServer

FILES, EVENTS = 3, 300_000
TIMEOUT_S = 240
SERVER_USER, SERVER_NUMBER = "control", 20_002
WAGON = """
import os


class Count:
    branches = ["px"]

    def process(self, events):
        found = {"n": len(events), f"uid {os.getuid()} {os.geteuid()}": len(events)}
        try:
            open(%r).close()
            found["reads the room"] = len(events)
        except OSError:
            pass
        return found
"""

# Making the pool's folder takes minutes, once.
pytestmark = pytest.mark.timeout(1800)


class SharedPool:
    """A control room of the user ``control`` on the pool's machine, in which ada has the pool's user."""

    def __init__(self, pool: HTCondor) -> None:
        self._pool = pool
        pool.add_user(SERVER_USER, SERVER_NUMBER)
        pool.write("etc/sudoers.d/control", f"{SERVER_USER} ALL=({USER}) NOPASSWD: ALL\n", 0o440)
        self.folder = pool.folder / "shared"
        self.folder.mkdir(mode=0o755)
        data = self.folder / "data"
        data.mkdir(mode=0o755)
        write_events(data, FILES, EVENTS)
        self.room = self.folder / "room"
        self.room.mkdir(mode=0o700)
        os.chown(self.room, SERVER_NUMBER, SERVER_NUMBER)
        self._people("add", "ada", "--role", "administrator", "--password-stdin")
        self._people("change", "ada", "--unix-user", USER)
        options = ["--shared", "--data", str(data), "--submit-as", "sudo -n -u {user} --"]
        self.server = SharedServer(self.room, options=options, wrapped=lambda words: self._inside(words))
        self._cookie = self.server.logged_in("ada")
        self.post("upload", text=WAGON % str(self.room / "control.sqlite"))
        files = {"files": f"{data}/*.root", "short": f"{data}/*.root"}
        self.post("save-dataset", name="events", **files)
        self.post("enable", wagon="ada/Count", dataset="ada/events", to="on")
        tried = lambda: self.values("/grid")["cells"][0][0]["state"]  # noqa: E731
        wait_until(lambda: tried() not in ("queued", "running", ""), "the trial", TIMEOUT_S)
        assert tried() in ("done", "warned"), self.values("/grid")

    def _inside(self, words: list[str]) -> list[str]:
        return self._pool.inside(words, self.folder, SERVER_USER)

    def _people(self, *words: str) -> None:
        command = [sys.executable, "-m", "branchline", "people", *words[:2], str(self.room), *words[2:]]
        done = subprocess.run(
            self._inside(command), input=f"{PASSWORD}\n", capture_output=True, text=True, timeout=280, check=False
        )
        assert done.returncode == 0, done.stderr

    def post(self, action: str, **fields: str) -> str:
        """What a form leads to."""
        answer = self.server.post(f"/do/{action}", fields, self._cookie, Accept="application/json")
        assert answer.status == 200, answer.text
        return str(answer.json()["page"])

    def values(self, page: str) -> Any:
        """What a page shows."""
        answer = self.server.page(f"{page}.json", self._cookie)
        assert answer.status == 200, answer.text
        return answer.json()

    def ordered(self, place: str) -> int:
        """The number of a train."""
        return int(
            self.post("order-train", name="count", dataset="ada/events", wagon="ada/Count", place=place).rpartition(
                "/"
            )[2]
        )

    def ended(self, number: int) -> Any:
        """A train once it has come to its end."""

        def over() -> Any:
            found = self.values(f"/trains/{number}")
            return found if found["train"]["state"] in ("finished", "partial", "failed", "cancelled") else None

        return wait_until(over, f"the end of train {number}", TIMEOUT_S)

    def numbers(self, number: int) -> str:
        """The numbers that a train has found, as text."""
        names = [one for one in self.values(f"/trains/{number}")["files"] if one.endswith(".json")]
        return json.dumps(
            [self.server.page(f"/trains/{number}/files/{name}", self._cookie).json() for name in sorted(names)]
        )

    def end(self) -> None:
        """Ends the server itself: what started it would leave it."""
        os.kill(int((self.room / "control.lock").read_text()), signal.SIGTERM)
        self.server.process.communicate(timeout=280)


@pytest.fixture(scope="module")
def shared(pool: HTCondor) -> Iterator[SharedPool]:
    shared = SharedPool(pool)
    yield shared
    shared.end()


def test_a_train_runs_on_htcondor_as_its_owner_and_is_a_job_of_the_room(shared: SharedPool) -> None:
    there, here = shared.ordered("htcondor"), shared.ordered("here")
    for number in (there, here):
        shown = shared.ended(number)
        assert shown["train"]["state"] == "finished", (shown["train"]["why"], shown["log"])
        assert shown["status"]["events"] == FILES * EVENTS
    assert f"uid {USER_NUMBER} {USER_NUMBER}" in shared.numbers(there)
    assert "reads the room" not in shared.numbers(there) + shared.numbers(here)
    jobs = shared.values("/jobs")["rows"]
    assert {(one["identity"]["place"], one["identity"]["user"], one["status"]) for one in jobs} == {
        ("htcondor", "ada", "finished"),
        ("here", "ada", "finished"),
    }


def test_a_train_on_htcondor_is_cancelled_by_its_owner_and_run_again(shared: SharedPool, pool: HTCondor) -> None:
    queued = lambda: pool.command("condor_q", "-allusers", "-af", "ClusterId").strip()  # noqa: E731
    # No job begins while it is cancelled.
    pool.call(["condor_off", "-startd", "-fast"], Path("/"), user="root")
    try:
        number = shared.ordered("htcondor")
        wait_until(queued, "the jobs", TIMEOUT_S)
        shared.post("cancel-train", number=str(number))
        wait_until(lambda: not queued(), "the end of the jobs", TIMEOUT_S)
    finally:
        pool.call(["condor_on", "-startd"], Path("/"), user="root")
    assert shared.values(f"/trains/{number}")["train"]["state"] == "cancelled"
    shared.post("run-again", number=str(number))
    assert shared.ended(number)["train"]["state"] == "finished"
