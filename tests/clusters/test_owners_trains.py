"""Trains of a shared control room on a real Slurm: they run as the Unix user of their owner, who is a real one."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.clusters.event_files import write_events
from tests.clusters.farm import wait_until
from tests.clusters.slurm import Slurm
from tests.stores.servers import program
from tests.unit.control.trials.test_excess import sandbox
from tests.unit.control.web.test_shared import PASSWORD, SharedServer, people

FILES = 3
TIMEOUT_S = 180
SUBMIT_AS = f"{program('setpriv')} --reuid={{user}} --regid={{user}} --init-groups"
WAGON = """
import os
import time
from pathlib import Path

import numpy as np

SECRETS = %r
GATE = %r


class Spectra:
    branches = ["px"]

    def process(self, events):
        found = {"n": len(events)}
        if "SLURM_JOB_ID" in os.environ:
            while Path(GATE, "closed").exists():
                time.sleep(0.05)
            found[f"uid {os.getuid()} {os.geteuid()}"] = len(events)
            for name, path in SECRETS.items():
                try:
                    os.listdir(path) if os.path.isdir(path) else open(path).read()
                    found[f"reads {name}"] = len(events)
                except OSError:
                    pass
        for name in os.environ:
            if "SECRET" in name:
                found["has the environment of the server"] = 1
        return found
"""


def made_user(name: str, home: Path) -> pwd.struct_passwd:
    """A user of this machine, with a home that others cannot look into."""
    subprocess.run([program("useradd"), "--no-create-home", "--home-dir", str(home), name], check=True)
    user = pwd.getpwnam(name)
    home.mkdir(mode=0o700)
    os.chown(home, user.pw_uid, user.pw_gid)
    return user


@contextmanager
def entered_by_all(place: Path) -> Iterator[None]:
    """Lets other users go through the folders above a place, as the home of root in which an interpreter may lie."""
    closed = [(one, one.stat().st_mode) for one in place.parents if not one.stat().st_mode & 0o001]
    for one, mode in closed:
        one.chmod(mode | 0o001)
    try:
        yield
    finally:
        for one, mode in closed:
            one.chmod(mode)


@dataclass
class Shared:
    """A room in which ada and bob have Unix users, and lise has none."""

    folder: Path
    server: SharedServer
    ada: pwd.struct_passwd
    bob: pwd.struct_passwd
    cookies: dict[str, str]

    def post(self, who: str, action: str, **fields: str) -> Any:
        """What a form of somebody leads to, or the sentence that refuses it."""
        answer = self.server.post(f"/do/{action}", fields, self.cookies[who], Accept="application/json")
        if answer.status != 200:
            return f"{answer.status}: {answer.text}"
        return answer.json()["page"]

    def values(self, page: str, who: str = "ada") -> Any:
        """What a page shows."""
        answer = self.server.page(f"{page}.json", self.cookies[who])
        assert answer.status == 200, answer.text
        return answer.json()

    def ordered(self, who: str = "ada", place: str = "slurm", **fields: str) -> int:
        """The number of a train."""
        order = {"name": "spectra", "dataset": "ada/events", "wagon": "ada/Spectra", "place": place}
        page = self.post(who, "order-train", **{**order, **fields})
        assert page.startswith("/trains/"), page
        return int(page.rpartition("/")[2])

    def ended(self, number: int) -> Any:
        """A train once it has come to its end."""

        def over() -> Any:
            found = self.values(f"/trains/{number}")
            return found if found["train"]["state"] in ("finished", "partial", "failed", "cancelled") else None

        return wait_until(over, f"the end of train {number}", TIMEOUT_S)

    def owners_folder(self, number: int) -> Path:
        """Where the train is, of whoever ordered it."""
        [found] = Path(self.ada.pw_dir).glob(f"branchline-trains/*/{number}")
        return found


@pytest.fixture(scope="module")
def shared(slurm: Slurm) -> Iterator[Shared]:
    if os.geteuid() != 0:
        pytest.skip("only root can become another user without a password")
    sandbox()
    # Not in the temporary folder of pytest, which other users cannot enter.
    folder = Path(tempfile.mkdtemp(prefix="branchline-owners-"))
    folder.chmod(0o755)
    names = [f"bl{uuid.uuid4().hex[:8]}" for _ in range(2)]
    with pytest.MonkeyPatch.context() as patch, entered_by_all(Path(sys.base_prefix)):
        for name, value in slurm.environment.items():
            patch.setenv(name, value)
        patch.setenv("OTEL_SECRET", "of the server")
        users = [made_user(name, folder / name) for name in names]
        try:
            yield from served(folder, *users)
        finally:
            slurm.command("scancel", "--full", "--user=" + names[0])
            wait_until(lambda: not slurm.command("squeue", "--noheader").strip(), "the end of all jobs", TIMEOUT_S)
            for name in names:
                subprocess.run([program("userdel"), name], check=True)
            shutil.rmtree(folder, ignore_errors=True)


def served(folder: Path, ada: pwd.struct_passwd, bob: pwd.struct_passwd) -> Iterator[Shared]:
    for name in ("data", "gate"):
        (folder / name).mkdir(mode=0o755)
    write_events(folder / "data", FILES, 600_000)
    secret = Path(bob.pw_dir) / "thesis.txt"
    secret.write_text("nobody has read this yet")
    os.chown(secret, bob.pw_uid, bob.pw_gid)
    room = folder / "room"
    for name, role in (("ada", "physicist"), ("bob", "operator"), ("lise", "administrator")):
        done = people(room, "add", name, "--role", role, "--password-stdin", password=PASSWORD)
        assert done.returncode == 0, done.stderr
    assert people(room, "change", "ada", "--unix-user", ada.pw_name).returncode == 0
    room.chmod(0o700)
    options = ["--shared", "--data", str(folder / "data"), "--submit-as", SUBMIT_AS]
    with SharedServer(room, options=options) as server:
        cookies = {name: server.logged_in(name) for name in ("ada", "bob", "lise")}
        shared = Shared(folder, server, ada, bob, cookies)
        secrets = {"the files of bob": str(secret), "the room": str(room), "the database": str(room / "control.sqlite")}
        assert shared.post("ada", "upload", text=WAGON % (secrets, str(folder / "gate"))) == "/wagons/ada/Spectra"
        files = {"files": f"{folder}/data/*.root", "short": f"{folder}/data/*.root"}
        shared.post("ada", "save-dataset", name="events", **files)
        shared.post("ada", "enable", wagon="ada/Spectra", dataset="ada/events", to="on")
        is_tried = lambda: shared.values("/grid")["cells"][0][0]["state"] in ("done", "warned")  # noqa: E731
        wait_until(is_tried, "the trial", TIMEOUT_S)
        yield shared


def numbers_of(shared: Shared, number: int) -> dict[str, Any]:
    """The numbers that a train has found, from the files that the control room gives."""
    names = [one for one in shared.values(f"/trains/{number}")["files"] if one.endswith(".json")]
    found: dict[str, Any] = {}
    for name in names:
        answer = shared.server.page(f"/trains/{number}/files/{name}", shared.cookies["ada"])
        assert answer.status == 200, name
        found[name] = answer.json()
    return found


def test_a_train_runs_as_its_owner_and_reads_what_the_owner_may(shared: Shared) -> None:
    number = shared.ordered()
    shown = shared.ended(number)
    assert shown["train"]["state"] == "finished", (shown["train"]["why"], shown["log"])
    text = json.dumps(numbers_of(shared, number))
    assert f"uid {shared.ada.pw_uid} {shared.ada.pw_uid}" in text
    assert "reads " not in text
    assert "has the environment" not in text
    assert str(FILES * 600_000) in text
    # It lies in a folder of ada's that nobody else reads, and the room has files of its own.
    place = shared.owners_folder(number)
    assert (place.stat().st_uid, place.stat().st_mode & 0o777) == (shared.ada.pw_uid, 0o700)
    assert {one.stat().st_uid for one in place.rglob("*")} == {shared.ada.pw_uid}
    results = shared.folder / "room" / "trains" / str(number) / "spectra.train"
    assert {one.lstat().st_uid for one in results.rglob("*")} == {0}
    assert not (results / "batch").exists()
    # The same as in the sandbox here, but for what only jobs of Slurm find.
    here = shared.ended(shared.ordered(place="here"))
    assert here["train"]["state"] == "finished", here
    assert shown["status"]["events"] == here["status"]["events"] == FILES * 600_000
    jobs = [one for one in shared.values("/jobs")["rows"] if one["identity"]["name"] == "spectra"]
    assert {(one["identity"]["place"], one["status"], one["events"]) for one in jobs} == {
        ("slurm", "finished", FILES * 600_000),
        ("here", "finished", FILES * 600_000),
    }
    assert {one["identity"]["user"] for one in jobs} == {"ada"}
    places = {one["identity"]["job"]: one["identity"]["place"] for one in jobs}
    assert (places[shared.values(f"/trains/{number}")["job"]], places[here["job"]]) == ("slurm", "here")
    total = shared.values("/sites")["table"]["total"]
    # Each sub-job reads a part of one file, which a worker opens once for all its parts.
    parts = shown["status"]["subjobs"] + here["status"]["subjobs"]
    assert total["jobs"] == 2
    assert 2 * FILES <= total["every"]["files"] <= parts


def test_cancelling_ends_the_jobs_and_running_again_does_the_rest(shared: Shared, slurm: Slurm) -> None:
    gate = shared.folder / "gate" / "closed"
    gate.touch()
    number = shared.ordered()
    try:
        listed = lambda: slurm.command("squeue", "--noheader", "--format=%T %u")  # noqa: E731
        wait_until(lambda: f"RUNNING {shared.ada.pw_name}" in listed(), "the jobs", TIMEOUT_S)
        status = wait_until(lambda: shared.values(f"/trains/{number}")["status"], "the state", TIMEOUT_S)
        assert isinstance(status, dict)
        assert status["subjobs"] >= FILES
        assert shared.post("bob", "cancel-train", number=str(number)) == f"/trains/{number}"
        wait_until(lambda: not listed().strip(), "the end of the jobs", TIMEOUT_S)
    finally:
        gate.unlink()
    assert shared.values(f"/trains/{number}")["train"]["state"] == "cancelled"
    shared.post("ada", "run-again", number=str(number))
    assert shared.ended(number)["train"]["state"] == "finished"
    assert f"uid {shared.ada.pw_uid}" in json.dumps(numbers_of(shared, number))
    # The same job, which has read each file once.
    out = str(shared.folder / "room" / "trains" / str(number) / "spectra.train")
    [job] = [one for one in shared.values("/jobs")["rows"] if one["identity"]["out"] == out]
    assert (job["status"], job["events"]) == ("finished", FILES * 600_000)


def test_results_that_the_owner_makes_links_to_others_are_not_taken(shared: Shared, slurm: Slurm) -> None:
    """The process that reads them has the rights of the owner; the server opens none of them."""
    gate = shared.folder / "gate" / "closed"
    gate.touch()
    number = shared.ordered()
    try:
        listed = lambda: slurm.command("squeue", "--noheader", "--format=%T %u")  # noqa: E731
        wait_until(lambda: "RUNNING" in listed(), "the jobs", TIMEOUT_S)
        out = shared.owners_folder(number) / "spectra.train"
        record = json.loads((out / "job.json").read_text()) if (out / "job.json").exists() else None
        assert record is not None
        shared.post("ada", "cancel-train", number=str(number))
        wait_until(lambda: not listed().strip(), "the end of the jobs", TIMEOUT_S)
        shared.post("ada", "run-again", number=str(number))
        (out / "link.json").symlink_to(shared.folder / "room" / "control.sqlite")
    finally:
        gate.unlink()
    assert shared.ended(number)["train"]["state"] == "finished"
    results = shared.folder / "room" / "trains" / str(number) / "spectra.train"
    assert not any(one.is_symlink() for one in results.rglob("*"))


@pytest.mark.parametrize(
    ("who", "fields", "why"),
    [
        ("bob", {}, "bob has no Unix user"),
        ("bob", {"owner": "ada"}, "only ada can order it"),
        ("lise", {}, "--unix-user NAME"),
        ("ada", {"owner": "bob"}, "may not change entries of bob"),
        ("ada", {"place": "dask=tcp://127.0.0.1:1"}, "one user"),
    ],
)
def test_no_train_runs_as_another_or_as_nobody(shared: Shared, who: str, fields: dict[str, str], why: str) -> None:
    order = {"name": "spectra", "dataset": "ada/events", "wagon": "ada/Spectra", "place": "slurm", **fields}
    answer = shared.post(who, "order-train", **order)
    assert answer.startswith("403"), answer
    assert why in answer


@pytest.mark.parametrize("name", ["root", "Ada", "nobody2", "-x", "ada;id", "$(id)", "0", "../root", "a b"])
def test_unix_users_that_cannot_be_are_refused(shared: Shared, name: str) -> None:
    answer = shared.post("lise", "change-person", name="ada", role="physicist", unix_user=name)
    assert answer.startswith("400"), answer
    done = people(shared.folder / "room", "change", "ada", f"--unix-user={name}")
    assert done.returncode != 0
    assert shared.ada.pw_name in people_of(shared)


def test_only_administrators_say_who_is_which_user(shared: Shared) -> None:
    for who in ("ada", "bob"):
        answer = shared.post(who, "change-person", name=who, role="physicist", unix_user=shared.bob.pw_name)
        assert answer.startswith("403"), answer
    # A form without the field leaves it as it is.
    assert shared.post("lise", "change-person", name="ada", role="physicist") == "/people"
    assert shared.ada.pw_name in people_of(shared)


def people_of(shared: Shared) -> str:
    command = [sys.executable, "-m", "branchline", "people", "list", str(shared.folder / "room")]
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=True).stdout


@pytest.mark.parametrize(
    ("submit_as", "said"),
    [
        ("env X={user}", "did not"),
        (f"{program('setpriv')} --reuid={{user}} --keep-groups", "did not"),
        (f"{program('setpriv')} --reuid=nobody --regid={{user}} --init-groups", "did not"),
        ("false {user}", "did not"),
    ],
)
def test_a_command_that_does_not_become_the_user_runs_no_code(
    shared: Shared, tmp_path: Path, submit_as: str, said: str
) -> None:
    room = tmp_path / "room"
    copied = shared.folder / "room"
    ignored = shutil.ignore_patterns("control.lock", "trains")
    shutil.copytree(copied, room, ignore=ignored)
    options = ["--shared", "--data", str(shared.folder / "data"), "--submit-as", submit_as]
    with SharedServer(room, options=options) as server:
        other = Shared(shared.folder, server, shared.ada, shared.bob, {"ada": server.logged_in("ada")})
        train = other.ended(other.ordered())["train"]
        assert train["state"] == "failed"
        assert said in train["why"], train["why"]
