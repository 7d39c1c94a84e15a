"""How to read is said once for all commands, checked, and reaches the workers and the record of the job."""

from __future__ import annotations

import json
import pickle
import socket
import threading
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot
from tests.command_line import run_command

import branchline
from branchline import Access, OptionError
from branchline.base.option_fields import option_of
from branchline.reading.access import EXPERIMENTS, access_of, longest_wait_s
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
        mode="cache", local="auto", read_ahead=2**20, gap=0, requests_in_flight=3, bytes_in_flight=2_500_000
    )
    assert pickle.loads(pickle.dumps(access)) == access == access_of(access)
    assert AccessRecord.of(access_of(None)) == AccessRecord("planned", local="auto")
    assert {one.name for one in fields(Access)} == {"mode", *AccessRecord.names()}
    assert access_of("plain") == Access(mode="plain")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("mode", "fast"), ("mode", None), ("read_ahead", "4 KB"), ("read_ahead", "129 MiB"), ("read_ahead", "much"),
        ("read_ahead", 1.5), ("gap", -1), ("gap", "-1"), ("tree_cache", 0), ("tree_cache", "1 parsec"),
        ("timeout", 0), ("timeout", "1"), ("timeout", 86401), ("tries", 0), ("tries", 1.5), ("tries", 101),
        ("server_wait", -1), ("retry_pause", 3601), ("retry_pause", float("nan")),
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


def test_waits_of_an_access_count_more_than_those_of_the_environment(
    files: tuple[Path, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("TIMEOUT", "20"), ("WAIT", "30"), ("TRIES", "5"), ("PAUSE", "0.1")):
        monkeypatch.setenv(f"BRANCHLINE_STORAGE_{name}", value)
    most = longest_wait_s(Access())
    assert most - longest_wait_s(Access(server_wait=0)) == pytest.approx(30)
    assert longest_wait_s(Access(tries=1, server_wait=0)) * 5 == pytest.approx(most - 30)
    assert longest_wait_s(Access(timeout=1)) < most
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "never")
    with pytest.raises(OptionError, match="BRANCHLINE_STORAGE_TIMEOUT"):
        branchline.open(files[1][0])
    monkeypatch.delenv("BRANCHLINE_STORAGE_TIMEOUT")
    out = tmp_path / "out"
    options = ["--timeout", "7", "--server-wait", "9.5", "--tries", "2", "--retry-pause", "0"]
    result = run_command(["run", str(files[0]), *files[1], "-o", str(out), *options, "-j", "1"])
    assert result.exit_code == 0, result.output
    access = json.loads((out / "job.json").read_text())["access"]
    chosen = {name: value for name, value in access.items() if value is not None}
    waits = {"timeout": 7.0, "server_wait": 9.5, "tries": 2, "retry_pause": 0.0}
    assert chosen == {"mode": "planned", "local": "auto", **waits}
    shown = " ".join((out / "report.html").read_text().split())
    assert "timeout 7 s, server wait 9.5 s, tries 2, retry pause 0 s" in shown


def test_a_request_is_tried_as_often_as_the_access_says() -> None:
    requests: list[bytes] = []
    with socket.create_server(("localhost", 0)) as server:

        def refuse() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    requests.append(connection.recv(65536))
                    connection.sendall(b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        url = f"http://localhost:{server.getsockname()[1]}/file.root"
        with pytest.raises(branchline.StorageError, match="503"):
            branchline.open(url, access=Access(tries=3, retry_pause=0))
        server.shutdown(socket.SHUT_RDWR)
    thread.join()
    assert len(requests) == 3


def test_only_ways_to_read_are_ways_to_read(files: tuple[Path, list[str]]) -> None:
    for wrong in (7, {"mode": "plain"}, "quick"):
        with pytest.raises(OptionError, match=r"planned"):
            branchline.open(files[1][0], access=wrong)


def test_a_command_hands_its_options_to_the_workers_and_the_record(
    files: tuple[Path, list[str]], tmp_path: Path
) -> None:
    wagon, paths = files
    out = tmp_path / "out"
    options = [
        *("--experiment", "access=plain", "--experiment", "read-ahead=64 KiB", "--requests-in-flight", "2", "-j", "2")
    ]
    result = run_command(["run", str(wagon), *paths, "-o", str(out), *options])
    assert result.exit_code == 0, result.output
    job = json.loads((out / "job.json").read_text())
    chosen = {name: value for name, value in job["access"].items() if value is not None}
    assert chosen == {"mode": "plain", "local": "auto", "read_ahead": 65536, "requests_in_flight": 2}
    assert "plain, read ahead 65.5" in (out / "report.html").read_text()


def test_experiments_of_a_command_are_fields_of_the_access() -> None:
    given = ["access=cache", "tree-cache=1 MB", "read-ahead=64 KiB", "throttle=latency=1ms,jitter=2ms", "fault=reset"]
    access = Access(gap=0).with_experiments(given)
    assert access == Access(
        mode="cache", tree_cache="1 MB", read_ahead=65536, throttle="latency=1ms,jitter=2ms", fault="reset", gap=0
    )
    assert set(EXPERIMENTS.values()) == {one.name for one in fields(Access) if option_of(one) is None} | {"mode"}
    assert access.words == "--experiment access=cache --experiment read-ahead=65536"
    assert Access(mode="stage").words == "--access stage"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["speed=7"], "unknown experiment 'speed=7' (choose one of access=VALUE"), (["fault"], "unknown experiment"),
        (["access=stage"], "choose access=plain or access=cache"), (["fault=reset", "fault=short"], "given twice"),
        (["read-ahead=1"], "invalid read-ahead of '1'"), (["fault="], "stall,every=50"),
        (["tree-cache=1MB"], "add --experiment access=cache"),
    ],
)  # fmt: skip
def test_an_impossible_experiment_is_refused(files: tuple[Path, list[str]], given: list[str], message: str) -> None:
    words = [word for one in given for word in ("--experiment", one)]
    done = run_command(["show", files[1][0], *words])
    assert done.exit_code == 2
    assert message in done.output


def test_an_experiment_that_contradicts_the_access_mode_is_refused(files: tuple[Path, list[str]]) -> None:
    done = run_command(["show", files[1][0], "--access", "stage", "--experiment", "access=plain"])
    assert done.exit_code == 2
    assert "contradicts --access stage" in done.output


@pytest.mark.parametrize(("field", "value"), [("throttle", "slowly"), ("fault", "every=3"), ("throttle", 5)])
def test_a_trouble_that_means_nothing_is_refused_with_one_that_does(field: str, value: Any) -> None:
    with pytest.raises(OptionError, match=r"latency=63ms|stall,every=50|as text"):
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
    assert "invalid gap of 'wide'" in result.output
