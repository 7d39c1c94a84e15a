"""What the directory for results says while a run is at work, when it is cut off, and to a second run."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.patience import HANG_S
from tests.sampled import long_but

pytestmark = pytest.mark.slow

EVENTS = 360_000

# Waits in the third file until it is allowed to go on, and leaves a mark in the last chunk of each other one.
WAITING = """
import time
from pathlib import Path

class Waits:
    name = "waits"
    def process(self, events):
        if "f2" in events.metadata["filename"] and events.metadata["entrystart"] > 0:
            Path({folder!r}, "waits.mark").touch()
            while not Path({folder!r}, "go").exists():
                time.sleep(0.01)
        elif events.metadata["entrystart"] >= 40_000:
            Path({folder!r}, Path(events.metadata["filename"]).stem + ".mark").touch()
        return len(events.px)
"""

# So many pictures that drawing them takes half a minute.
MANY_PICTURES = """
import hist

class Many:
    name = "many"
    def process(self, events):
        return {f"h{index}": hist.Hist.new.Reg(20, 0, 1).Double().fill(events.px) for index in range(150)}
"""


@pytest.fixture
def waiting(start_branchline: Callable[..., Any], data: Path, tmp_path: Path) -> Any:
    """A run that has worked through two files and waits in the third."""
    (tmp_path / "waiting.py").write_text(WAITING.format(folder=str(tmp_path)))
    running = start_branchline("run", "waiting.py", data, "-o", "out", "--workers", 1, "--step-size", 20000)
    running.wait_for(1, "waits.mark", tmp_path)
    yield running
    (tmp_path / "go").touch()
    running.kill()


def job_in(folder: Path) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((folder / "job.json").read_text())
    return job


def test_while_it_runs_the_directory_says_so_and_another_run_is_refused(
    waiting: Any, branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path
) -> None:
    job = job_in(tmp_path / "out")
    assert (job["status"], job["process"]) == ("running", waiting.pid)
    assert "has not finished" in (tmp_path / "out" / "PARTIAL.txt").read_text()
    for force in ([], ["--force"]):
        ended = branchline("run", plain_wagons, data / "f0.root", "-o", "out", *force)
        assert ended.returncode == 1
        assert f"another run is writing its results here: process {waiting.pid} on" in ended.stderr
    (tmp_path / "go").touch()
    ended = waiting.ended()
    assert ended.returncode == 0, ended.stderr
    assert job_in(tmp_path / "out")["events"] == EVENTS
    assert not (tmp_path / "out" / "PARTIAL.txt").exists()


@pytest.mark.long
def test_what_a_killed_run_left_is_recognised_and_gone_on_with(
    waiting: Any, branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path
) -> None:
    waiting.kill()
    assert waiting.ended().returncode == -9
    assert job_in(tmp_path / "out")["status"] == "running"
    ended = branchline("run", plain_wagons, data / "f0.root", "-o", "out")
    assert ended.returncode == 0, ended.stderr
    assert job_in(tmp_path / "out")["status"] == "finished"
    ended = branchline("run", plain_wagons, data / "f0.root", "-o", "out")
    assert ended.returncode == 1
    assert "--force" in ended.stderr
    assert not (tmp_path / "out" / "PARTIAL.txt").exists()


def test_what_batch_systems_send_keeps_what_was_finished(
    start_branchline: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    (tmp_path / "waiting.py").write_text(WAITING.format(folder=str(tmp_path)))
    settings = ("-o", "out", "--workers", 2, "--step-size", 20000)
    running = start_branchline("run", "waiting.py", data, *settings)
    running.wait_for(1, "waits.mark", tmp_path)
    # A worker may have started late, with the third file.
    running.wait_for(2, "f[01].mark", tmp_path)
    running.terminate()
    ended = running.ended()
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    job = job_in(tmp_path / "out")
    assert (job["status"], job["interrupted"]) == ("partial", True)
    # A file and the first chunk of the third by one worker, whatever the other has come to.
    assert 80_000 <= job["events"] < EVENTS
    assert "partial" in (tmp_path / "out" / "report.html").read_text()
    assert (tmp_path / "out" / "PARTIAL.txt").exists()


def test_a_worker_that_alone_is_told_to_end_hands_over_what_it_has(
    start_branchline: Callable[..., Any], data: Path, tmp_path: Path
) -> None:
    """As when a batch system signals every process, and the workers hear it first."""
    (tmp_path / "waiting.py").write_text(WAITING.format(folder=str(tmp_path)))
    settings = ("-o", "out", "--workers", 2, "--step-size", 20000)
    running = start_branchline("run", "waiting.py", data, *settings)
    running.wait_for(1, "waits.mark", tmp_path)
    # A worker may have started late, with the third file.
    running.wait_for(2, "f[01].mark", tmp_path)
    for pid in running.children():
        os.kill(pid, signal.SIGTERM)
    ended = running.ended()
    assert ended.returncode == 130, ended.stderr
    job = job_in(tmp_path / "out")
    assert (job["status"], job["interrupted"]) == ("partial", True)
    # A file and the first chunk of the third by one worker, whatever the other has come to.
    assert 80_000 <= job["events"] < EVENTS


@pytest.mark.parametrize("times", long_but([1, 2], [2]))
def test_ctrl_c_while_pictures_are_drawn_keeps_the_results_and_marks_them(
    start_branchline: Callable[..., Any], branchline: Any, data: Path, tmp_path: Path, times: int
) -> None:
    (tmp_path / "many.py").write_text(MANY_PICTURES)
    running = start_branchline("run", "many.py", data / "f0.root", "-o", "out", "--workers", 1)
    running.wait_for(3, "out/pictures/many/*.svg", tmp_path)
    for _ in range(times):
        running.interrupt()
        time.sleep(0.1)
    ended = running.ended()
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    out = tmp_path / "out"
    job = job_in(out)
    assert job["status"] == "partial"
    assert job["events"] == 60_000
    assert (out / "results.root").exists()
    assert "not complete" in (out / "PARTIAL.txt").read_text()
    assert len(list((out / "pictures" / "many").glob("*.svg"))) < 150
    if times == 1:
        assert "partial" in (out / "report.html").read_text()
    assert not [one.name for one in out.rglob(".*")]
    (tmp_path / "one.py").write_text("class One:\n  def process(self, events): return len(events.px)\n")
    ended = branchline("run", "one.py", data / "f0.root", "-o", "out", "--force")
    assert ended.returncode == 0, ended.stderr
    assert not [one for one in out.rglob("*") if "many" in str(one) or one.name == "pictures"]


def test_two_ctrl_c_keep_what_was_finished(waiting: Any, tmp_path: Path) -> None:
    waiting.interrupt()
    time.sleep(0.05)
    waiting.interrupt()
    ended = waiting.ended()
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr
    job = job_in(tmp_path / "out")
    assert job["status"] == "partial"
    assert job["events"] >= 120_000


# Repeats Ctrl-C while Python shuts down after an interrupted run.
REPEATED_AT_EXIT = """
import os, signal
from pathlib import Path
from branchline.cli import main

class Repeats:
    def __del__(self, kill=os.kill, process=os.getpid()):
        kill(process, {number})

last = Repeats()
Path("pid").write_text(str(os.getpid()))
main()
"""
INTERRUPTS = """
import os, signal, time
from pathlib import Path

class Interrupts:
    def process(self, events):
        os.kill(int(Path("pid").read_text()), signal.SIGINT)
        time.sleep(0.2)
        return len(events.px)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_while_python_shuts_down_keeps_the_exit_code(number: int, data: Path, tmp_path: Path) -> None:
    (tmp_path / "interrupts.py").write_text(INTERRUPTS)
    ended = subprocess.run(
        [
            sys.executable,
            "-c",
            REPEATED_AT_EXIT.format(number=int(number)),
            "run",
            "interrupts.py",
            str(data),
            "-o",
            "out",
        ],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=HANG_S,
        check=False,
    )
    assert ended.returncode == 130, ended.stderr
    assert "Traceback" not in ended.stderr


# Catches Ctrl-C in an executed text, as where a dataclass is defined while a module is imported.
CAUGHT = """
import contextlib
from branchline import cli

run = cli.run

def interrupted(words):
    code = run(words)
    with contextlib.suppress(KeyboardInterrupt):
        exec("raise KeyboardInterrupt")
    return code

cli.run = interrupted
cli.main()
"""


def test_ctrl_c_caught_in_an_executed_text_does_not_end_the_command_by_the_signal(tmp_path: Path) -> None:
    (tmp_path / "caught.py").write_text(CAUGHT)
    ended = subprocess.run([sys.executable, "-m", "caught", "--version"], cwd=tmp_path, timeout=HANG_S, check=False)
    assert ended.returncode == 0


# Hammers at Ctrl-C while one step of a run is at work; the steps are methods and functions of ours.
STEPS = ["trains.running.train_run.postprocess", "trains.running.train_run.RecordMaker", "trains.run.write"]
HAMMERED = """
import importlib, os, signal, sys
from branchline.cli import main

module, _, name = {step!r}.rpartition(".")
owner = importlib.import_module("branchline." + module)
step = getattr(owner, name)

def hammered(*arguments, **settings):
    for _ in range(4):
        os.kill(os.getpid(), signal.SIGINT)
    return step(*arguments, **settings)

setattr(owner, name, hammered)
sys.exit(main())
"""


@pytest.mark.parametrize("step", long_but(STEPS, STEPS[-1:]))
def test_ctrl_c_behind_the_last_event_loses_nothing(step: str, plain_wagons: Path, data: Path, tmp_path: Path) -> None:
    words = ["run", str(plain_wagons), str(data / "f0.root"), "-o", "out", "--workers", "1"]
    ended = subprocess.run(
        [sys.executable, "-c", HAMMERED.format(step=step), *words],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=280,
        check=False,
    )
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 0, ended.stderr
    job = job_in(tmp_path / "out")
    assert (job["status"], job["events"]) == ("finished", 60_000)


@pytest.mark.parametrize("command", [["show"], ["version"], ["--help"]])
def test_a_reader_who_has_seen_enough_is_no_error(data: Path, command: list[str]) -> None:
    location = [str(data / "f0.root")] if command == ["show"] else []
    line = " ".join([sys.executable, "-m", "branchline.cli", *command, *location])
    ended = subprocess.run(["bash", "-c", f"{line} | true"], capture_output=True, text=True, check=False, timeout=280)
    assert ended.stderr == ""
