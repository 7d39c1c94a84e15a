"""A train that is not complete says so: by a warning each time, and by an error where that is asked for."""

from __future__ import annotations

import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest

import branchline
from branchline.records.sensors.record import JobRecord, SkippedFile, WagonFault, WagonRecord
from branchline.trains.running.result import NAMES_SHOWN, incomplete

SCRIPT = """
import sys, branchline

def even(events):
    if events.metadata["filename"].endswith("f1.root"):
        raise ValueError("odd")
    return len(events)

for number in range(2):
    result = branchline.run(even, sys.argv[1], workers=0)
    print(number, result.outputs["even"] > 0)
"""


def counted(events: Any) -> int:
    """A wagon."""
    return len(events)


def test_each_of_two_runs_in_one_line_warns(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", f"{folder}/f[01].root"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert ended.stdout.split() == ["0", "True", "1", "True"]
    assert (
        ended.stderr.count("script.py:10: PartialResultWarning: this train is not complete: 1 wagon failed (even)") == 2
    )


def test_a_filter_of_the_user_makes_the_warning_an_error(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.root").write_bytes(b"root" + bytes(2000))
    files = [f"{folder}/f0.root", str(tmp_path / "bad.root")]
    with warnings.catch_warnings():
        warnings.simplefilter("error", branchline.PartialResultWarning)
        with pytest.raises(branchline.PartialResultWarning, match=r"1 file left out \(.*bad.root\)"):
            branchline.run(counted, files, workers=0, skip_bad_files=True, tree="events")


def test_raise_error_raises_for_whatever_the_exit_code_tells(folder: Path, tmp_path: Path) -> None:
    whole = branchline.run(counted, f"{folder}/f0.root", workers=0)
    assert whole.exit_code == 0
    whole.raise_error()
    (tmp_path / "bad.root").write_bytes(b"root" + bytes(2000))
    files = [f"{folder}/f0.root", str(tmp_path / "bad.root")]
    with pytest.warns(branchline.PartialResultWarning):
        skipped = branchline.run(counted, files, tmp_path / "out", workers=0, skip_bad_files=True, tree="events")
    assert (skipped.exit_code, skipped.outputs) == (3, whole.outputs)
    with pytest.raises(branchline.PartialResultError, match=r"out: .* 1 file left out \(.*bad.root\)"):
        skipped.raise_error()
    with pytest.warns(branchline.PartialResultWarning, match=r"bad\.root"):
        stopped = branchline.run(counted, files, workers=0, tree="events")
    assert stopped.exit_code == 1
    with pytest.raises(branchline.NoSuchKeyError):
        stopped.raise_error()
    with pytest.raises(KeyboardInterrupt, match="it was interrupted"):
        branchline.TrainResult({}, JobRecord(interrupted=True, events=3)).raise_error()


def test_a_long_list_of_what_is_missing_is_cut_and_counted() -> None:
    record = JobRecord(wagons=[WagonRecord(name="a", error=WagonFault("ValueError", "no"))])
    record.skipped = [SkippedFile(f"f{number}.root", None, "away") for number in range(1000)]
    said = incomplete(record)
    assert "1 wagon failed (a), 1 000 files left out (f0.root, f1.root, " in said
    assert f"and {1000 - NAMES_SHOWN} more); " in said
    assert said.endswith("; and 996 more errors")


def test_names_in_the_warning_do_not_reach_the_terminal_as_they_are(folder: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad\x1b[31m.root"
    bad.write_bytes(b"root" + bytes(2000))
    with pytest.warns(branchline.PartialResultWarning, match=r"1 file left out") as said:
        branchline.run(counted, [f"{folder}/f0.root", str(bad)], workers=0, skip_bad_files=True, tree="events")
    assert not any("\x1b" in str(one.message) for one in said)
