"""People log in to a shared control room by a real provider of OpenID Connect."""

from __future__ import annotations

import html
import re
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from tests.stores.servers import free_port
from tests.unit.control.web.openid.provider import CLIENT, PASSWORD, SECRET, WAIT_S, Provider
from tests.unit.control.web.test_shared import SharedServer, people, people_listed

PEOPLE = {"ada": ["admins", "alice"], "emmy": ["shifters"], "lise": ["alice"], "eve": ["cleaners"]}
SETTINGS = """
issuer = "{issuer}"
client_id = "{client}"
label = "the institute"
{secret}
[roles]
administrator = ["admins"]
operator = ["shifters"]
physicist = ["alice"]
"""


@dataclass
class Joined:
    """A control room and the provider that it is joined to."""

    server: SharedServer
    provider: Provider

    def browser(self) -> httpx.Client:
        return httpx.Client(follow_redirects=True, timeout=WAIT_S, headers={"Accept": "text/html"})

    def at_the_provider(self, browser: httpx.Client, wanted: str = "/sites?period=all") -> httpx.Response:
        """The page where the provider asks for the password."""
        page = browser.get(f"{self.server.base}{wanted}")
        [link] = re.findall(r'href="(/login/openid[^"]*)">Log in with the institute', page.text)
        asked = browser.get(f"{self.server.base}{html.unescape(link)}")
        assert asked.url.path == "/sign-in"
        return asked

    def log_in(self, browser: httpx.Client, name: str) -> httpx.Response:
        return sign_in(browser, self.at_the_provider(browser), name)


def sign_in(browser: httpx.Client, asked: httpx.Response, name: str) -> httpx.Response:
    """What the provider answers to the right password."""
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', asked.text)
    return browser.post(asked.url, data={"username": name, "password": PASSWORD, "csrfmiddlewaretoken": token})


def settings_file(folder: Path, issuer: str, *, public: bool = False, more: str = "") -> Path:
    secret = folder / "secret"
    secret.write_text(f"{SECRET}\n")
    secret.chmod(0o600)
    path = folder / "openid.toml"
    named = "" if public else 'client_secret_file = "secret"'
    path.write_text(SETTINGS.format(issuer=issuer, client=CLIENT, secret=named) + more)
    return path


def joined(folder: Path, *, public: bool = False, userinfo: bool = False, more: str = "") -> Iterator[Joined]:
    port = free_port()
    return_url = f"http://127.0.0.1:{port}/login/openid/back"
    with Provider(folder / "provider", return_url, PEOPLE, public=public, userinfo=userinfo) as provider:
        path = settings_file(folder, provider.issuer, public=public, more=more)
        # Nobody has a password: administrators are those of the provider.
        options = ["--shared", "--openid", str(path)]
        with SharedServer(folder / "room", port, options) as server:
            yield Joined(server, provider)


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Joined]:
    yield from joined(tmp_path_factory.mktemp("openid"))


def me(browser: httpx.Client, both: Joined) -> dict[str, object]:
    return browser.get(f"{both.server.base}/me.json").json()["person"]


def test_a_person_of_the_provider_is_let_in_with_their_role_and_groups(both: Joined) -> None:
    with both.browser() as browser:
        page = both.log_in(browser, "lise")
        assert (page.status_code, page.url.path, page.url.query) == (200, "/sites", b"period=all")
        assert me(browser, both) == {"name": "lise", "role": "physicist", "groups": ["alice"]}
        assert "logs in by" not in browser.get(f"{both.server.base}/me").text
        assert "You log in by http://localhost" in browser.get(f"{both.server.base}/me").text
        assert all("openid" not in name for name in browser.cookies), "secrets of the log-in are left"


def test_the_most_powerful_of_several_roles_holds(both: Joined) -> None:
    with both.browser() as browser:
        both.log_in(browser, "ada")
        assert me(browser, both) == {"name": "ada", "role": "administrator", "groups": ["admins", "alice"]}


def test_who_is_in_no_group_with_a_role_stays_out(both: Joined) -> None:
    with both.browser() as browser:
        page = both.log_in(browser, "eve")
        assert page.status_code == 401
        assert "You are logged in to the institute as eve, but in no group that may use this control room" in page.text
        assert browser.get(f"{both.server.base}/jobs").url.path == "/login"
    assert "eve" not in people_listed(both.server.folder)


def test_roles_and_groups_are_those_of_the_last_login(both: Joined) -> None:
    with both.browser() as first, both.browser() as second:
        both.log_in(first, "emmy")
        assert me(first, both)["role"] == "operator"
        both.provider.set_people(PEOPLE | {"emmy": ["alice", "no name!"]})
        try:
            both.log_in(second, "emmy")
        finally:
            both.provider.set_people(PEOPLE)
        assert me(second, both) == {"name": "emmy", "role": "physicist", "groups": ["alice"]}
        assert me(first, both)["role"] == "physicist", "an open session keeps its old rights"


def test_an_administrator_can_disable_them_and_change_nothing_else(both: Joined) -> None:
    server = both.server
    with both.browser() as admin, both.browser() as lise:
        both.log_in(admin, "ada")
        both.log_in(lise, "lise")
        assert "none: logs in by http://localhost" in admin.get(f"{server.base}/people").text
        own = {"name": "lise", "role": "physicist", "groups": "alice"}
        headers = {"Origin": server.base}
        change = f"{server.base}/do/change-person"
        refused = admin.post(change, data=own | {"role": "administrator"}, headers=headers)
        assert (refused.status_code, "change them there" in refused.text) == (403, True)
        with_password = admin.post(change, data=own | {"password": "correct horse battery"}, headers=headers)
        assert with_password.status_code == 403
        assert admin.post(change, data=own | {"disabled": "yes"}, headers=headers).status_code == 200
        assert lise.get(f"{server.base}/jobs").url.path == "/login", "the session goes on"
        with both.browser() as again:
            page = both.log_in(again, "lise")
            assert (page.status_code, "The account lise is disabled" in page.text) == (403, True)
        assert admin.post(change, data=own, headers=headers).status_code == 200
        with both.browser() as again:
            assert both.log_in(again, "lise").status_code == 200
    assert "lise: physicist, in alice, by http://localhost" in people_listed(server.folder)


def test_no_password_opens_the_account_of_somebody_of_the_provider(both: Joined) -> None:
    with both.browser() as browser:
        both.log_in(browser, "ada")
    for password in ("", PASSWORD):
        assert both.server.post("/login", {"name": "ada", "password": password}).status == 401
    assert people(both.server.folder, "change", "ada", "--password-stdin", password=PASSWORD).returncode == 1


def test_a_log_in_belongs_to_one_browser_and_is_taken_once(both: Joined) -> None:
    with both.browser() as theirs, both.browser() as mine:
        asked = both.at_the_provider(theirs)
        theirs.follow_redirects = False
        signed_in = sign_in(theirs, asked, "ada")
        answer = theirs.get(httpx.URL(both.provider.issuer).join(signed_in.headers["location"]))
        back = answer.headers["location"]
        assert back.startswith(f"{both.server.base}/login/openid/back?")
        stolen = mine.get(back)
        assert (stolen.status_code, "started in another browser" in stolen.text) == (401, True)
        changed = re.sub(r"state=(.)", lambda found: "state=" + ("a" if found[1] == "_" else "_"), back)
        assert changed != back
        assert theirs.get(changed).status_code == 401
        kept = dict(theirs.cookies)
        assert theirs.get(back).headers["location"] == "/sites?period=all"
        with both.browser() as again:
            again.cookies.update({name: value for name, value in kept.items() if name.startswith("branchline")})
            used = again.get(back)
            assert (used.status_code, "rejected the code" in used.text) == (401, True)


def test_a_cookie_of_a_log_in_is_for_this_server_alone(both: Joined) -> None:
    answer = both.server.page("/login/openid?next=//evil.example")
    assert answer.status == 303
    [cookie] = [answer.headers["set-cookie"].lower()]
    assert all(word in cookie for word in ("httponly", "samesite=lax", "max-age=600"))
    query = httpx.URL(answer.headers["location"]).params
    assert query["redirect_uri"] == f"{both.server.base}/login/openid/back"
    assert (query["response_type"], query["code_challenge_method"]) == ("code", "S256")
    others = both.server.page("/login/openid").headers["location"]
    assert {httpx.URL(others).params[one] == query[one] for one in ("state", "nonce", "code_challenge")} == {False}


def test_what_the_provider_refuses_is_said(both: Joined) -> None:
    begun = both.server.page("/login/openid")
    cookie = begun.headers["set-cookie"].partition(";")[0]
    state = httpx.URL(begun.headers["location"]).params["state"]
    refused = both.server.page(f"/login/openid/back?state={state}&error=access_denied", cookie)
    assert (refused.status, "The provider rejected the login: access_denied" in refused.text) == (401, True)
    strange = both.server.page(f"/login/openid/back?state={state}&error=%3Cscript%3E", cookie)
    assert (strange.status, "<script>" in strange.text) == (401, False)
    other = both.server.page(f"/login/openid/back?state={state}&code=x&iss=https://evil.example", cookie)
    assert (other.status, "another provider" in other.text) == (401, True)


@pytest.mark.parametrize("changed", ["-{}", "{}x", "{}.", "."])
def test_another_state_does_not_end_a_login_in_progress(both: Joined, changed: str) -> None:
    begun = both.server.page("/login/openid")
    cookie = begun.headers["set-cookie"].partition(";")[0]
    state = httpx.URL(begun.headers["location"]).params["state"]
    rejected = both.server.page(f"/login/openid/back?state={changed.format(state)}&code=x", cookie)
    assert (rejected.status, "set-cookie" in rejected.headers) == (401, False)


def test_groups_are_asked_for_where_the_token_has_none(tmp_path: Path) -> None:
    for both in joined(tmp_path, userinfo=True):
        with both.browser() as browser:
            both.log_in(browser, "ada")
            assert me(browser, both) == {"name": "ada", "role": "administrator", "groups": ["admins", "alice"]}


@pytest.mark.long
def test_a_public_client_needs_no_secret(tmp_path: Path) -> None:
    for both in joined(tmp_path, public=True):
        with both.browser() as browser:
            assert both.log_in(browser, "lise").status_code == 200


@pytest.mark.long
def test_a_provider_that_is_gone_is_told_on_the_page_and_in_the_log(tmp_path: Path) -> None:
    for both in joined(tmp_path):
        both.provider.process.kill()
        both.provider.process.wait(WAIT_S)
        for _ in range(3):
            page = both.server.page("/login/openid")
            assert page.status == 502
            assert "The provider cannot be reached at localhost" in page.text
            assert 'name="password"' in page.text
        code, said = both.server.end(signal.SIGTERM)
        assert (code, said.count("login through http://localhost")) == (0, 1)


@pytest.mark.long
def test_names_of_groups_can_be_ours(tmp_path: Path) -> None:
    for both in joined(tmp_path, more='[groups]\npwg-hf = ["alice", "x"]\npwg-em = ["y"]\n'):
        with both.browser() as browser:
            both.log_in(browser, "lise")
            assert me(browser, both)["groups"] == ["pwg-hf"]


@pytest.mark.long
def test_a_name_that_another_has_is_not_theirs(tmp_path: Path) -> None:
    done = people(tmp_path / "room", "add", "lise", "--password-stdin", password=PASSWORD)
    assert done.returncode == 0, done.stderr
    for both in joined(tmp_path):
        for _ in range(2):
            with both.browser() as browser:
                both.log_in(browser, "lise")
                assert me(browser, both)["name"] == "lise-2"
