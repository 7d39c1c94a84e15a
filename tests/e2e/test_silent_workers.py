"""A worker that is stuck is found, named and ended, and its files are read by another one."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.e2e.conftest import Running
from tests.sampled import long_but

EVENTS_PER_FILE = 60_000

# The first to come into the second file leaves its mark and waits, so that it can be stopped there.
WAGONS = """
import os, time
from pathlib import Path

class Stuck:
    def process(self, events):
        mark = Path({folder!r}, f"{{os.getpid()}}.mark")
        if "f2" in events.metadata["filename"] and (not list(mark.parent.glob("*.mark")) or {always}):
            mark.touch()
            time.sleep(1000)
        return {{"events": len(events), "sum": float(events.px[0])}}
"""


@pytest.mark.parametrize("always", long_but([False, True], [False]))
def test_a_stopped_worker_is_ended_and_its_files_go_to_another(
    always: bool, data: Path, start_branchline: Callable[..., Running], tmp_path: Path
) -> None:
    wagons = tmp_path / "stuck.py"
    wagons.write_text(WAGONS.format(folder=str(tmp_path), always=always))
    running = start_branchline("run", wagons, data, "-o", "out", "-j", 2, "--worker-timeout", 3)
    [mark] = running.wait_for(1, "*.mark", tmp_path)
    os.kill(int(mark.stem), signal.SIGSTOP)
    ended = running.ended()
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    if always:
        assert ended.returncode == 3
        assert "f2.root" in ended.stderr
        assert job["wagons"][0]["error"]["type"] == "TimeoutError"
        assert "--worker-timeout" in ended.stderr
        return
    assert ended.returncode == 0, ended.stderr
    assert job["status"] == "finished"
    assert job["events"] == job["wagons"][0]["events"] == 6 * EVENTS_PER_FILE
    [lost] = job["workers_lost"]
    assert lost["pid"] == int(mark.stem)
    assert lost["doing"].startswith(f"wagon Stuck in {data}/f2.root, entries ")
    assert lost["how"] == "its process is stopped"
    assert "was killed after" in ended.stdout
    assert "Stuck" in (tmp_path / "out" / "report.html").read_text()
    for row in job["worker_phases"]:
        phases = [value for name, value in row.items() if name not in ("worker", "host", "site", "processor", "wall_s")]
        assert sum(phases) == pytest.approx(row["wall_s"], abs=0.5)
