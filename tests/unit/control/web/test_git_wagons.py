"""Wagons whose source is in git, by the forms of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.control.registry.git_server import GitServer
from tests.unit.control.registry.test_git_sources import FIRST, SECOND
from tests.unit.control.web.server import Server
from tests.unit.control.web.test_shared import PASSWORD, SharedServer, people


@pytest.fixture(scope="module")
def git(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GitServer]:
    with GitServer(tmp_path_factory.mktemp("git")) as server:
        yield server


def test_a_wagon_is_taken_from_git_and_renewed(git: GitServer, tmp_path: Path) -> None:
    first = git.commit({"wagons/count.py": FIRST})
    with Server(tmp_path / "room") as server:
        taken = server.do("upload", repository=git.url, path="wagons/count.py", ref="main")
        assert taken.status == 200, taken.text
        page = taken.json()["page"]
        shown = server.get(f"{page}.json").json()["wagon"]
        source = shown["entry"]["source"]
        assert (source["repository"], source["commit"], source["path"]) == (git.url, first, "wagons/count.py")
        assert first in server.get(page, Accept="text/html").text
        second = git.commit({"wagons/count.py": SECOND})
        given = {"address": page.removeprefix("/wagons/"), "revision": str(shown["revision"]), "ref": "main"}
        assert server.do("renew-wagon", **given).status == 200
        renewed = server.get(f"{page}.json").json()
        assert renewed["wagon"]["entry"]["source"]["commit"] == second
        assert "2 * len(events)" in renewed["text"]
        changes = len(renewed["changes"])
        given["revision"] = str(renewed["wagon"]["revision"])
        assert server.do("renew-wagon", **given).status == 200
        assert len(server.get(f"{page}.json").json()["changes"]) == changes, "nothing was new"
        both = server.do("upload", repository=git.url, path="wagons/count.py", text=FIRST)
        assert (both.status, "several sources were given" in both.text) == (400, True)
        uploaded = server.do("upload", text=FIRST.replace("Count", "Mine")).json()["page"]
        mine = uploaded.removeprefix("/wagons/")
        assert "is not from git" in server.do("renew-wagon", address=mine, revision="1").text


@pytest.mark.parametrize("is_named", [True, False])
def test_others_take_it_from_hosts_that_are_named_alone(git: GitServer, tmp_path: Path, *, is_named: bool) -> None:
    git.commit({"count.py": FIRST})
    people(tmp_path / "room", "add", "ada", "--role", "administrator", "--password-stdin", password=PASSWORD)
    people(tmp_path / "room", "add", "lise", "--password-stdin", password=PASSWORD)
    options = ["--shared", *(["--git", git.host] if is_named else [])]
    with SharedServer(tmp_path / "room", options=options) as server:
        lise, ada = server.logged_in("lise"), server.logged_in("ada")
        form = server.page("/new-wagon", lise).text
        assert ("Repository" in form) == is_named
        fields = {"repository": git.url, "path": "count.py", "ref": "main"}
        assert server.post("/do/upload", fields, lise).status == (303 if is_named else 403)
        assert server.post("/do/upload", fields | {"repository": "https://127.0.0.1/x"}, lise).status == 403
        assert server.post("/do/upload", fields | {"repository": str(git.folder)}, lise).status in (400, 403)
        if is_named:
            mine = server.post("/do/upload", fields | {"class": "Count"}, ada)
            assert mine.headers["location"] == "/wagons/ada/Count"
            theirs = {"address": "ada/Count", "revision": "1", "ref": "main"}
            assert server.post("/do/renew-wagon", theirs, lise).status == 403
