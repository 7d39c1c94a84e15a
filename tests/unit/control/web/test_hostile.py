"""What somebody tries who has an account of a shared control room, or none, and means it ill."""

from __future__ import annotations

import http.client
import logging
import socket
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from tests.unit.control.web.server import WAIT_S, Answer, Server
from tests.unit.control.web.test_disk_troubles import serving_here
from tests.unit.control.web.test_shared import PASSWORD, PEOPLE, SharedServer, people

from branchline.base.limits import (
    LIVE_VIEWERS_OF_PERSON_MAX,
    LOG_LINES_MAX,
    LOG_SPAN_S,
    LOGIN_PLACES_MAX,
    LOGIN_TRIES_MAX,
    LOGINS_AT_ONCE,
    REQUEST_MAX_BYTES,
)
from branchline.control.accounts import READ, Account
from branchline.control.people import Person
from branchline.control.web import security
from branchline.control.web.request_limits import RateLimit
from branchline.control.web.server import BoundedLines


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedServer]:
    folder = tmp_path_factory.mktemp("hostile") / "room"
    for name, role in PEOPLE.items():
        done = people(folder, "add", name, "--role", role, "--password-stdin", password=PASSWORD)
        assert done.returncode == 0, done.stderr
    with SharedServer(folder, options=["--shared"]) as server:
        yield server
        code, said = server.end()
        assert (code, "Traceback" in said) == (0, False), said


class Stream:
    """The live events of an open page, while the block runs."""

    def __init__(self, server: SharedServer, cookie: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=WAIT_S)
        self._connection.request("GET", "/events", headers={"Cookie": cookie})
        self._answer = self._connection.getresponse()
        self.status = self._answer.status
        if self.status == 200:
            # It counts from its first line on.
            self._answer.readline()

    def ends(self) -> bool:
        """Waits for its end, which comes within the time that a connection waits."""
        while self._answer.readline():
            pass
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        self._answer.close()
        self._connection.close()


def form_in(server: SharedServer, charset: str, name: bytes, cookie: str = "", path: str = "/login") -> Answer:
    """A form that says in what its fields are."""
    body = b'--x\r\nContent-Disposition: form-data; name="name"\r\n\r\n' + name + b"\r\n--x--\r\n"
    headers = {"Host": f"127.0.0.1:{server.port}", "Origin": server.base, "Cookie": cookie}
    kind = f"multipart/form-data; boundary=x; charset={charset}"
    return server.ask(path, "POST", body, {**headers, "Content-Type": kind})


def test_a_token_for_reading_does_not_read_the_secrets_of_others_that_are_made(server: SharedServer) -> None:
    cookie = server.logged_in("lise")
    reading = {"Authorization": f"Bearer {server.token_of(cookie, 'read')}"}
    assert server.post("/do/make-token", {"name": "all", "scope": "all", "days": "1"}, cookie).status == 303
    for method in ("GET", "HEAD"):
        answer = server.ask("/new-token", method, None, reading)
        assert (answer.status, "bl_" in answer.text) == (403, False)
    assert "bl_" in server.page("/new-token", cookie).text


@pytest.mark.parametrize("charset", ["punycode", "idna", "unicode_escape", "utf-7", "hex"])
def test_a_form_in_another_encoding_is_refused(server: SharedServer, charset: str) -> None:
    assert form_in(server, charset, b"a-" + b"zb" * 1000).status == 415
    cookie = server.logged_in("lise")
    assert form_in(server, charset, b"a-" + b"zb" * 1000, cookie, "/do/save-dataset").status == 415
    assert form_in(server, "UTF-8", b"nobody").status in (401, 429)


def test_one_person_does_not_take_the_live_pages_of_the_others(server: SharedServer) -> None:
    """Each open page has a stream."""
    lise, emmy = server.logged_in("lise"), server.logged_in("emmy")
    with ExitStack() as streams:
        found = Counter(
            streams.enter_context(Stream(server, lise)).status for _ in range(LIVE_VIEWERS_OF_PERSON_MAX + 5)
        )
        assert found == {200: LIVE_VIEWERS_OF_PERSON_MAX, 503: 5}
        assert streams.enter_context(Stream(server, emmy)).status == 200


def test_live_pages_end_with_the_session_and_with_the_account(server: SharedServer) -> None:
    """Else who has left sees for as long as they like when something happens."""
    cookie = server.logged_in("lise")
    with Stream(server, cookie) as stream:
        assert server.post("/logout", {}, cookie).status == 303
        assert stream.ends()
    emmy = server.logged_in("emmy")
    with Stream(server, emmy) as stream:
        assert people(server.folder, "change", "emmy", "--disable").returncode == 0
        assert stream.ends()
    assert people(server.folder, "change", "emmy", "--enable").returncode == 0


def test_who_has_no_part_in_a_wagon_does_not_have_it_tried(server: SharedServer) -> None:
    """Each trial takes the machine for minutes, and others wait behind it."""
    source = "class Waits:\n    branches = ['px']\n    def process(self, events):\n        return {'n': len(events)}\n"
    for name, groups in (("max", "hf"), ("eva", "hf jets"), ("kim", "")):
        fields = {"name": name, "role": "physicist", "groups": groups, "password": PASSWORD}
        assert server.post("/do/add-person", fields, server.logged_in("ada")).status == 303
    maxs = server.logged_in("max")
    upload = {"text": source, "path": "waits.py", "group": "hf"}
    assert server.post("/do/upload", upload, maxs).status == 303
    assert server.post("/do/save-dataset", {"name": "events", "files": "/data/x.root"}, maxs).status == 303
    tried = {"wagon": "max/Waits", "dataset": "max/events"}
    for name, status in (("max", 303), ("eva", 303), ("emmy", 303), ("kim", 403), ("lise", 403)):
        answer = server.post("/do/try-again", tried, server.logged_in(name))
        assert answer.status == status, (name, answer.text)
        if status == 403:
            assert "may not repeat the trial of max/Waits on max/events" in answer.text
    # Of a dataset, whose train is tried.
    assert server.post("/do/try-again", {"dataset": "max/events"}, server.logged_in("kim")).status == 403


def test_requests_that_are_none_do_not_fill_the_log(tmp_path: Path) -> None:
    with Server(tmp_path / "room") as server:
        for _ in range(100):
            with socket.create_connection(("127.0.0.1", server.port)) as connection:
                connection.sendall(b"\0\r\n\r\n")
                assert b" 400 " in connection.recv(100)
        code, said = server.end()
    assert (code, len(said.splitlines())) == (0, LOG_LINES_MAX)


def test_the_log_says_how_much_it_left_out() -> None:
    now_s = [0.0]
    lines = BoundedLines(lambda: now_s[0])
    record = logging.LogRecord("x", logging.WARNING, "", 0, "wrong %s", ("thing",), None)
    assert [lines.filter(record) for _ in range(LOG_LINES_MAX + 3)] == [True] * LOG_LINES_MAX + [False] * 3
    assert record.getMessage() == "wrong thing"
    now_s[0] = LOG_SPAN_S + 1.0
    assert lines.filter(record)
    assert record.getMessage() == "wrong thing (3 earlier messages were dropped)"


def test_strangers_do_not_take_the_memory_of_the_bodies_of_jobs(server: SharedServer) -> None:
    own = {"Host": f"127.0.0.1:{server.port}", "Origin": server.base, "Content-Type": "multipart/form-data; boundary=x"}
    for length in ({"Content-Length": str(REQUEST_MAX_BYTES)}, {"Transfer-Encoding": "chunked"}):
        # No body follows: an answer that waits for it would never come.
        assert server.ask("/login", "POST", None, {**own, **length}).status == 413
    assert server.post("/login", {"name": "lise", "password": PASSWORD}).status in (303, 429)


def test_rates_count_names_that_came_too_late() -> None:
    rates = RateLimit(2, 10.0, lambda: 0.0)
    for number in range(LOGIN_PLACES_MAX):
        rates.add(str(number))
    assert not rates.is_over("late")
    rates.add("late")
    rates.add("later")
    assert rates.is_over("late")
    assert not rates.is_over("0")


def test_who_asks_too_often_has_to_wait_and_others_have_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security, "REQUESTS_PER_MINUTE_MAX", 5)
    with serving_here(tmp_path / "room", is_shared=True) as served:

        def asked(name: str) -> Callable[[], http.client.HTTPResponse]:
            served.room.accounts.add(Account(name), PASSWORD, "ada")
            secret = served.room.accounts.make_token(Person(name), "script", READ, 1)

            def ask() -> http.client.HTTPResponse:
                with closing(http.client.HTTPConnection("127.0.0.1", served.port, timeout=WAIT_S)) as connection:
                    connection.request("GET", "/jobs.json", headers={"Authorization": f"Bearer {secret}"})
                    answer = connection.getresponse()
                    answer.read()
                    return answer

            return ask

        lise, max_ = asked("lise"), asked("max")
        answers = [lise() for _ in range(7)]
        assert [one.status for one in answers] == [200] * 5 + [429] * 2
        assert int(answers[-1].headers["Retry-After"]) > 0
        assert max_().status == 200


def test_a_session_does_not_try_passwords(server: SharedServer) -> None:
    cookie = server.logged_in("lise")
    new = {"password": "another long password", "again": "another long password"}

    def changed(old: str) -> int:
        return server.post("/do/change-password", {"old": old, **new}, cookie, Accept="text/plain").status

    with ThreadPoolExecutor(30) as threads:
        found = Counter(threads.map(changed, [f"wrong {number}" for number in range(30)]))
    assert set(found) == {400, 429}
    assert found[400] <= LOGIN_TRIES_MAX + LOGINS_AT_ONCE
    assert changed(PASSWORD) == 429


def test_a_password_is_changed_by_who_knows_it(server: SharedServer) -> None:
    cookie = server.logged_in("ada")
    for old, new, again, status in (
        ("wrong password", "a new long password", "a new long password", 400),
        (PASSWORD, "a new long password", "another long password", 400),
        (PASSWORD, "short", "short", 400),
        (PASSWORD, "a new long password", "a new long password", 303),
    ):
        fields = {"old": old, "password": new, "again": again}
        assert server.post("/do/change-password", fields, cookie, Accept="text/plain").status == status
    assert server.page("/jobs", cookie).status == 303
    server.logged_in("ada", "a new long password")


def test_wrong_passwords_that_come_at_once_are_counted(server: SharedServer) -> None:
    def tried(number: int) -> int:
        return server.post("/login", {"name": "emmy", "password": f"wrong {number}"}).status

    with ThreadPoolExecutor(40) as threads:
        found = Counter(threads.map(tried, range(40)))
    assert set(found) == {401, 429}
    assert found[401] <= LOGIN_TRIES_MAX + LOGINS_AT_ONCE
