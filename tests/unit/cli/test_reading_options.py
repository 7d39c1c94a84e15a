"""How to read is said once for all commands, checked, and reaches the workers and the record of the job."""

from __future__ import annotations

import json
import pickle
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline import Access, OptionError
from branchline.reading.access import access_of
from branchline.records.sensors.record import AccessRecord

WAGON = "class Count:\n    def process(self, events):\n        return {'sum': int(events.x.to_numpy().sum())}\n"


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, list[str]]:
    wagon = tmp_path / "wagon.py"
    wagon.write_text(WAGON)
    paths = [tmp_path / f"{number}.root" for number in range(2)]
    for number, path in enumerate(paths):
        with uproot.recreate(path) as file:
            file["events"] = {"x": np.arange(100) + number}
    return wagon, [str(path) for path in paths]


def test_sizes_are_texts_or_bytes_and_bytes_afterwards() -> None:
    access = Access(mode="cache", read_ahead="1 MiB", gap=0, bytes_in_flight="2.5 MB", requests_in_flight=3)
    assert (access.read_ahead, access.gap, access.bytes_in_flight, access.tree_cache) == (
        2**20,
        0,
        2_500_000,
        30 * 10**6,
    )
    assert AccessRecord.of(access) == AccessRecord(
        mode="cache", read_ahead=2**20, gap=0, requests_in_flight=3, bytes_in_flight=2_500_000
    )
    assert pickle.loads(pickle.dumps(access)) == access == access_of(access)
    assert AccessRecord.of(access_of(None)) == AccessRecord("planned")
    assert {one.name for one in fields(Access)} == {"mode", *AccessRecord.names()}
    assert access_of("plain") == Access(mode="plain")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "fast"), ("mode", None), ("read_ahead", "4 KB"), ("read_ahead", "129 MiB"), ("read_ahead", "much"),
        ("read_ahead", 1.5), ("gap", -1), ("gap", "-1"), ("tree_cache", 0), ("tree_cache", "1 parsec"),
        ("streams", 0), ("streams", 17), ("streams", None),
        ("requests_in_flight", 0), ("requests_in_flight", 10**6), ("requests_in_flight", True),
        ("requests_in_flight", "3"), ("bytes_in_flight", "0"), ("bytes_in_flight", True), ("bytes_in_flight", 2**70),
    ],
)  # fmt: skip
def test_what_is_impossible_is_refused_with_what_is_possible(field: str, value: Any) -> None:
    with pytest.raises(OptionError) as raised:
        Access(**{field: value})
    assert repr(value) in str(raised.value)
    assert raised.value.hint


def test_only_ways_to_read_are_ways_to_read(files: tuple[Path, list[str]]) -> None:
    for wrong in (7, {"mode": "plain"}, "quick"):
        with pytest.raises(OptionError, match=r"planned"):
            branchline.open(files[1][0], access=wrong)


def test_a_command_hands_its_options_to_the_workers_and_the_record(
    files: tuple[Path, list[str]], tmp_path: Path
) -> None:
    wagon, paths = files
    out = tmp_path / "out"
    options = ["--access", "plain", "--read-ahead", "64 KiB", "--requests-in-flight", "2", "-j", "2"]
    result = run_command(["run", str(wagon), *paths, "-o", str(out), *options])
    assert result.exit_code == 0, result.output
    job = json.loads((out / "job.json").read_text())
    chosen = {name: value for name, value in job["access"].items() if value is not None}
    assert chosen == {"mode": "plain", "read_ahead": 65536, "requests_in_flight": 2}
    assert "plain, read ahead 65.5" in (out / "report.html").read_text()


@pytest.mark.parametrize(("field", "value"), [("throttle", "slowly"), ("fault", "every=3"), ("throttle", 5)])
def test_a_trouble_that_means_nothing_is_refused_with_one_that_does(field: str, value: Any) -> None:
    with pytest.raises(OptionError, match=r"latency=63ms|stall,every=50|as a text"):
        Access(**{field: value})


def test_a_storage_fails_and_is_slow_as_asked(files: tuple[Path, list[str]]) -> None:
    with pytest.raises(branchline.StorageError, match="closed the connection"):
        branchline.open(files[1][0], access=Access(fault="reset"))
    slow = Access(throttle="latency=1ms,bandwidth=100MB/s")
    assert len(branchline.open(files[1][0], access=slow)["events"].arrays()) == 100


@pytest.mark.parametrize("command", ["run", "test", "show"])
def test_every_command_that_reads_refuses_wrong_options_alike(command: str, files: tuple[Path, list[str]]) -> None:
    wagon, paths = files
    arguments = [paths[0]] if command == "show" else [str(wagon), *paths]
    if command == "run":
        arguments += ["-o", str(wagon.parent / "none")]
    result = run_command([command, *arguments, "--gap", "wide"])
    assert result.exit_code == 2
    assert "a gap of 'wide' is impossible" in result.output
