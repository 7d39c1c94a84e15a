"""`make serve-demo`: its jobs are real ones, and are in the pages when it says that it serves."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.pages.serve_demo import ELSEWHERE, HERE, JOBS

from branchline.trains.demo.demo_files import make_data

WAIT_S = 240


@pytest.mark.long
def test_the_demo_fills_a_control_room_and_ends_with_its_server(tmp_path: Path) -> None:
    make_data(tmp_path / "data", files=3, events_per_file=5, seed=1, workers=1)
    command = [sys.executable, "-m", "tests.pages.serve_demo", str(tmp_path / "data"), str(tmp_path / "room"), "0"]
    demo = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert demo.stdout is not None
        address = next(line for line in demo.stdout if line.startswith("open ")).split()[1]
        base, _, token = address.partition("/?token=")

        def values(path: str) -> Any:
            request = urllib.request.Request(base + path, headers={"Authorization": f"Bearer {token}"})
            with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
                return json.load(answer)

        assert "It is served until Ctrl-C.\n" in demo.stdout
        rows = values("/jobs.json")["rows"]
        states = {one["identity"]["name"]: one["status"] for one in rows}
        assert states == {job.name: "partial" if job.name == "lost-files" else "finished" for job in JOBS}
        table = values("/sites.json")["table"]
        assert {one["site"] for one in table["rows"]} == {HERE, ELSEWHERE}
        assert len(values("/grid.json")["wagons"]) == 3
    finally:
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=WAIT_S)
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(base, timeout=WAIT_S)
