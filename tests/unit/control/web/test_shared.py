"""A shared control room: people log in, have tokens of their own, and may do what their role allows."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlencode

import pytest
from tests.branchline_command import run_branchline
from tests.command_line import run_command
from tests.unit.control.batches import batch, identity
from tests.unit.control.web.server import Answer, Server

from branchline.control.web.login import own_path
from branchline.control.web.request_limits import RateLimit

PASSWORD = "correct horse battery"
#: Who is what.
PEOPLE = {"ada": "administrator", "emmy": "operator", "lise": "physicist"}


def people(folder: Path, *words: str, password: str = "") -> subprocess.CompletedProcess[str]:
    return run_branchline(folder.parent, ["people", *words[:2], folder, *words[2:]], typed=f"{password}\n")


def people_listed(folder: Path) -> str:
    ended = run_branchline(folder.parent, ["people", "list", folder])
    ended.check_returncode()
    return ended.stdout


class SharedServer(Server):
    """One that people log in to."""

    def post(self, path: str, fields: Mapping[str, str], cookie: str = "", **headers: str) -> Answer:
        body = urlencode(fields).encode()
        own = {"Content-Type": "application/x-www-form-urlencoded", "Origin": self.base, "Cookie": cookie, **headers}
        return self.ask(path, "POST", body, {"Host": f"127.0.0.1:{self.port}", **own})

    def logged_in(self, name: str, password: str = PASSWORD, wanted: str = "/jobs") -> str:
        """The cookie of somebody."""
        answer = self.post("/login", {"name": name, "password": password, "next": wanted})
        assert (answer.status, answer.headers["location"]) == (303, wanted)
        return answer.headers["set-cookie"].partition(";")[0]

    def page(self, path: str, cookie: str = "", **headers: str) -> Answer:
        return self.ask(path, "GET", None, {"Cookie": cookie, "Accept": "text/html", **headers})

    def token_of(self, cookie: str, scope: str) -> str:
        made = self.post(
            "/do/make-token", {"name": "t", "scope": scope, "days": "1"}, cookie, Accept="application/json"
        )
        return str(made.json()["secret"])


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    folder = tmp_path_factory.mktemp("shared") / "room"
    for name, role in PEOPLE.items():
        done = people(folder, "add", name, "--role", role, "--password-stdin", password=PASSWORD)
        assert done.returncode == 0, done.stderr
    with SharedServer(folder, options=["--shared"]) as server:
        yield server


def test_nobody_gets_in_without_an_account(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "branchline", "serve", str(tmp_path / "room"), "--port", "0", "--shared"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode != 0
    assert "branchline people add NAME --role administrator" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--host", "0.0.0.0"], "--shared"),
        (["--host", "0.0.0.0", "--shared"], "passwords would not be encrypted"),
        (["--shared", "--certificate", "c.pem"], "must be given together"),
        (["--shared", "--behind-proxy", "http://control.example.org"], "https://control.example.org"),
        (["--submit-as", "sudo -n -u {user} --"], "add --shared"),
        (["--shared", "--submit-as", "sudo -n --"], "does not contain {user}"),
        (["--shared", "--submit-as", "nothing-like-it {user}"], "the command nothing-like-it in --submit-as was not"),
        (["--shared", "--submit-as", "env {user}", "--submit-in", "/scratch"], "is the same folder for all users"),
        (["--shared", "--submit-as", "env {user}", "--submit-in", "/{user}/../x"], "is not a valid folder"),
        (["--shared", "--submit-in", "/scratch/{user}"], "add --submit-as"),
        (["--shared", "--train-memory", "much"], "much"),
        (["--keep-files", "100", "--keep-jobs", "10"], "at least as many as for files"),
    ],
)
def test_what_would_not_be_safe_is_refused(tmp_path: Path, options: list[str], said: str) -> None:
    done = run_command(["serve", str(tmp_path / "room"), "--port", "0", *options])
    assert done.exit_code != 0
    assert said in done.stderr


@pytest.mark.parametrize("data", [".", "room", "room/history"])
def test_data_for_code_of_others_is_apart_from_what_the_server_keeps(tmp_path: Path, data: str) -> None:
    """Else a wagon in its trial reads the database with the hashes of passwords and sessions."""
    room = tmp_path / "room"
    assert people(room, "add", "ada", "--role", "administrator", "--password-stdin", password=PASSWORD).returncode == 0
    words = ["--port", "0", "--shared", "--data", str(tmp_path / data)]
    command = [sys.executable, "-m", "branchline", "serve", str(room), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode != 0
    assert "user code could read" in done.stderr


def test_a_browser_is_led_to_the_login_and_back(server: SharedServer) -> None:
    led = server.page("/sites?period=all")
    assert (led.status, led.headers["location"]) == (303, "/login?next=%2Fsites%3Fperiod%3Dall")
    form = server.page(led.headers["location"])
    assert form.status == 200
    assert 'value="/sites?period=all"' in form.text
    cookie = server.logged_in("lise", wanted="/sites?period=all")
    assert server.page("/sites?period=all", cookie).status == 200
    assert server.page("/login").headers["cache-control"] == "no-store"
    assert server.ask("/jobs.json", "GET").status == 401
    answer = server.post("/login", {"name": "lise", "password": PASSWORD})
    flags = answer.headers["set-cookie"].lower()
    assert "httponly" in flags
    assert "samesite=lax" in flags


def test_a_session_ends_with_logging_out(server: SharedServer) -> None:
    cookie = server.logged_in("lise")
    assert server.page("/jobs", cookie).status == 200
    assert server.post("/logout", {}, cookie).status == 303
    assert server.page("/jobs", cookie).status == 303


@pytest.mark.parametrize("wanted", ["//evil.example", "https://evil.example", "/\\evil.example", "\n//x", "/login", ""])
def test_logging_in_leads_to_no_other_server(wanted: str) -> None:
    assert own_path(wanted) == "/"


def test_pages_of_other_sites_can_neither_log_in_nor_act(server: SharedServer) -> None:
    fields = {"name": "lise", "password": PASSWORD}
    for headers in ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "null"}):
        assert server.post("/login", fields, **headers).status == 403
        assert server.post("/do/try-again", {}, server.logged_in("lise"), **headers).status == 403
    assert server.ask("/login", "POST", b"", {"Host": "evil.example"}).status == 421


def test_only_administrators_manage_people(server: SharedServer) -> None:
    new = {"name": "eve", "role": "administrator", "password": PASSWORD}
    for name in ("emmy", "lise"):
        cookie = server.logged_in(name)
        assert server.page("/people", cookie).status == 403
        assert server.post("/do/add-person", new, cookie).status == 403
        assert server.post("/do/change-person", {"name": name, "role": "administrator"}, cookie).status == 403
    ada = server.logged_in("ada")
    assert server.post("/do/add-person", new | {"name": "max", "role": "physicist"}, ada).status == 303
    assert "max" in server.page("/people", ada).text
    max_cookie = server.logged_in("max")
    assert server.post("/do/change-person", {"name": "max", "role": "physicist", "disabled": "yes"}, ada).status == 303
    assert server.page("/jobs", max_cookie).status == 303
    assert server.post("/login", {"name": "max", "password": PASSWORD}).status == 401
    last = server.post("/do/change-person", {"name": "ada", "role": "physicist"}, ada)
    assert last.status == 409


def test_a_token_opens_what_its_scope_says_and_is_shown_once(server: SharedServer) -> None:
    cookie = server.logged_in("lise")
    assert server.post("/do/make-token", {"name": "shown", "scope": "read", "days": "1"}, cookie).status == 303
    secret = re.search(r"bl_[\w-]+", server.page("/new-token", cookie).text)
    assert secret is not None
    assert server.page("/new-token", cookie).status == 404
    assert secret[0] not in server.page("/me", cookie).text
    sent = batch(identity(), 0)
    for scope, reads, acts, reports in (("report", 403, 403, 200), ("read", 200, 403, 403), ("all", 200, 404, 200)):
        bearer = {"Authorization": f"Bearer {server.token_of(cookie, scope)}"}
        assert server.ask("/jobs.json", "GET", None, bearer).status == reads
        assert server.post("/do/try-again", {"wagon": "a/b", "dataset": "a/b"}, **bearer).status == acts
        answer = server.report(replace(sent, source=scope), bearer["Authorization"].removeprefix("Bearer "))
        assert answer.status == reports


def test_a_job_is_reported_by_one_person(server: SharedServer) -> None:
    lise, emmy = (server.token_of(server.logged_in(name), "report") for name in ("lise", "emmy"))
    who = identity()
    assert server.report(batch(who, 0), lise).status == 200
    stolen = server.report(batch(who, 1), emmy)
    assert (stolen.status, "another person reports this job" in stolen.text) == (400, True)
    assert server.report(batch(who, 1), lise).json()["taken"] is True


def test_what_belongs_to_others_stays_theirs(server: SharedServer) -> None:
    source = "class Count:\n    branches = ['px']\n    def process(self, events):\n        return {'n': len(events)}\n"
    lise, emmy = server.logged_in("lise"), server.logged_in("emmy")
    assert server.post("/do/upload", {"text": source, "path": "count.py"}, lise).status == 303
    theirs = {"text": source, "path": "count.py", "owner": "ada"}
    assert server.post("/do/upload", theirs, lise).status == 403
    assert server.post("/do/upload", theirs, emmy).status == 303
    assert server.post("/do/remove-wagon", {"address": "ada/Count"}, lise).status == 403
    assert server.post("/do/remove-wagon", {"address": "ada/Count"}, emmy).status == 303


def test_trains_are_refused_where_their_code_would_run_as_the_server(server: SharedServer) -> None:
    fields = {"name": "all", "dataset": "lise/data", "wagon": "lise/count"}
    for place, why in (("slurm", "served without --submit-as"), ("dask=tcp://127.0.0.1:1", "runs no trains on Dask")):
        order = {**fields, "place": place}
        answer = server.post("/do/order-train", order, server.logged_in("lise"), Accept="text/plain")
        assert (answer.status, why in answer.text) == (403, True)
    plan = {"name": "all", "dataset": "lise/data", "trigger": "schedule", "day": "Monday", "at": "06:00"}
    plan["place"] = "slurm"
    for name, why in (("lise", "lise may not change plans"), ("emmy", "served without --submit-as")):
        cookie = server.logged_in(name)
        answer = server.post("/do/save-plan", plan, cookie, Accept="text/plain")
        assert (answer.status, why in answer.text) == (403, True)
    for action in ("pause-plan", "remove-plan"):
        assert server.post(f"/do/{action}", {"address": "emmy/all"}, server.logged_in("lise")).status == 403


def test_names_and_passwords_are_no_code(server: SharedServer) -> None:
    for name in ("<script>alert(1)</script>", "' OR 1=1 --", "ada\0", "x" * 9000, "../../etc/passwd"):
        answer = server.post("/login", {"name": name, "password": "'; DROP TABLE people; --", "next": '"><script>'})
        assert answer.status in (401, 429), name
        assert "<script>" not in answer.text
    assert server.ask("/jobs.json", "GET").status == 401


def test_an_account_is_changed_beside_the_server_and_holds_at_once(server: SharedServer) -> None:
    folder = server.folder
    cookie = server.logged_in("emmy")
    assert people(folder, "change", "emmy", "--disable").returncode == 0
    assert server.page("/jobs", cookie).status == 303
    assert people(folder, "change", "emmy", "--enable").returncode == 0
    listed = people_listed(folder)
    assert "emmy: operator\n" in listed
    assert people(folder, "change", "ada", "--role", "physicist").returncode != 0
    assert PASSWORD not in listed


def test_wrong_passwords_have_to_wait(tmp_path: Path) -> None:
    words = ("add", "ada", "--role", "administrator", "--password-stdin")
    assert people(tmp_path / "room", *words, password=PASSWORD).returncode == 0
    with SharedServer(tmp_path / "room", options=["--shared"]) as server:
        for _ in range(10):
            assert server.post("/login", {"name": "ada", "password": "wrong"}).status == 401
        refused = server.post("/login", {"name": "ada", "password": PASSWORD})
        assert (refused.status, "too many wrong passwords" in refused.text) == (429, True)
        code, said = server.end()
        assert code == 0
        assert PASSWORD not in said


def test_rates_count_by_name_and_begin_anew() -> None:
    now_s = [0.0]
    rates = RateLimit(2, 10.0, lambda: now_s[0])
    assert [rates.add("a"), rates.add("a"), rates.add("a"), rates.add("b")] == [True, True, False, True]
    assert rates.is_over("a")
    now_s[0] = 11.0
    assert rates.add("a")
