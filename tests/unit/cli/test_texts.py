"""What the command prints reads well."""

from __future__ import annotations

import os
import pty
import subprocess
import sys

import pytest

from branchline.cli.progress_bar import train_progress_bar
from branchline.cli.tables.forecast_tables import branches_text, duration_text
from branchline.records.sensors.status import ElementStatus, TrainStatus, progress_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(3e-8, "30 ns"), (2.5e-6, "2.5 \u00b5s"), (0.012, "12 ms"), (1.5, "1.5 s"), (119, "119 s"), (600, "10 min")],
)
def test_durations(seconds: float, text: str) -> None:
    assert duration_text(seconds) == text


def test_many_branches_are_counted() -> None:
    assert branches_text(()) == "nothing"
    assert branches_text(("a", "b")) == "a, b"
    assert branches_text(tuple("abcdefgh")) == "a, b, c, d, e, f and 2 more"


def test_rates_say_what_they_count() -> None:
    assert progress_text(TrainStatus(2.0, 3000, 5_000_000)) == "1 500 events/s  2.5 MB/s read"
    elements = [ElementStatus("a", 1, 4_000_000), ElementStatus("b", 1, 1_000_000)]
    status = TrainStatus(2.0, 3000, 5_000_000, subjobs=8, done=3, failed=1, elements=elements, phase="merge")
    shown = "3/8 sub-jobs  1 500 events/s  2.5 MB/s read (2.0 + 0.5)  1 failed  merging"
    assert progress_text(status) == shown


def test_without_a_terminal_there_is_no_bar() -> None:
    with train_progress_bar() as progress:
        assert progress is None


def test_on_a_terminal_the_bar_shows_rates_and_the_time_left() -> None:
    code = """
from branchline.cli.progress_bar import train_progress_bar
from branchline.records.sensors.status import TrainStatus
from branchline.records.sensors.status import progress_text
import time
with train_progress_bar() as progress:
    progress(TrainStatus(1.0, 4000, 8_000_000, 0, 0.25))
    time.sleep(0.3)
"""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "120", "TERM": "xterm"}
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True, env=environment, timeout=280)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    os.close(ours)
    assert "4 000 events/s  8.0 MB/s read" in shown
    assert "25%" in shown
    assert "left" in shown
