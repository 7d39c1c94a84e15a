"""`branchline compare` for files: places, access modes and layouts, cold or warm, with phases."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.branchline_command import run_branchline
from tests.command_line import run_command

import branchline
from branchline.errors import BranchlineError, OptionError
from branchline.lab.comparison.compare import Comparison, ComparisonPlan, FailedCommandError, compare, verdict
from branchline.lab.comparison.reading_samples import Reading, ReadingOptions, is_place, options_of

ENTRIES = 50_000


@pytest.fixture
def file(tmp_path: Path) -> str:
    return written(tmp_path / "a.root")


def written(path: Path, entries: int = ENTRIES) -> str:
    with branchline.create(path) as file:
        file.mktree("events", {"px": list(range(entries)), "py": list(range(entries)), "n": list(range(entries))})
    return str(path)


def compared(first: Reading, second: Reading) -> Comparison:
    return compare(ComparisonPlan(first, second, precision=0.9, budget_s=60.0, seed=3))


@pytest.mark.long
def test_two_ways_to_read_the_same_file_are_compared_by_phases(file: str) -> None:
    options = ReadingOptions(branches=("p*",))
    slow = "plain,throttle=latency=100ms"
    found = compared(Reading.of("A", file, "plain", options), Reading.of("B", file, slow, options))
    assert found.wall.low is not None
    assert found.wall.low > 1.0
    assert found.phases[0].phase == "wait"
    assert found.phases[0].seconds > 0.1
    assert {one.events for one in found.samples} == {ENTRIES}
    for one in found.samples:
        assert sum(one.phases.values()) == pytest.approx(one.wall_s, rel=0.5)
        assert one.temperature is not None
        assert (one.temperature.cached_bytes, one.temperature.local_bytes) == (0, os.path.getsize(file))
    # The tests beside this one keep the machine busy.
    lines = verdict(replace(found, is_busy=False))
    assert "the difference lies in wait (+" in lines[1]
    assert "A was cold: before each run 0 B of" in lines[2] or "A was cold: before each run 0 B of" in lines[3]


@pytest.mark.long
def test_warm_files_are_proved_to_be_warm(file: str) -> None:
    options = ReadingOptions(is_cold=False)
    found = compared(*(Reading.of(name, file, "", options) for name in "AB"))
    assert all(one.temperature and one.temperature.cached_bytes == os.path.getsize(file) for one in found.samples)
    assert any(line.startswith("B was warm: before each run") for line in verdict(found))


def test_places_with_other_entries_are_not_compared(file: str, tmp_path: Path) -> None:
    other = written(tmp_path / "b.root", ENTRIES - 1)
    with pytest.raises(FailedCommandError, match="different data: A has 50 000 entries and B 49 999 entries"):
        compared(*(Reading.of(name, one, "", ReadingOptions()) for name, one in (("A", file), ("B", other))))


def test_a_reading_that_fails_is_told_with_its_error(file: str) -> None:
    options = ReadingOptions(tree="Events")
    with pytest.raises(FailedCommandError, match="NoSuchKeyError"):
        compared(*(Reading.of(name, file, "", options) for name in "AB"))
    with pytest.raises(BranchlineError, match="NoSuchKeyError"):
        Reading.of("A", file, "", ReadingOptions(tree="Events", is_cold=False)).prepare(60.0)


def test_a_file_that_goes_away_is_a_reading_that_fails(file: str) -> None:
    reading = Reading.of("A", file, "", ReadingOptions())
    os.unlink(file)
    taken = reading.taken(0, 0, None, 60.0)
    assert (taken.code, taken.said) == (1, f"{file}: No such file or directory")


def test_an_access_has_a_mode_and_fields() -> None:
    assert options_of("plain,read_ahead=1 MiB,requests-in-flight=4") == {
        "mode": "plain",
        "read_ahead": "1 MiB",
        "requests_in_flight": 4,
    }
    assert options_of("") == {}
    with pytest.raises(OptionError, match="has no value"):
        options_of("plain,read_ahead")


@pytest.mark.parametrize("access", ["quick", "plain,ahead=3", "plain,read_ahead=1"])
def test_an_access_that_is_none_is_refused_before_anything_runs(file: str, access: str) -> None:
    with pytest.raises(OptionError):
        Reading.of("A", file, access, ReadingOptions())


def test_files_are_told_from_commands(file: str, tmp_path: Path) -> None:
    places = [file, str(tmp_path), f"{tmp_path}/*.root", "root://host//a.root", f"{file}:events", "missing.root"]
    assert [one for one in places if not is_place(one)] == []
    commands = ["sleep 1", sys.executable, "cat a.txt | wc", f"{sys.executable} -c 'open(0)'", "true"]
    assert [one for one in commands if is_place(one)] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["{file}"], "nothing to compare with"),
        (["{file}", "sleep 1"], "with the command 'sleep 1'"),
        (["true", "true", "--tree", "events"], "only apply to files"),
        (["true", "true", "--warm"], "only apply to files"),
        (["{file}", "--access", "plain", "--access", "cache", "--access", "stage"], "given 3 times"),
        (["{file}", "/nonexistent/b.root"], "there is no such file"),
    ],
)
def test_what_does_not_go_together_is_refused(file: str, words: list[str], said: str) -> None:
    done = run_command(["compare", *(one.replace("{file}", file) for one in words)])
    assert done.exit_code != 0
    assert said in done.stderr


@pytest.mark.long
def test_the_command_line_compares_two_layouts_and_keeps_the_samples(file: str, tmp_path: Path) -> None:
    other, kept = written(tmp_path / "b.root"), tmp_path / "samples.json"
    done = run([file, other, "--tree", "events", "--branches", "px", "--precision", "90%", "-o", str(kept)])
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == f"A: read {file}"
    assert lines[2].startswith("control: A takes")
    assert "the time of A (medians" in lines[3] or "busy with other programs" in lines[3]
    assert len(json.loads(kept.read_text())["samples"]) >= 18


def run(words: list[str]) -> subprocess.CompletedProcess[str]:
    return run_branchline(Path.cwd(), ["compare", *words])
