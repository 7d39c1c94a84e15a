"""Each finding has the command that shows its evidence in a terminal."""

from __future__ import annotations

import html
import json
import re
import subprocess
import time
from pathlib import Path

import pytest
from tests.pages.busy_day import busy_day
from tests.stores.servers import program
from tests.unit.control.web.server import WAIT_S, Server


@pytest.mark.long
def test_the_command_of_a_finding_gives_its_jobs(tmp_path: Path) -> None:
    program("curl")
    with Server(tmp_path / "a room") as server:
        for batch in busy_day():
            assert server.report(batch).status == 200
        end_s = time.monotonic() + WAIT_S
        while not (found := server.get("/findings.json?period=month").json()["findings"]):
            assert time.monotonic() < end_s, "nothing is found"
            time.sleep(0.2)
        page = server.get("/findings?period=month", Accept="text/html").text
        commands = [html.unescape(one) for one in re.findall(r"<code>(curl .*?)</code>", page)]
        assert len(commands) == len(found)
        for command, finding in zip(commands, found, strict=True):
            done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=WAIT_S, check=True)
            shown = json.loads(done.stdout)
            path, mark, query = finding["evidence"].partition("?")
            assert shown == server.get(f"{path}.json{mark}{query}").json()
            assert shown.get("rows") or shown.get("row"), finding["evidence"]
