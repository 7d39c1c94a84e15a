"""What somebody tries who has an account of a shared control room, or none, and means it ill."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.unit.web.server import Answer
from tests.unit.web.test_shared import PASSWORD, PEOPLE, SharedServer, people

from branchline.limits import LOGIN_PLACES_MAX, LOGIN_TRIES_MAX, LOGINS_AT_ONCE
from branchline.web.rates import Rates


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


def test_rates_count_names_that_came_too_late() -> None:
    rates = Rates(2, 10.0, lambda: 0.0)
    for number in range(LOGIN_PLACES_MAX):
        rates.add(str(number))
    assert not rates.is_over("late")
    rates.add("late")
    rates.add("later")
    assert rates.is_over("late")
    assert not rates.is_over("0")


def test_wrong_passwords_that_come_at_once_are_counted(server: SharedServer) -> None:
    def tried(number: int) -> int:
        return server.post("/login", {"name": "emmy", "password": f"wrong {number}"}).status

    with ThreadPoolExecutor(40) as threads:
        found = Counter(threads.map(tried, range(40)))
    assert set(found) == {401, 429}
    assert found[401] <= LOGIN_TRIES_MAX + LOGINS_AT_ONCE
