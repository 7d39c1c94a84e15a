"""A real Prometheus collects from a real control room, and takes its rules and the dashboard's expressions."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import pytest
from tests.stores.servers import Process, free_port, program
from tests.unit.control.batches import batch, identity, last, read
from tests.unit.control.web.server import Server

HERE, FAR = "root://se.example", "root://far.org"
CONFIGURATION = """
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [alerts.yml]
scrape_configs:
  - job_name: branchline
    authorization: {{credentials_file: {token}}}
    static_configs: [{{targets: ['127.0.0.1:{port}']}}]
"""
WAIT_S = 240


class Prometheus:
    """A server that collects from a control room."""

    def __init__(self, folder: Path, room: Path, server: Server) -> None:
        self.port = free_port()
        for name in ("alerts.yml", "dashboard.json"):
            (folder / name).write_bytes(server.get(f"/metrics/{name}").content)
        self.dashboard = json.loads((folder / "dashboard.json").read_text())
        (folder / "prometheus.yml").write_text(CONFIGURATION.format(token=room / "token", port=server.port))
        command = [program("prometheus"), f"--config.file={folder / 'prometheus.yml'}"]
        command += [f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{self.port}"]
        self.process = Process(command, self._is_ready, folder / "prometheus.log")

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"http://127.0.0.1:{self.port}/-/ready", timeout=WAIT_S) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False

    def ask(self, path: str) -> Any:
        with urlopen(f"http://127.0.0.1:{self.port}/api/v1/{path}", timeout=WAIT_S) as answer:
            found = json.load(answer)
        assert found["status"] == "success"
        return found["data"]

    def query(self, expression: str) -> list[Any]:
        found: list[Any] = self.ask(f"query?query={quote(expression)}")["result"]
        return found

    def soon(self, expression: str) -> list[Any]:
        """The answer, once there is one."""
        end = time.monotonic() + WAIT_S
        while not (found := self.query(expression)):
            assert time.monotonic() < end, expression
            time.sleep(0.1)
        return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    folder = tmp_path_factory.mktemp("prometheus")
    begin = datetime.now(UTC) - timedelta(minutes=10)
    with Server(folder / "room") as server:

        def report(number: int) -> None:
            for element in (HERE, FAR):
                who = identity(begin=begin)
                server.report(batch(who, 0, read(f"{element}//{number}", element, 5_000_000, 2.0)))
                ended = last(who, 1)
                server.report(replace(ended, sites=[replace(read("f", element, 1, 1.0)[1], failures=1)]))

        report(0)
        peer = Prometheus(folder, folder / "room", server)
        peer.process.start()
        try:
            peer.soon("branchline_read_bytes_total")
            # Rates need two values.
            report(1)
            peer.soon("sum(branchline_jobs_ended_total) == 4")
            yield peer
        finally:
            peer.process.kill()


def test_the_series_are_there_with_their_values(prometheus: Prometheus) -> None:
    [up] = prometheus.query("up")
    assert up["value"][1] == "1"
    found = prometheus.query("branchline_read_bytes_total")
    labels = {(one["metric"]["site"], one["metric"]["storage_element"], one["metric"]["distance"]) for one in found}
    assert labels == {("example", HERE, "local"), ("example", FAR, "remote")}
    assert {one["value"][1] for one in found} == {"10000002"}
    units = prometheus.ask("targets/metadata?metric=branchline_read_bytes")
    assert units == [] or units[0]["unit"] == "bytes"


def test_all_rules_are_taken_and_evaluated(prometheus: Prometheus) -> None:
    end = time.monotonic() + WAIT_S
    while True:
        rules = [one for group in prometheus.ask("rules")["groups"] for one in group["rules"]]
        assert len(rules) == 12
        if all(one["health"] == "ok" for one in rules):
            break
        assert time.monotonic() < end, [(one["name"], one["health"], one.get("lastError")) for one in rules]
        time.sleep(0.1)


def test_every_panel_of_the_dashboard_shows_something(prometheus: Prometheus) -> None:
    # What there is none of in this room.
    empty = {"branchline_findings", "branchline_trains", "branchline_trials"}
    for panel in prometheus.dashboard["panels"]:
        for target in panel["targets"]:
            expression = target["expr"].replace("$__rate_interval", "1m")
            found = prometheus.query(expression) if target["expr"] in empty else prometheus.soon(expression)
            assert found or target["expr"] in empty
