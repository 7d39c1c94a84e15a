"""Two moments of a wagon or a dataset side by side."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator

import pytest
from tests.unit.control.web.server import Server

from branchline.base.plain import finite

WAGON = "class Count:\n    branches = ['px']\n    def process(self, events):\n        return {'n': len(events)}\n"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("moments") / "room") as server:
        yield server


def owner(server: Server) -> str:
    return str(server.get("/me.json").json()["person"]["name"])


def test_a_wagon_is_shown_before_and_after_its_last_change_and_between_any_two(server: Server) -> None:
    server.do("upload", text=WAGON)
    for text in ("2 * len(events)", "3 * len(events)"):
        server.do("upload", text=WAGON.replace("len(events)", text))
    address = f"{owner(server)}/Count"
    page = f"/moments.json?subject=wagon&address={address}"
    shown = server.get(page).json()
    third, second, first = [one["number"] for one in shown["changes"]]
    assert (shown["first"], shown["second"]) == (second, third)
    [code] = [one for one in shown["fields"] if one["name"] == "code"]
    assert [line for line in code["lines"] if line[:3] in ("-  ", "+  ")] == [
        "-        return {'n': 2 * len(events)}",
        "+        return {'n': 3 * len(events)}",
    ]
    whole = server.get(f"{page}&first={first}&second={third}").json()
    [code] = [one for one in whole["fields"] if one["name"] == "code"]
    assert "-        return {'n': len(events)}" in code["lines"]
    assert server.get(f"{page}&first={third}&second={third}").json()["fields"] == []
    assert "They do not differ" in server.get(f"/moments?subject=wagon&address={address}&first={third}").text
    assert f"/moments?subject=wagon&amp;address={owner(server)}%2FCount" in server.get(f"/wagons/{address}").text
    assert f"second={third}" in server.get("/changes").text


def test_a_dataset_has_moments_too(server: Server) -> None:
    server.do("save-dataset", name="sample", files="/a.root")
    revision = server.get(f"/datasets/{owner(server)}/sample.json").json()["revision"]
    server.do("save-dataset", name="sample", files="/b.root", revision=str(revision))
    shown = server.get(f"/moments.json?subject=dataset&address={owner(server)}/sample").json()
    assert any("/a.root" in str(one) and "/b.root" in str(one) for one in shown["fields"])


@pytest.mark.parametrize(
    "query",
    ["", "subject=wagon&address=x/y", "subject=person&address=ada", "subject=wagon&address=ME/Count&first=999999"],
)
def test_what_never_was_is_not_found(server: Server, query: str) -> None:
    answer = server.get(f"/moments.json?{query.replace('ME', owner(server))}")
    assert answer.status == 404, answer.text


def test_numbers_that_are_not_finite_become_null() -> None:
    found = finite({"a": [1.5, math.nan, (math.inf, "x")], "b": {"c": -math.inf, "d": True}})
    assert found == {"a": [1.5, None, [None, "x"]], "b": {"c": None, "d": True}}
    assert json.loads(json.dumps(found, allow_nan=False)) == found
