"""The page of watched storages shows the histories that lie in the room's directory."""

from __future__ import annotations

import math
import random
from pathlib import Path

from tests.unit.control.web.server import Server

from branchline.lab.studies.history import HISTORY, HistoryPoint, add_points


def points(storage: str, ratio: float, first: int, count: int) -> list[HistoryPoint]:
    draw = random.Random(first)
    return [
        HistoryPoint(
            f"2026-01-{day + 1:02d}T06:00:00+00:00",
            storage,
            ratio * math.exp(draw.gauss(0, 0.02)),
            megabytes_per_s=50.0,
            samples=6,
        )
        for day in range(first, first + count)
    ]


def test_histories_changes_and_the_text_for_admins_are_shown(tmp_path: Path) -> None:
    room = tmp_path / "room"
    with Server(room) as server:
        assert "No storage is watched" in server.get("/watched").text
        (room / "watched" / "site").mkdir(parents=True)
        name = "root://<b>.example.org"
        add_points(room / "watched" / "site", points(name, 1.0, 0, 12) + points(name, 1.5, 12, 10))
        [schedule] = server.get("/watched.json").json()["schedules"]
        [storage] = schedule["storages"]
        assert (schedule["name"], storage["storage"], storage["turns_count"]) == ("site", name, 22)
        assert storage["changes"][0].startswith("since 2026-01-13 06:00 UTC it is 1.5")
        page = server.get("/watched").text
        assert "since 2026-01-13 06:00 UTC" in page
        assert "<polyline" in page
        assert "<b>" not in page.partition("<h2>")[2]
        (room / "watched" / "site" / HISTORY).unlink()
        (room / "watched" / "site" / HISTORY).mkdir()
        assert server.get("/watched.json").json()["schedules"][0]["trouble"]
