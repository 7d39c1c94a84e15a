"""Pages of plans: made, paused and removed by forms, with the same values as JSON; only operators change them."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.unit.control.plans.passed_room import DATASET, make_room, until
from tests.unit.control.web.server import Server

FORM = {"name": "nightly", "dataset": DATASET, "workers": "1", "hours_max": "1e-9"}
SCHEDULE = {**FORM, "trigger": "schedule", "day": "Monday", "at": "06:00", "zone": "Europe/Zurich", "runs_again": "yes"}
FULL = {
    **FORM,
    "trigger": "full",
    "full_wagons": "3",
    "full_memory": "900 TB",
    "full_waits": "8000",
    "runs_again": "yes",
}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_room(tmp_path_factory.mktemp("made"))


@pytest.fixture
def server(tmp_path: Path, made: Path) -> Iterator[Server]:
    shutil.copytree(made, tmp_path / "room")
    with Server(tmp_path / "room") as server:
        yield server


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory, made: Path) -> Iterator[Server]:
    """One in which nothing changes."""
    folder = tmp_path_factory.mktemp("quiet") / "room"
    shutil.copytree(made, folder)
    with Server(folder) as server:
        yield server


def test_a_plan_is_made_changed_paused_and_removed_by_forms(server: Server) -> None:
    made: Any = server.do("save-plan", **SCHEDULE).json()
    address = made["page"].removeprefix("/plans/")
    shown: Any = server.get(f"{made['page']}.json").json()
    assert shown["when"] == "Monday 06:00 Europe/Zurich"
    assert shown["kept"]["plan"]["runs_again"] is True
    assert shown["kept"]["due"].endswith(("T04:00:00+00:00", "T05:00:00+00:00"))
    owner, name = address.split("/")
    revision = str(shown["kept"]["revision"])
    assert server.do("save-plan", **SCHEDULE).status == 409
    changed = {**SCHEDULE, "owner": owner, "name": name, "revision": revision, "place": "slurm", "workers": ""}
    assert server.do("save-plan", **changed).status == 200
    assert server.do("pause-plan", address=address).status == 200
    shown = server.get(f"{made['page']}.json").json()
    assert (shown["kept"]["plan"]["place"], shown["kept"]["plan"]["is_paused"], shown["kept"]["due"]) == (
        "slurm",
        True,
        "",
    )
    assert [one["action"] for one in shown["changes"]] == ["changed", "changed", "created"]
    assert "paused" in server.get("/plans").text
    again = {**changed, "revision": str(shown["kept"]["revision"]), "place": "here", "workers": "1"}
    assert server.do("save-plan", **again).status == 200
    assert server.get(f"{made['page']}.json").json()["kept"]["plan"]["is_paused"] is True
    assert server.do("pause-plan", address=address, to="on").status == 200
    assert server.get(f"{made['page']}.json").json()["kept"]["due"]
    assert server.do("remove-plan", address=address).status == 200
    assert server.get(made["page"]).status == 404
    assert len(server.get(f"/changes.json?subject=plan&address={address}").json()["changes"]) == 6


@pytest.mark.long
def test_pages_say_what_waits_what_is_missing_and_which_plan_made_a_train(server: Server) -> None:
    made: Any = server.do("save-plan", **FULL).json()
    [row] = server.get("/plans.json").json()["plans"]
    assert (row["waits"], row["full"], row["missing"][0]) == (2, "", "1 more wagon")
    page = server.get(made["page"]).text
    assert "1 more wagon" in page
    assert "when full: 3 wagons" in page
    shown: Any = server.get(f"{made['page']}.json").json()
    owner, name = shown["kept"]["plan"]["owner"], shown["kept"]["plan"]["name"]
    fewer = {**FULL, "owner": owner, "name": name, "revision": str(shown["kept"]["revision"]), "full_wagons": "2"}
    assert server.do("save-plan", **fewer).status == 200
    until(lambda: bool(server.get("/trains.json").json()["trains"]))
    train: Any = server.get("/trains/1.json").json()["train"]
    assert (train["plan"], train["plan_why"]) == (f"{owner}/{name}", "full: 2 wagons")
    assert train["state"] == "waiting for approval"
    assert "full: 2 wagons" in server.get("/trains/1").text
    shown = server.get(f"{made['page']}.json").json()
    assert [(one["train"], one["why"]) for one in shown["runs"]] == [(1, "full: 2 wagons")]
    assert [(one["state"], one["train"]) for one in shown["waiting"]["wagons"]] == [("rode unchanged", 1)] * 2


@pytest.mark.parametrize(
    "wrong",
    [
        {"trigger": ""},
        {"trigger": "never"},
        {"at": "25:00"},
        {"zone": "<script>alert(1)</script>"},
        {"zone": "../../../etc/passwd"},
        {"day": "<b>"},
        {"name": "../x"},
        {"name": "'; DROP TABLE plans; --"},
        {"group": "a b"},
        {"hours_max": "x"},
        {"hours_max": "nan"},
        {"hours_max": "-1"},
        {"memory_max": "much"},
        {"memory_max": "9" * 400},
        {"place": "slurm; rm -rf /"},
        {"workers": "-1"},
        {"revision": "7"},
        {"trigger": "full", "full_wagons": "999"},
        {"trigger": "full"},
    ],
)
def test_forms_that_are_wrong_change_nothing(quiet: Server, wrong: dict[str, str]) -> None:
    answer = quiet.do("save-plan", **{**SCHEDULE, **wrong})
    assert answer.status in (400, 404, 409)
    assert quiet.get("/plans.json").json()["total"] == 0
