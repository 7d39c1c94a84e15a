"""Metrics as monitoring systems read them: checked by promtool, and by the rules of the formats."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest
from tests.stores.servers import program
from tests.unit.control.batches import batch, identity, last, read

from branchline.control.metrics import Metric, metrics_of
from branchline.control.room import ControlRoom
from branchline.control.web.routes import openmetrics_text, prometheus_text

HERE, FAR = "root://se.example", "root://far.org"
NASTY = 'root://x"} 1\n# EOF\\ \udc80'


@pytest.fixture(scope="module")
def room(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlRoom]:
    room = ControlRoom(tmp_path_factory.mktemp("metrics") / "room")
    for element in (HERE, FAR, NASTY):
        who = identity()
        room.take(batch(who, 0, read(f"{element}//f", element, 5000, 2.0)))
        room.take(last(who, 1))
    room.take(batch(identity(), 0))
    yield room
    room.close()


def readings(metrics: list[Metric], name: str) -> dict[tuple[str, ...], float]:
    [metric] = [one for one in metrics if one.name == name]
    return {tuple(one.labels.values()): one.value for one in metric.readings}


def test_the_numbers_are_those_that_jobs_reported(room: ControlRoom) -> None:
    found = metrics_of(room)
    read_bytes = readings(found, "branchline_read_bytes")
    assert read_bytes["example", HERE, "local"] == 5000
    assert read_bytes["example", FAR, "remote"] == 5000
    assert len(read_bytes) == 3
    assert readings(found, "branchline_read_worker_seconds")["example", FAR, "remote"] == 2.0
    assert readings(found, "branchline_jobs") == {("finished",): 3, ("running",): 1, ("silent",): 0}
    assert readings(found, "branchline_jobs_ended") == {("finished",): 3}
    assert readings(found, "branchline_worker_seconds") == {("example",): 180.0}
    assert readings(found, "branchline_worker_waiting_seconds") == {("example",): 45.0}
    parts = ("upkeep", "findings", "trials", "trains", "plans", "reports")
    assert readings(found, "branchline_trouble") == {(one,): 0 for one in parts}


def test_no_label_is_a_job_a_file_or_a_user(room: ControlRoom) -> None:
    labels = {name for metric in metrics_of(room) for one in metric.readings for name in one.labels}
    assert labels == {"site", "storage_element", "distance", "state", "part", "version"}


def test_promtool_finds_nothing_wrong(room: ControlRoom) -> None:
    text = prometheus_text(metrics_of(room))
    found = subprocess.run(
        [program("promtool"), "check", "metrics"], input=text, capture_output=True, text=True, timeout=280, check=False
    )
    assert (found.returncode, found.stderr) == (0, "")


def test_openmetrics_has_units_and_an_end(room: ControlRoom) -> None:
    lines = openmetrics_text(metrics_of(room)).split("\n")
    assert lines[-2:] == ["# EOF", ""]
    assert lines.count("# EOF") == 1
    sample = re.compile(r'[a-z_]+(\{[a-z_]+="(\\.|[^"\\\n])*"(,[a-z_]+="(\\.|[^"\\\n])*")*\})? -?[0-9.e+-]+')
    assert [one for one in lines[:-2] if not one.startswith("# ") and not sample.fullmatch(one)] == []
    for unit in (one.split() for one in lines if one.startswith("# UNIT ")):
        assert unit[2].endswith(f"_{unit[3]}")
    assert "# TYPE branchline_read_bytes counter" in lines
    assert any(one.startswith("branchline_read_bytes_total{") for one in lines)


def test_of_very_many_places_those_with_most_bytes_are_shown(
    room: ControlRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.control.metrics.METRICS_CELLS_MAX", 2)
    found = metrics_of(room)
    assert len(readings(found, "branchline_files_read")) == 2
    assert readings(found, "branchline_places_left_out") == {(): 1}


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\bbranchline_[a-z_]+", text))


def test_rules_and_dashboard_name_metrics_that_there_are(room: ControlRoom) -> None:
    text = prometheus_text(metrics_of(room))
    there = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")}
    folder = files("branchline.control.web").joinpath("monitoring")
    rules = re.findall(r"expr:(.*?)(?=\n\s+(?:for|labels):)", folder.joinpath("alerts.yml").read_text(), re.DOTALL)
    assert len(rules) == 12
    panels = json.loads(folder.joinpath("dashboard.json").read_text())["panels"]
    expressions = [*rules, *(one["expr"] for panel in panels for one in panel["targets"])]
    named = set().union(*map(names_in, expressions))
    assert named <= there
    assert len(named) > 10


def test_the_rules_fire_when_they_should(tmp_path: Path) -> None:
    rules = files("branchline.control.web").joinpath("monitoring", "alerts.yml").read_text()
    (tmp_path / "alerts.yml").write_text(rules)
    (tmp_path / "alerts_test.yml").write_text((Path(__file__).with_name("alerts_test.yml")).read_text())
    found = subprocess.run(
        [program("promtool"), "test", "rules", "alerts_test.yml"],
        cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert found.returncode == 0, found.stdout + found.stderr
