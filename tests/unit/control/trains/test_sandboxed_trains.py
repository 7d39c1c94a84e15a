"""Trains of a shared control room on its machine: what their code may, what it takes, and what is taken over of it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import psutil
import pytest
from tests.patience import HANG_S
from tests.unit.control.trains.shared_room import ADA, SharedRoom, until

from branchline.control.room_errors import RefusedError
from branchline.control.sandbox.sandbox import TrainLimits
from branchline.control.trains.results import files_of
from branchline.control.trains.train import CANCELLED
from branchline.errors import OptionError
from branchline.records.sensors.record import FAILED, FINISHED, RUNNING
from branchline.trains.out_folder.state import job_of

# In a trial there is no folder of results, by which code knows that it is in a train.
SOURCE = """
import os, pathlib, socket, subprocess, sys, time
import numpy as np

OUT = next((one for one in pathlib.Path(sys.argv[0]).parents), None)

def of_train():
    words = pathlib.Path("/proc/2/cmdline").read_bytes().split(b"\\0")
    return pathlib.Path(os.fsdecode(words[words.index(b"-o") + 1])) if b"-o" in words else None

class Wagon:
    branches = ["px", "run"]

    def process(self, events):
        out = of_train()
        if out is not None:
            self.in_train(out)
        return {"n": len(events), "sum": float(np.sum(np.asarray(events.run))), **self.found()}

    def found(self):
        return {}

    def in_train(self, out):
        pass
"""


def source(body: str, found: str = "return {}") -> str:
    """The wagon with a body of ``in_train``, and of ``found``."""
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    others = "".join(f"        {line}\n" for line in found.strip().splitlines())
    text = SOURCE.replace("        return {}\n", others)
    return text.removesuffix("        pass\n") + lines


def test_a_train_has_its_results_and_nothing_else_of_the_server(made: list[SharedRoom], tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("nobody reads this")
    found = f"""
tries = {{"secret": lambda: open({str(secret)!r}).read(),
         "database": lambda: os.stat({str(tmp_path / "room" / "control.sqlite")!r}),
         "network": lambda: socket.create_connection(("127.0.0.1", 22), 1),
         "data": lambda: open({str(tmp_path / "data" / "new")!r}, "w")}}
done = {{}}
for name, attempt in tries.items():
    try:
        attempt()
        done[name] = 1
    except OSError:
        done[name] = 0
return done
"""
    shared = SharedRoom(tmp_path, source("pass", found))
    made.append(shared)
    number = shared.ordered()
    train = shared.ended(number)
    assert (train.state, train.why) == (FINISHED, ""), shared.room.trains.log(train)
    results = shared.results(number)
    record = job_of(results)
    assert record is not None
    assert [one.events for one in record.wagons] == [600]
    numbers = json.loads(next(results.glob("results/**/*.json")).read_text())
    text = json.dumps(numbers)
    assert '"secret": 0' in text, text
    for name in ("database", "network", "data"):
        assert f'"{name}": 0' in text, text
    assert {one for one in files_of(record) if not (results / one).is_file()} == set()
    # What is served is apart from what code writes.
    assert not (results / "ledger.sqlite").exists()
    assert (shared.written(number) / "ledger.sqlite").exists()
    status = shared.room.trains.status(train)
    assert status is not None
    assert (status.status, status.done) == (FINISHED, status.subjobs)


def test_links_and_pipes_in_its_folder_are_not_followed(made: list[SharedRoom], tmp_path: Path) -> None:
    body = """
for name in ("results.root", "report.html", "sensors.parquet"):
    for _ in range(3):
        try:
            os.symlink("/etc/passwd", out / name)
        except FileExistsError:
            pass
try:
    os.mkfifo(out / "pipe")
except FileExistsError:
    pass
"""
    shared = SharedRoom(tmp_path, source(body))
    made.append(shared)
    number = shared.ordered()
    shared.ended(number)
    results = shared.results(number)
    assert [one for one in results.rglob("*") if one.is_symlink() or one.is_fifo()] == []
    assert not any(b"root:" in one.read_bytes() for one in results.rglob("*") if one.is_file())


def test_a_record_that_code_wrote_has_no_file_taken_that_is_none_of_its_results(
    made: list[SharedRoom], tmp_path: Path
) -> None:
    """Not what is read as code where a train is resumed, nor what a link leads to."""
    body = """
import atexit, json
(out / "batch").mkdir(exist_ok=True)
(out / "batch" / "submission").write_bytes(b"cos\\nsystem\\n(S'touch run'\\ntR.")
if os.fork() == 0:
    os.setsid()
    time.sleep(0.1)
    while True:
        try:
            job = json.loads((out / "job.json").read_text())
            job["written"] = ["batch/submission", "../../1/sandbox.json", "/etc/passwd", "link", "here/passwd"]
            if not (out / "link").exists():
                os.symlink("/etc/passwd", out / "link")
                os.symlink("/etc", out / "here")
            (out / "own.json").write_text(json.dumps(job))
            os.replace(out / "own.json", out / "job.json")
        except (OSError, ValueError):
            pass
        time.sleep(0.001)
"""
    shared = SharedRoom(tmp_path, source(body))
    made.append(shared)
    number = shared.ordered()
    shared.ended(number)
    results = shared.results(number)
    names = {one.relative_to(results).as_posix() for one in results.rglob("*") if not one.is_dir()}
    assert not names & {"batch/submission", "link", "here/passwd", "sandbox.json"}, names
    assert not any(b"root:" in (results / one).read_bytes() for one in names)


@pytest.mark.parametrize(
    ("limits", "body", "why"),
    [
        pytest.param(
            TrainLimits(memory_bytes=2**31),
            "words = [sys.executable, '-c', 'x = bytearray(300_000_000); import time; time.sleep(600)']\n"
            "[subprocess.Popen(words) for _ in range(9)]; time.sleep(600)",
            "of memory",
            marks=pytest.mark.long,
        ),
        (
            TrainLimits(tasks=60),
            "[subprocess.Popen(['sleep', '600']) for _ in range(90)]; time.sleep(600)",
            "processes",
        ),
        pytest.param(TrainLimits(hours=5 / 3600), "time.sleep(600)", "hours", marks=pytest.mark.long),
        pytest.param(
            TrainLimits(results_bytes=10**8),
            "[(out / f'{i}').write_bytes(os.urandom(10**7)) for i in range(20)]; time.sleep(600)",
            "wrote more than 100 MB",
            marks=pytest.mark.long,
        ),
    ],
)
def test_a_train_that_takes_too_much_is_ended(
    made: list[SharedRoom], tmp_path: Path, limits: TrainLimits, body: str, why: str
) -> None:
    shared = SharedRoom(tmp_path, source(body), limits)
    made.append(shared)
    train = shared.ended(shared.ordered())
    assert train.state == FAILED
    assert why in train.why
    assert "was ended" in train.why


GATE = """
while not pathlib.Path(%r).exists():
    time.sleep(0.05)
"""


@pytest.mark.long
def test_a_train_goes_on_without_the_server_and_is_resumed_after_a_kill(made: list[SharedRoom], tmp_path: Path) -> None:
    gate = tmp_path / "data" / "open"
    shared = SharedRoom(tmp_path, source(GATE % str(gate)))
    made.append(shared)
    number = shared.ordered()
    until(lambda: (shared.written(number) / "job.json").exists())
    shared.room.close()
    shared.open()
    assert shared.room.trains.train(number).state == RUNNING
    process = psutil.Process(shared.room.trains.train(number).process)
    below = process.children(recursive=True)
    os.kill(process.pid, signal.SIGKILL)
    psutil.wait_procs(below, timeout=HANG_S)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below)
    assert shared.ended(number).state == FAILED
    gate.touch()
    shared.room.trains.again(number, ADA)
    until(lambda: shared.room.trains.train(number).state == FINISHED)


@pytest.mark.long
def test_a_cancelled_train_ends_with_all_its_processes(made: list[SharedRoom], tmp_path: Path) -> None:
    shared = SharedRoom(tmp_path, source("time.sleep(600)"))
    made.append(shared)
    number = shared.ordered()
    until(lambda: (shared.written(number) / "job.json").exists())
    process = psutil.Process(shared.room.trains.train(number).process)
    below = process.children(recursive=True)
    assert below
    shared.room.trains.cancel(number, ADA)
    assert shared.room.trains.train(number).state == CANCELLED
    psutil.wait_procs(below, timeout=280)
    assert not any(one.is_running() and one.status() != psutil.STATUS_ZOMBIE for one in below)


@pytest.mark.long
def test_files_elsewhere_are_refused_with_what_to_do(made: list[SharedRoom], tmp_path: Path) -> None:
    shared = SharedRoom(tmp_path, source("pass"))
    made.append(shared)
    for where in ("root://storage.example.org//data/f.root", "/etc/passwd", "/data/../etc/*.root"):
        shared.save_dataset(files=[where])
        shared.tried()
        with pytest.raises(OptionError, match=r"has no network|not in a data folder") as raised:
            shared.ordered()
        assert raised.value.hint
        assert shared.room.trains.trains()[1] == 0


def test_other_places_are_refused_with_the_reason(made: list[SharedRoom], tmp_path: Path) -> None:
    shared = SharedRoom(tmp_path, source("pass"))
    made.append(shared)
    for place, why in (("slurm", "--submit-as"), ("dask=tcp://127.0.0.1:1", "one user")):
        with pytest.raises(RefusedError, match=why):
            shared.ordered(place=place, workers=0)
