"""Code in a trial that takes too much, or writes another outcome than its own: it ends, and the server goes on."""

from __future__ import annotations

import random
import threading
from pathlib import Path

import psutil
import pytest
from tests.clusters.event_files import write_events
from tests.peers.peers import missing
from tests.sampled import long_but
from tests.unit.control.trials.test_trials import Room

from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.sandbox.sandbox import Sandbox
from branchline.control.trials.start import run_trial
from branchline.control.trials.trial import DONE, TrialOutcome, TrialRequest

WAGON = """
import os, pathlib, subprocess, sys, time

def outcome_pipes():
    # The process of the trial, which is the first of its ancestors, has the number in its command.
    words = pathlib.Path(f"/proc/{os.getppid()}/cmdline").read_bytes().split(b"\\0")
    return f"/proc/{os.getppid()}/fd/{words[words.index(b'branchline.control.trials.trial_process') + 2].decode()}"

class Bad:
    branches = ["px"]
    def process(self, events):
"""


@pytest.fixture(params=long_but(["as oneself", "in the sandbox"], ["in the sandbox"]))
def running(request: pytest.FixtureRequest, tmp_path: Path) -> CodeRunning:
    if request.param == "as oneself":
        return CodeRunning()
    return CodeRunning(sandbox(), (tmp_path.resolve(),))


def sandbox() -> Sandbox:
    found = Sandbox.find()
    if isinstance(found, str):
        pytest.skip(found) if "does not run here" in found else missing("bwrap")
    assert isinstance(found, Sandbox)
    return found


def tried(folder: Path, body: str, running: CodeRunning) -> TrialOutcome:
    """What comes of a wagon with this code."""
    (folder / "data").mkdir()
    (folder / "trial").mkdir()
    write_events(folder / "data", 1, 10)
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    (folder / "trial" / "wagons.py").write_text(f"{WAGON}{lines}        return {{'n': len(events)}}\n")
    request = TrialRequest(str(folder / "trial" / "wagons.py"), [str(folder / "data" / "*.root")])
    found = run_trial(request, folder / "trial", running, threading.Event())
    assert found is not None
    return found


def test_the_outcome_of_good_code_comes(tmp_path: Path, running: CodeRunning) -> None:
    found = tried(tmp_path, "pass", running)
    assert (found.error, [one.events for one in found.wagons]) == ("", [10])


def test_processes_that_take_too_much_memory_together_are_ended(
    tmp_path: Path, running: CodeRunning, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.control.sandbox.watch.TRIAL_MEMORY_MAX_BYTES", 2**30)
    body = """
for _ in range(5):
    subprocess.Popen([sys.executable, "-c", "x = bytearray(300_000_000); import time; time.sleep(600)"])
time.sleep(600)
"""
    assert "used more than 1.07 GB of memory and was ended" in tried(tmp_path, body, running).error


def test_too_many_processes_are_ended(tmp_path: Path, running: CodeRunning, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.sandbox.watch.TRIAL_TASKS_MAX", 30)
    body = """
for _ in range(60):
    subprocess.Popen(["sleep", "600"])
time.sleep(600)
"""
    assert "had more than 30 processes and was ended" in tried(tmp_path, body, running).error


def test_nothing_that_code_started_goes_on_after_its_trial(tmp_path: Path, running: CodeRunning) -> None:
    """Not even what left its group, or has lost its parent."""
    seconds = f"600.{random.SystemRandom().randrange(10**9):09}"
    body = f"""
for _ in range(3):
    subprocess.Popen(["sh", "-c", "sleep {seconds} & sleep {seconds} &"], start_new_session=True)
time.sleep(0.3)
"""
    assert tried(tmp_path, body, running).error == ""
    assert [one for one in psutil.process_iter(["cmdline"]) if seconds in (one.info["cmdline"] or [])] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("b'x' * 10_000_000", "its outcome is longer than 5000000 bytes"),
        ("b'[' * 100_000", "without an outcome"),
        *(
            pytest.param(text, "without an outcome", marks=pytest.mark.long)
            for text in (
                "b'{\"seconds\": NaN}'",
                "b'{\"seconds\": 1e999}'",
                'b\'{"events": "many"}\'',
                "b'null'",
                "b'\\xff'",
            )
        ),
    ],
)
def test_an_outcome_that_users_write_is_not_believed(
    tmp_path: Path, running: CodeRunning, text: str, said: str
) -> None:
    body = f"""
with open(outcome_pipes(), "wb", buffering=0) as pipe:
    pipe.write({text})
os.kill(os.getppid(), 9)
time.sleep(600)
"""
    assert said in tried(tmp_path, body, running).error


def test_the_sandbox_has_bounded_space_and_writes_nothing_else(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("branchline.control.sandbox.sandbox.TRIAL_SPACE_BYTES", 50_000_000)
    body = """
found = []
for place in ("/tmp", "/dev/shm", "/", "/dev", os.getcwd()):
    try:
        with open(os.path.join(place, "large"), "wb") as file:
            for _ in range(100):
                file.write(bytes(1_000_000))
        found.append("wrote")
    except OSError as error:
        found.append(error.strerror)
raise RuntimeError(" | ".join(found))
"""
    found = tried(tmp_path, body, CodeRunning(sandbox(), (tmp_path.resolve(),)))
    [wagon] = found.wagons
    full, only_read = "No space left on device", "Read-only file system"
    assert " | ".join([full, full, only_read, only_read, only_read]) in wagon.error


def test_a_fault_of_ours_ends_its_trial_and_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    room = Room(tmp_path)

    def broken(*_: object) -> None:
        raise RuntimeError("we did not think of that")

    with monkeypatch.context() as patch:
        patch.setattr("branchline.control.trials.trials.run_trial", broken)
        room.wagon("Total", "first")
        room.trials.start()
        first = room.ended("first")
    room.wagon("Total", "second")
    room.trials.look()
    second = room.ended("second")
    room.trials.stop()
    room.database.close()
    assert first.outcome is not None
    said = "internal error in Branchline, please report it, with the output of the server: RuntimeError: "
    assert first.outcome.error == f"{said}we did not think of that"
    assert second.state == DONE
