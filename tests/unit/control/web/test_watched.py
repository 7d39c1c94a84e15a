"""The page of watched storages shows the histories that lie in the room's directory; their alarms are findings."""

from __future__ import annotations

import math
import random
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.unit.control.web.server import WAIT_S, Server

from branchline.lab.studies.history import HISTORY, HistoryPoint, ReferencePoint, add_points


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


def reference_points(storage: str, processor: str, rates: list[float], benchmark_s: float) -> list[HistoryPoint]:
    """Daily turns of the reference job until today, at these reading rates in MB/s."""
    draw = random.Random(len(storage))
    begin = datetime.now(UTC) - timedelta(days=len(rates))
    return [
        HistoryPoint(
            (begin + timedelta(days=day)).isoformat(timespec="seconds"),
            storage,
            2.0,
            megabytes_per_s=rate / 2,
            samples=6,
            processor=processor,
            reference=ReferencePoint(
                1,
                7_000_000,
                rate * 1e6 * math.exp(draw.gauss(0, 0.03)),
                4e6,
                4.0,
                benchmark_s * math.exp(draw.gauss(0, 0.01)),
            ),
        )
        for day, rate in enumerate(rates)
    ]


def reference_room(room: Path) -> None:
    """A room with the reference job at three storages: one became slower, one is fine, one gives wrong values."""
    folder = room / "watched" / "reference"
    folder.mkdir(parents=True)
    add_points(
        folder, reference_points("root://slow.example.org//test", "EPYC <b>7763</b>", [120] * 25 + [80] * 10, 2.1)
    )
    add_points(folder, reference_points("root://slow.example.org//test", "Xeon", [115] * 35, 3.0))
    wrong = reference_points("/eos/test", "Xeon", [300] * 20, 3.0)
    last = ReferencePoint(1, 7_000_000, wrong="wrong file: its SHA-256 is <i>")
    now = datetime.now(UTC).isoformat(timespec="seconds")
    add_points(folder, [*wrong, HistoryPoint(now, "/eos/test", lost=6, processor="Xeon", reference=last)])


def test_the_reference_job_has_a_chart_for_each_worker_and_its_alarms_are_findings(tmp_path: Path) -> None:
    room = tmp_path / "room"
    with Server(room) as server:
        reference_room(room)
        [schedule] = server.get("/watched.json").json()["schedules"]
        assert [(one["storage"], one["worker"], one["turns_count"]) for one in schedule["storages"]] == [
            ("root://slow.example.org//test", "EPYC <b>7763</b>", 35),
            ("root://slow.example.org//test", "Xeon", 35),
            ("/eos/test", "Xeon", 21),
        ]
        kinds = [(one["kind"], one["storage"], one["worker"]) for one in schedule["alarms"]]
        slower = ("slower since a change", "root://slow.example.org//test", "EPYC <b>7763</b>")
        assert kinds == [("wrong values", "/eos/test", "Xeon"), slower]
        assert schedule["alarms"][1]["change"]["what"] == "storage"
        page = server.get("/watched").text
        assert page.count('<svg class="chart"') == 6
        assert "EPYC &lt;b&gt;7763&lt;/b&gt;" in page
        assert "<b>7763" not in page
        end_s = time.monotonic() + WAIT_S
        while len(found := server.get("/findings.json?period=day").json()["findings"]) < 2:
            assert time.monotonic() < end_s, found
            time.sleep(0.1)
        assert [one["kind"] for one in found] == ["wrong values", "slower since a change"]
        assert found[0]["estimate"]["value"] == 1.0
        assert 1.3 < found[1]["estimate"]["low"] < found[1]["estimate"]["high"] < 1.7
        text = server.get("/findings").text
        assert '<a href="/watched">its history</a>' in text
        assert 'branchline_findings{kind="wrong values"} 1' in server.get("/metrics").text


def test_a_history_that_others_wrote_harms_no_page(tmp_path: Path) -> None:
    room = tmp_path / "room"
    folder = room / "watched" / "reference"
    folder.mkdir(parents=True)
    odd = ReferencePoint(1, 7_000_000, 0.0, -1.0, -4.0, -2.0)
    lines = [HistoryPoint("2026-01-01", "se", 1.0, processor="it", reference=odd)]
    lines += [HistoryPoint("2026-01-01", "se", -1.0, processor="it", reference=odd) for _ in range(12)]
    lines += [HistoryPoint("2026-01-02T06:00Z", "se", 1.0, processor="it", reference=odd) for _ in range(12)]
    add_points(folder, [HistoryPoint("yesterday", "se", 1.0), *lines, HistoryPoint("2026-01-02", "no")])
    with Server(room) as server:
        answer = server.get("/watched")
        assert answer.status == 200, answer.text
        [schedule] = server.get("/watched.json").json()["schedules"]
        assert [one["turns_count"] for one in schedule["storages"]] == [25, 1]
