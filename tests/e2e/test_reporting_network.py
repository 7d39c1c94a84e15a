"""The network between a job and its control room fails in mid-train: nothing is lost, and nothing counts twice."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from urllib.request import Request, urlopen

import pytest
from tests.e2e.conftest import EVENTS, FILES, Branchline, Running
from tests.e2e.control_room import TOKEN, Room
from tests.e2e.network import Network, State, network
from tests.e2e.test_reporting import check_as_in_the_record, every_file, files_of, spooled, waiting_wagons

WAIT_S = 240


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN", TOKEN)


def files_in_the_table(room: Room) -> int:
    """The files that the table of sites by storage elements has in all."""
    request = Request(f"{room.url}/sites.json?days=2", headers={"Authorization": f"Bearer {TOKEN}"})
    with urlopen(request, timeout=WAIT_S) as answer:
        return int(json.load(answer)["table"]["total"]["every"]["files"])


def wait_until(is_so: Callable[[], bool]) -> None:
    end_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < end_s
        time.sleep(0.05)


def test_the_network_is_cut_in_mid_train_and_comes_back(
    start_branchline: Callable[..., Running], branchline: Branchline, data: Path, tmp_path: Path, room: Room
) -> None:
    with network(room.port) as between:
        running = started(start_branchline, between, data, tmp_path)
        room.wait_for(files_of)
        between.turn(State.CUT)
        (tmp_path / "go.txt").touch()
        wait_until(lambda: len(list(tmp_path.glob("*.mark"))) == FILES)
        between.turn(State.WORKS)
        check_all_counts_once(running, branchline, between, room, tmp_path)


@pytest.mark.long
def test_reports_whose_answers_are_lost_count_once(
    start_branchline: Callable[..., Running], branchline: Branchline, data: Path, tmp_path: Path, room: Room
) -> None:
    with network(room.port) as between:
        between.turn(State.LOSES_ANSWERS)
        running = started(start_branchline, between, data, tmp_path)
        wait_until(lambda: between.lost_answers > 0)
        (tmp_path / "go.txt").touch()
        ended = running.ended()
        assert ended.returncode == 0, ended.stderr
        between.turn(State.WORKS)
        check_all_counts_once(running, branchline, between, room, tmp_path)
        assert room.sent_again() > 0


@pytest.mark.long
def test_a_network_that_swallows_all_holds_no_job_up(
    start_branchline: Callable[..., Running], branchline: Branchline, data: Path, tmp_path: Path, room: Room
) -> None:
    with network(room.port) as between:
        running = started(start_branchline, between, data, tmp_path)
        room.wait_for(files_of)
        between.turn(State.SWALLOWS)
        (tmp_path / "go.txt").touch()
        ended = running.ended()
        assert ended.returncode == 0, ended.stderr
        assert "send them with: branchline report send" in ended.stderr
        assert len(spooled(tmp_path)) >= 1
        between.turn(State.WORKS)
        check_all_counts_once(running, branchline, between, room, tmp_path)


def started(start_branchline: Callable[..., Running], between: Network, data: Path, tmp_path: Path) -> Running:
    """A job that reports through this network, and has read one file."""
    address = f"http://127.0.0.1:{between.port}"
    running = start_branchline("run", waiting_wagons(tmp_path), data, "-o", "out", "-j", 2, "--report-to", address)
    running.wait_for(3, "*.mark", tmp_path)
    return running


def check_all_counts_once(
    running: Running, branchline: Branchline, between: Network, room: Room, tmp_path: Path
) -> None:
    """The job ended well, and the control room has each of its readings once."""
    ended = running.ended()
    assert ended.returncode == 0, ended.stderr
    sent = branchline("report", "send", "--to", f"http://127.0.0.1:{between.port}")
    assert sent.returncode == 0, sent.stderr
    assert files_of(room.received()) == every_file()
    check_as_in_the_record(room.received(), tmp_path / "out")
    assert spooled(tmp_path) == []
    [row] = room.shown().rows
    assert (row.status, row.events, row.done) == ("finished", EVENTS, FILES)
    assert files_in_the_table(room) == FILES
