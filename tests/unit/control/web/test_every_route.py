"""Every address of the server, tried by those who may not use it: without a key, with one for something else, from a
page of another site, and by somebody whose things these are not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any

import pytest
from starlette.routing import Route
from tests.unit.control.plans.passed_room import ADA, DATASET, OLGA, PLAN, SOURCE, WAGONS, make_room
from tests.unit.control.web.test_shared import PASSWORD, SharedServer, people

from branchline.control.measures import MeasureOrder
from branchline.control.plans.plan import Fullness
from branchline.control.room import ControlRoom
from branchline.control.trains.train import TrainOrder
from branchline.control.web.app import ACTIONS, create_app
from branchline.control.web.server_settings import AccountKeys, ServerSettings
from branchline.records.diagnosis.remedies import AVOID_ELEMENT

READS = ("GET", "HEAD")
#: Where people log in, and what the page of that is made of.
OPEN = ("/login", "/static/")
REPORTS = "/api/v1/reports"
#: All that is ada's has the number or the name of the first one.
NAMES = {"{job}": "0" * 32, "{number}": "1", "{path:path}": "results.root"}
#: Lise is a physicist in no group, and tries to change what belongs to ada, or what only others may.
NEW = {"name": "eve", "role": "administrator", "password": PASSWORD}
ORDER = {"owner": "ada", "name": "mine", "dataset": DATASET, "wagon": WAGONS[0]}
REFUSED: dict[str, dict[str, str]] = {
    "/do/upload": {"owner": "ada", "text": SOURCE, "path": "wagons.py"},
    "/do/renew-wagon": {"address": WAGONS[0]},
    "/do/save-wagon": {"address": WAGONS[0], "value.weight": "7", "description": "mine"},
    "/do/remove-wagon": {"address": WAGONS[0]},
    "/do/save-dataset": {"owner": "ada", "name": "events", "files": "/etc/passwd"},
    "/do/remove-dataset": {"address": DATASET},
    "/do/enable": {"wagon": WAGONS[0], "dataset": DATASET, "to": "off"},
    "/do/try-again": {"wagon": WAGONS[0], "dataset": DATASET},
    "/do/switch-on-measure": {"kind": AVOID_ELEMENT, "storage_element": "root://se.other", "why": "mine"},
    "/do/undo-measure": {"number": "1"},
    "/do/order-train": ORDER,
    "/do/approve-train": {"number": "1"},
    "/do/cancel-train": {"number": "1"},
    "/do/run-again": {"number": "1"},
    "/do/save-plan": {"owner": "olga", "name": "mine", "dataset": DATASET, "trigger": "full", "full_wagons": "1"},
    "/do/pause-plan": {"address": PLAN.address},
    "/do/remove-plan": {"address": PLAN.address},
    "/do/add-person": NEW,
    "/do/change-person": {"name": "lise", "role": "administrator"},
}
#: These make or change only what is one's own, whatever is asked for; and what is answered. No train runs here.
OWN: dict[str, tuple[dict[str, str], int]] = {
    "/do/add-variant": ({"owner": "ada", "address": WAGONS[0], "name": "Mine"}, 303),
    "/do/copy-activations": ({"source": DATASET, "address": DATASET}, 303),
    "/do/enable": ({"all_of": "quick", "dataset": DATASET, "to": "off"}, 303),
    "/do/clone-train": ({"owner": "ada", "number": "1"}, 400),
    "/do/revoke-token": ({"number": "1"}, 404),
}
STATE = ("/grid", "/plans", f"/plans/{PLAN.address}", "/trains", "/measures", "/people", f"/wagons/{WAGONS[0]}")


class Tried(SharedServer):
    """A server of a room in which ada has wagons, a dataset and a train that waits, and olga a plan and a measure."""

    def state(self, cookie: str) -> dict[str, Any]:
        """What an administrator sees of it."""
        return {page: self.page(f"{page}.json", cookie, Accept="*/*").json() for page in STATE}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tried]:
    folder = make_room(tmp_path_factory.mktemp("routes"))
    with closing(ControlRoom(folder)) as room, pytest.MonkeyPatch.context() as patch:
        patch.setattr("branchline.control.trains.trains.TRAIN_SECONDS_APPROVED", 0.0)
        assert room.trains.order(TrainOrder("ada", "first", DATASET, WAGONS, workers=1), ADA) == 1
        room.plans.save(replace(PLAN, full=Fullness(wagons=100)), OLGA)
        room.measures.switch_on(MeasureOrder(AVOID_ELEMENT, "root://se.example", why="it fails"), OLGA)
    for name, role in (("ida", "administrator"), ("ada", "physicist"), ("olga", "operator"), ("lise", "physicist")):
        done = people(folder, "add", name, "--role", role, "--password-stdin", password=PASSWORD)
        assert done.returncode == 0, done.stderr
    with Tried(folder, options=["--shared"]) as server:
        server.token_of(server.logged_in("ada"), "read")
        yield server


@pytest.fixture(scope="module")
def routes(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """All addresses of a shared server, filled in, with their methods."""
    with closing(ControlRoom(tmp_path_factory.mktemp("routes") / "room")) as room:
        app: Any = create_app(room, ServerSettings(AccountKeys(room.accounts)), asyncio.Event())
        found: list[Route] = app._app.routes
        given = [(one.path, method) for one in found for method in sorted(one.methods or ())]
    assert len(given) > 100
    return [(_filled(path), method) for path, method in given]


def _filled(path: str) -> str:
    for name, value in NAMES.items():
        path = path.replace(name, value)
    address = PLAN.address if path.startswith("/plans") else DATASET if path.startswith("/datasets") else WAGONS[0]
    return path.replace("{owner}/{name}", address)


def _is_open(path: str, method: str) -> bool:
    return path == OPEN[0] or (path.startswith(OPEN[1]) and method in READS)


def test_nothing_is_open_but_the_login(server: Tried, routes: list[tuple[str, str]]) -> None:
    strangers: list[dict[str, str]] = [
        {},
        {"Authorization": "Bearer bl_wrong"},
        {"Authorization": "Basic YWRhOmFkYQ=="},
        {"Cookie": f"branchline-{server.port}=wrong"},
    ]
    for path, method in routes:
        if not _is_open(path, method):
            for headers in strangers:
                assert server.ask(path, method, None, headers).status == 401, (method, path, headers)
        assert server.ask(path, method, None, {"Host": "evil.example"}).status == 421, (method, path)


def test_a_token_opens_nothing_but_what_it_is_for(server: Tried, routes: list[tuple[str, str]]) -> None:
    cookie = server.logged_in("lise")
    tokens = {scope: f"Bearer {server.token_of(cookie, scope)}" for scope in ("report", "read")}
    for path, method in routes:
        if path != REPORTS:
            assert server.ask(path, method, None, {"Authorization": tokens["report"]}).status == 403, (method, path)
        if method not in READS or path == "/new-token":
            assert server.ask(path, method, None, {"Authorization": tokens["read"]}).status == 403, (method, path)


def test_pages_of_other_sites_can_do_nothing(server: Tried, routes: list[tuple[str, str]]) -> None:
    cookie = server.logged_in("lise")
    sites = ({"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"})
    forms = [path for path, method in routes if method not in READS]
    assert set(ACTIONS) < set(forms)
    for path in forms:
        for headers in sites:
            answer = server.post(path, {}, cookie, **headers)
            assert (answer.status, "another site" in answer.text) == (403, True), (path, headers)
    assert server.page("/jobs", cookie).status == 200


def test_nobody_changes_what_is_not_theirs(server: Tried) -> None:
    assert set(REFUSED) | set(OWN) == set(ACTIONS)
    idas, lises = server.logged_in("ida"), server.logged_in("lise")
    before = server.state(idas)
    assert before["/trains"]["trains"][0]["state"] == "waiting for approval"
    for action, fields in REFUSED.items():
        answer = server.post(action, fields, lises, Accept="text/plain")
        assert answer.status == 403, (action, answer.status, answer.text)
    assert server.state(idas) == before


def test_what_is_made_by_the_name_of_others_is_ones_own(server: Tried) -> None:
    idas, lises = server.logged_in("ida"), server.logged_in("lise")
    before = server.state(idas)
    for action, (fields, status) in OWN.items():
        answer = server.post(action, fields, lises, Accept="text/plain")
        assert answer.status == status, (action, answer.status, answer.text)
    after = server.state(idas)
    wagons = after["/grid"].pop("wagons")
    assert [one["owner"] for one in wagons if one["name"] == "Mine"] == ["lise"]
    assert [one for one in wagons if one["owner"] == "ada"] == before["/grid"].pop("wagons")
    # A row of cells more, for the variant.
    cells = [row for row in after["/grid"].pop("cells") if row[0]["wagon"] != "lise/Mine"]
    assert cells == before["/grid"].pop("cells")
    assert after == before
    assert len(server.page("/me.json", server.logged_in("ada"), Accept="*/*").json()["tokens"]) == 1
