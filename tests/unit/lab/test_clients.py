"""Clients of studies: what they read, and what their time has in it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import branchline
from branchline.errors import BranchlineError, OptionError
from branchline.lab.sampling.clients import ClientError, copied_to, reader_of
from branchline.lab.sampling.job import JobRequest
from branchline.lab.sampling.local_jobs import run_at_once

WAGON = """
class Count:
    branches = ["x"]
    def process(self, events):
        return len(events)
"""


@pytest.fixture
def request_of_train(tmp_path: Path) -> JobRequest:
    with branchline.create(tmp_path / "a.root") as file:
        file.mktree("events", {"x": list(range(1000))})
    (tmp_path / "wagons.py").write_text(WAGON, encoding="utf-8")
    wagons = str(tmp_path / "wagons.py")
    return JobRequest(0, "train", [str(tmp_path / "a.root")], str(tmp_path), "events", train=wagons)


def test_a_train_is_counted_with_its_phases_and_its_modules_are_loaded_before(request_of_train: JobRequest) -> None:
    code = f"""
import json, sys
from branchline.lab.sampling.clients import reader_of
from branchline.lab.sampling.job import JobRequest
request = JobRequest.from_json({request_of_train.to_json()!r})
read = reader_of(request)
before = set(sys.modules)
counts = read(request.files)
late = sorted({{one for one in set(sys.modules) - before if "." not in one}})
print(json.dumps([counts.events, counts.bytes_read, counts.phases, late]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    events, bytes_read, phases, late = json.loads(done.stdout.splitlines()[-1])
    assert events == 1000
    assert bytes_read > 0
    assert {"plan", "wagons"} <= phases.keys()
    heavy = {"numpy", "awkward", "pyarrow", "pandas", "boost_histogram", "jinja2", "psutil"}
    assert not heavy & set(late), "these were imported while the clock ran"


def test_the_clock_of_a_train_runs_for_its_phases_only(request_of_train: JobRequest) -> None:
    wall_s, [outcome] = run_at_once([request_of_train], {}, 60.0)
    assert not outcome.error
    assert outcome.wall_s <= wall_s
    assert sum(outcome.phases.values()) <= outcome.wall_s


def test_options_of_a_train_that_are_none_are_refused(request_of_train: JobRequest) -> None:
    request = JobRequest.from_json(request_of_train.to_json())
    request.options.update({"access": "plain", "read-ahead": "1 MiB", "worker": 3})
    with pytest.raises(OptionError, match="no such option: worker"):
        reader_of(request)


def test_a_copy_that_hangs_is_ended_at_its_deadline(tmp_path: Path) -> None:
    """As one of a schedule from a mount that does not answer: nobody else has a deadline for it."""
    os.mkfifo(tmp_path / "pipe")  # nobody writes into it
    with pytest.raises(ClientError, match=r"cp timed out after 0\.2 s") as raised:
        copied_to(str(tmp_path / "pipe"), tmp_path / "copy", 0.2)
    assert (raised.value.path, raised.value.retry) == (str(tmp_path / "pipe"), True)
    assert not any(one.name() == "cp" for one in psutil.Process().children())


def test_a_train_that_fails_is_a_failed_job(request_of_train: JobRequest) -> None:
    Path(request_of_train.train).write_text(WAGON.replace("len(events)", "1 / 0"), encoding="utf-8")
    with pytest.raises(BranchlineError, match="ZeroDivisionError"):
        reader_of(request_of_train)(request_of_train.files)
