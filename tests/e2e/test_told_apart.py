"""Jobs that are slow for different reasons: the report names the reason of each."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

import branchline
from branchline.records.diagnosis.diagnosis import diagnosis

EVENTS = 40_000
WAGON = """
import numpy as np

class Sums:
    branches = ["x"]
    def process(self, events):
        {body}
"""
ARRAYS = "return float(sum(np.sum(np.sqrt(np.abs(events.x) + n)) for n in range({times})))"
LOOP = """total = 0.0
        for value in np.asarray(events.x):
            for n in range(60):
                total += (value * value + n) ** 0.5
        return total"""
COMPILED = """import numba
        @numba.njit
        def added(values):
            total = 0.0
            for value in values:
                for n in range(10):
                    total += (value * value + n) ** 0.5
            return total
        return added(np.asarray(events.x))"""


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    random = np.random.default_rng(1)
    for number in range(2):
        with uproot.recreate(folder / f"{number}.root") as file:
            file.mktree("events", {"x": "f8"})
            for _ in range(4):
                file["events"].extend({"x": random.normal(size=EVENTS // 8)})
    return folder


def diagnosed(data: Path, tmp_path: Path, body: str, **options: Any) -> tuple[str, float | None]:
    """Run a wagon, and return what limits the job, and the lines of Python that it executed per event."""
    path = tmp_path / "wagons.py"
    path.write_text(WAGON.format(body=body))
    result = branchline.run(f"{path}:Sums", str(data), tmp_path / "out", **options)
    [wagon] = result.record.wagons
    return diagnosis(result.record), wagon.python_lines_per_event


@contextmanager
def busy_machine() -> Iterator[None]:
    programs = [subprocess.Popen([sys.executable, "-I", "-S", "-c", "while True: pass"]) for _ in range(4)]
    try:
        yield
    finally:
        for one in programs:
            one.kill()
            one.wait()


def test_a_loop_over_events_is_named(data: Path, tmp_path: Path) -> None:
    said, lines = diagnosed(data, tmp_path, LOOP, workers=0, step_size=5000)
    assert "it executes Python for each event instead of for whole arrays" in said
    assert lines is not None
    assert 2 <= lines <= 4.1


def test_work_on_whole_arrays_is_no_loop(data: Path, tmp_path: Path) -> None:
    said, lines = diagnosed(data, tmp_path, ARRAYS.format(times=600), workers=0, step_size=5000)
    assert "the wagon 'Sums'" in said
    assert "Python" not in said
    assert lines is not None
    assert lines < 1


def test_compilation_is_not_called_a_loop(data: Path, tmp_path: Path) -> None:
    said, lines = diagnosed(data, tmp_path, COMPILED, workers=1, step_size=20000)
    assert "imports and compilation in the first chunks" in said
    assert lines is None or lines < 1


def test_small_chunks_are_named(data: Path, tmp_path: Path) -> None:
    said, _ = diagnosed(data, tmp_path, ARRAYS.format(times=1), workers=0, step_size=20)
    assert "2 000 chunks of only 20 events each" in said.replace("\N{NO-BREAK SPACE}", " ").replace(",", " ")


@pytest.mark.long
def test_other_programs_are_named(data: Path, tmp_path: Path) -> None:
    with busy_machine():
        said, _ = diagnosed(data, tmp_path, ARRAYS.format(times=400), workers=2, step_size=5000)
    assert "other programs used" in said
