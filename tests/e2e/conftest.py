"""Real files, real processes: a dataset made by uproot, wagons in a file, and the command as a user calls it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import awkward as ak
import jsonschema
import numpy as np
import psutil
import pytest
import uproot
from tests.branchline_command import Ended, command, run_branchline
from tests.e2e.control_room import Room, serving
from tests.patience import HANG_S

from branchline.records.sensors.schema import job_schema

FILES = 6
# Doubles without pattern do not compress: a file has 2.2 MB, so that each is a sub-job.
EVENTS_PER_FILE = 60_000
EVENTS = FILES * EVENTS_PER_FILE

WAGONS = """
import awkward as ak
import hist
import numpy as np


class Spectra:
    name = "spectra"

    def process(self, events):
        histogram = hist.Hist.new.Reg(50, 0, 10, name="pt", label="$p_T$ [GeV]").Weight()
        histogram.fill(ak.flatten(events.pt), weight=0.1)
        return {"pt": histogram, "events": len(events)}


class Momenta:
    name = "momenta"
    requires = ["spectra"]

    def process(self, events):
        assert events.outputs["spectra"]["events"] == len(events)
        return {"sum": float(ak.sum(events.px)), "largest": np.asarray([0.0]), "files": {events.metadata["filename"]}}
"""

PLAIN_WAGONS = """
import awkward as ak


class Counts:
    name = "counts"

    def process(self, events):
        return {"events": len(events), "tracks": int(ak.count(events.pt))}


class Momenta:
    name = "momenta"

    def process(self, events):
        return float(ak.sum(abs(events.px)))
"""


@pytest.fixture(scope="session")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with six files that no test changes."""
    folder = tmp_path_factory.mktemp("originals")
    for index in range(FILES):
        random = np.random.default_rng(index)
        with uproot.recreate(folder / f"f{index}.root", compression=uproot.ZLIB(1)) as file:
            events = file.mktree("events", {"px": "float64", "pt": "var * float64"})
            for _ in range(4):
                count = EVENTS_PER_FILE // 4
                counts = random.poisson(3, count)
                pt = ak.unflatten(random.exponential(size=counts.sum()), counts)
                events.extend({"px": random.normal(size=count), "pt": pt})
    return folder


@pytest.fixture(autouse=True)
def records_are_as_their_schema_says(tmp_path: Path) -> Iterator[None]:
    """Every job.json that a test leaves, of runs that ended in whatever way."""
    yield
    for path in tmp_path.rglob("job.json"):
        jsonschema.validate(json.loads(path.read_text()), job_schema())


@pytest.fixture
def data(originals: Path, tmp_path: Path) -> Path:
    """The same files to do harm to; each is a copy only when a test makes it one."""
    folder = tmp_path / "data"
    folder.mkdir()
    for one in sorted(originals.iterdir()):
        os.link(one, folder / one.name)
    return folder


@pytest.fixture
def wagons(tmp_path: Path) -> Path:
    """A file with two wagons, the second of which requires the first."""
    file = tmp_path / "wagons.py"
    file.write_text(WAGONS)
    return file


@pytest.fixture
def plain_wagons(tmp_path: Path) -> Path:
    """A file with two wagons that return numbers, so that a test does not wait for pictures."""
    file = tmp_path / "plain_wagons.py"
    file.write_text(PLAIN_WAGONS)
    return file


Branchline = Callable[..., Ended]


@pytest.fixture
def branchline(tmp_path: Path) -> Branchline:
    """Calls `branchline` and waits for its end."""

    def call(*arguments: object) -> Ended:
        return run_branchline(tmp_path, arguments)

    return call


class Running:
    """A `branchline` at work, for tests that disturb it."""

    def __init__(self, folder: Path, arguments: tuple[object, ...]) -> None:
        self._process = subprocess.Popen(
            command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder
        )

    def wait_for(self, count: int, pattern: str, folder: Path) -> list[Path]:
        """Waits until wagons have left so many files that match."""
        end_s = time.monotonic() + HANG_S
        is_over = False
        while not is_over:
            # What it left before it ended is there when its end is seen.
            is_over = time.monotonic() > end_s or self._process.poll() is not None
            found = sorted(folder.glob(pattern))
            if len(found) >= count:
                return found
            time.sleep(0.02)
        self._process.kill()
        raise AssertionError(f"{count} files {pattern} did not come: {self._process.communicate()}")

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def terminate(self) -> None:
        """As batch systems do when the time of a job is up."""
        self._process.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)

    @property
    def pid(self) -> int:
        return self._process.pid

    def children(self) -> set[int]:
        """The processes that it has started and that still live."""
        return {one.pid for one in psutil.Process(self._process.pid).children(recursive=True)}

    def ended(self) -> Ended:
        stdout, stderr = self._process.communicate(timeout=280)
        return subprocess.CompletedProcess([], self._process.returncode, stdout, stderr)


@pytest.fixture
def start_branchline(tmp_path: Path) -> Callable[..., Running]:
    """Starts `branchline` and does not wait."""
    return lambda *arguments: Running(tmp_path, arguments)


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Room]:
    """A control room at work."""
    with serving(tmp_path / "room", tmp_path / "room.log") as found:
        yield found
