"""What commands do whose output nobody reads, or which cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

BRANCHLINE = [sys.executable, "-m", "branchline"]


@pytest.mark.parametrize(
    "words",
    [["show", "collisions-000.root:events"], ["inspect", "collisions.txt"], ["inspect", "--json", "collisions.txt"]],
    ids=" ".join,
)
def test_a_reader_that_has_gone_is_no_error(collisions: Path, words: list[str]) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)
    done = subprocess.run([*BRANCHLINE, *words], cwd=collisions, stdout=write_end, stderr=subprocess.PIPE, check=False)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("words", [["version"], ["inspect", "collisions.txt"]], ids=" ".join)
def test_an_output_that_cannot_be_written_is_named(collisions: Path, words: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [*BRANCHLINE, *words], cwd=collisions, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert done.returncode == 1
    assert done.stderr == "branchline: error: cannot write standard output: No space left on device\n"


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_never_taken_for_files(collisions: Path, tmp_path: Path, closed: str) -> None:
    """A file that is opened would else get their numbers, and the messages of the command."""
    merged = tmp_path / "merged.root"
    command = f'"$@" {closed}'
    words = [*BRANCHLINE, "merge", str(collisions / "collisions.txt"), "-o", str(merged), "--verify"]
    assert subprocess.run(["bash", "-c", command, "bash", *words], check=False, capture_output=True).returncode == 0
    again = [*BRANCHLINE, "verify", str(merged), str(collisions / "collisions.txt")]
    subprocess.run(again, check=True, capture_output=True)


def test_a_run_needs_no_standard_streams(collisions: Path, tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text("class Count:\n    def process(self, events):\n        return len(events)\n")
    run = [
        "run",
        str(tmp_path / "wagons.py"),
        str(collisions / "collisions.txt"),
        "-o",
        str(tmp_path / "out"),
        "-j",
        "2",
    ]
    words = ["bash", "-c", '"$@" <&- >&- 2>&-', "bash", *BRANCHLINE, *run]
    assert subprocess.run(words, check=False, capture_output=True, timeout=280).returncode == 0
