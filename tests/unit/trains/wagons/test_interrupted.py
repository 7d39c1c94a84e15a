"""Ctrl-C in ``branchline.run`` keeps what is finished and raises KeyboardInterrupt, or returns a partial result."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.patience import HANG_S

SCRIPT = """
import sys, time
from pathlib import Path
import branchline

def slow(events):
    if events.metadata["filename"].endswith("f1.root"):
        Path("reached").touch()
        time.sleep(0.2)
        while not Path("go").exists():
            time.sleep(0.01)
    return len(events)

_, data, out, workers, allow_partial = sys.argv
result = branchline.run(
    slow, [f"{data}/f0.root", f"{data}/f1.root"], out or None, workers=int(workers), step_size=400,
    allow_partial=bool(allow_partial),
)
print("went on", result.outputs["slow"], result.record.interrupted)
"""


def interrupted(folder: Path, where: Path, out: str, workers: int, allow_partial: str) -> tuple[int, str, str]:
    (where / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", str(folder), out, str(workers), allow_partial]
    process = subprocess.Popen(command, cwd=where, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        until_s = time.monotonic() + HANG_S
        while not (where / "reached").exists() and process.poll() is None and time.monotonic() < until_s:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        (where / "go").touch()
        stdout, stderr = process.communicate(timeout=280)
    finally:
        process.kill()
    return process.returncode, stdout, stderr


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.usefixtures("small_subjobs")
def test_ctrl_c_ends_the_script_and_keeps_what_was_finished(folder: Path, tmp_path: Path, workers: int) -> None:
    code, stdout, stderr = interrupted(folder, tmp_path, "out", workers, "")
    assert "went on" not in stdout
    # As Python ends at a KeyboardInterrupt that nobody catches.
    assert code in (130, -signal.SIGINT), stderr
    last = stderr.strip().splitlines()[-1]
    assert last.startswith("KeyboardInterrupt: this train is not complete: it was interrupted")
    assert "kept in out" in last
    assert "allow_partial=True" in last
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert (job["status"], job["interrupted"]) == ("partial", True)
    assert (tmp_path / "out" / "PARTIAL.txt").exists()
    again = subprocess.run(
        [sys.executable, "script.py", str(folder), "out", str(workers), ""],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert again.stdout.startswith("went on 3000 False")


@pytest.mark.parametrize("out", ["", "out"])
def test_a_partial_result_is_returned_where_it_is_allowed(folder: Path, tmp_path: Path, out: str) -> None:
    code, stdout, stderr = interrupted(folder, tmp_path, out, 1, "yes")
    assert code == 0, stderr
    assert stdout.endswith("True\n")
    assert "PartialResultWarning: this train is not complete: it was interrupted" in stderr


def test_without_a_directory_it_says_that_nothing_is_kept(folder: Path, tmp_path: Path) -> None:
    code, _, stderr = interrupted(folder, tmp_path, "", 1, "")
    assert code in (130, -signal.SIGINT)
    assert "finished results are lost, since the train has no output directory" in stderr
