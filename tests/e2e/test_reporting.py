"""Jobs that report to a real server: it goes away and comes back, jobs are killed, and each reading counts once."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import suppress
from multiprocessing import get_context
from pathlib import Path

import pytest
from tests.e2e.conftest import EVENTS, FILES, Branchline, Running
from tests.e2e.control_room import TOKEN, Room
from tests.local_dask import local_cluster
from tests.patience import HANG_S
from tests.sampled import long_but
from tests.stores.servers import free_port

import branchline as package
from branchline.errors import ReportWarning
from branchline.records.sending.message import ReportBatch

# Waits in each file but the first until go.txt is there. A result depends on the files that the source names, so this
# one is not named in one piece.
WAITING = """
import time
from pathlib import Path

class Waits:
    branches = ["px"]

    def process(self, events):
        name = Path(events.metadata["filename"]).name
        Path({folder!r}, name + ".mark").touch()
        while not Path({folder!r}, "go" + ".txt").exists() and "f0" not in name:
            time.sleep(0.02)
        return len(events)
"""


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN", TOKEN)


def files_of(batches: list[ReportBatch]) -> Counter[str]:
    """How often sub-jobs read each file."""
    return Counter(Path(one.path).name for batch in batches for one in batch.files if one.subjobs)


def every_file(times: int = 1) -> Counter[str]:
    return Counter({f"f{number}.root": times for number in range(FILES)})


def check_as_in_the_record(batches: list[ReportBatch], out: Path) -> None:
    """What was reported adds up to what job.json has."""
    job = json.loads((out / "job.json").read_text())
    for name in ("bytes_read", "read_calls", "events"):
        reported = sum(getattr(one, name) for batch in batches for one in batch.files)
        assert reported == sum(one[name] for one in job["files"]), name
    sites = [one for batch in batches for one in batch.sites]
    assert sum(one.bytes_read for one in sites) == sum(one["bytes_read"] for one in job["sites"]) > 0
    assert sum(one.files for one in sites) == FILES
    [last] = [one for one in batches if one.record is not None]
    assert last.record is not None
    assert last.status is not None
    assert last.record.files == []
    assert (last.record.status, last.record.events, last.status.status) == (job["status"], EVENTS, job["status"])
    assert last.record.wall_s == job["wall_s"]


def spooled(folder: Path) -> list[Path]:
    return sorted((folder / "state").rglob("*.json.gz"))


def batch_in(report: Path) -> ReportBatch:
    return ReportBatch.from_dict(json.loads(gzip.decompress(report.read_bytes())))


def waiting_wagons(folder: Path) -> Path:
    file = folder / "waits.py"
    file.write_text(WAITING.format(folder=str(folder)))
    return file


def test_a_run_reports_while_it_runs_and_the_token_is_nowhere(
    branchline: Branchline, plain_wagons: Path, data: Path, tmp_path: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BRANCHLINE_REPORT_TOKEN")
    address = f"--report-to={room.url}/?token={TOKEN}"
    ended = branchline("run", plain_wagons, data, "-o", "out", "-j", 2, address)
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    batches = room.received()
    assert [one.number for one in batches] == list(range(len(batches)))
    identity = batches[0].identity
    assert all(one.identity == identity for one in batches)
    assert (identity.kind, identity.name, identity.place, identity.out) == (
        "train",
        "out",
        "here",
        str(tmp_path / "out"),
    )
    assert identity.wagons == ["counts", "momenta"]
    assert files_of(batches) == every_file()
    check_as_in_the_record(batches, tmp_path / "out")
    assert spooled(tmp_path) == []
    [row] = room.shown().rows
    assert (row.identity.job, row.status, row.events, row.done) == (identity.job, "finished", EVENTS, FILES)
    written = [path for path in tmp_path.rglob("*") if path.is_file() and path != room.folder / "token"]
    assert [path for path in written if TOKEN.encode() in path.read_bytes()] == []
    assert TOKEN not in ended.stdout


@pytest.mark.long
def test_what_an_earlier_run_made_was_not_read_again(
    branchline: Branchline, plain_wagons: Path, data: Path, room: Room
) -> None:
    for _ in range(2):
        assert (
            branchline("run", plain_wagons, data, "-o", "out", "-j", 1, "--report-to", room.url, "--force").returncode
            == 0
        )
    batches = room.received()
    assert len({one.identity.job for one in batches}) == 2
    assert files_of(batches) == every_file()
    assert sum(one.record is not None for one in batches) == 2


def test_jobs_without_their_control_room_go_on_and_are_sent_later(
    branchline: Branchline, plain_wagons: Path, data: Path, tmp_path: Path, room: Room
) -> None:
    room.process.kill()
    ended = branchline("run", plain_wagons, data, "-o", "out", "-j", 2, "--report-to", room.url)
    assert ended.returncode == 0
    said = ended.stderr.splitlines()
    assert said[0] == f"branchline: reports cannot be sent to {room.url} now: Connection refused; the job continues"
    assert said[1].endswith(f"Connection refused; send them with: branchline report send --to {room.url}")
    assert len(said) == 2
    waiting = spooled(tmp_path)
    assert len(waiting) >= 2
    nothing = branchline("report", "send", "--to", room.url)
    assert nothing.returncode == 3
    assert nothing.stdout.splitlines()[1] == f"still waiting: {len(waiting)} reports"
    room.process.start()
    sent = branchline("report", "send", "--to", room.url + "/")
    assert (sent.returncode, sent.stdout) == (0, f"sent to {room.url}: {len(waiting)} reports\n")
    check_as_in_the_record(room.received(), tmp_path / "out")
    assert spooled(tmp_path) == []


@pytest.mark.long
def test_reports_are_for_one_control_room(
    branchline: Branchline, plain_wagons: Path, data: Path, tmp_path: Path, room: Room
) -> None:
    away = f"http://127.0.0.1:{free_port()}"
    branchline("run", plain_wagons, data, "-o", "out", "-j", 1, "--report-to", away)
    waiting = len(spooled(tmp_path))
    without = branchline("report", "send")
    assert without.returncode == 2
    assert without.stderr.endswith(f"(give --to; reports are waiting for {away})\n")
    sent = branchline("report", "send", "--to", room.url)
    assert sent.stdout == f"sent to {room.url}: 0 reports\nwaiting for {away}: {waiting} reports\n"
    assert room.received() == []


def test_a_control_room_that_dies_in_mid_train_has_all_when_it_is_back(
    start_branchline: Callable[..., Running], data: Path, tmp_path: Path, room: Room
) -> None:
    wagons = waiting_wagons(tmp_path)
    running = start_branchline("run", wagons, data, "-o", "out", "-j", 2, "--report-to", room.url)
    running.wait_for(3, "*.mark", tmp_path)
    room.wait_for(files_of)
    room.process.kill()
    (tmp_path / "go.txt").touch()
    while len(list(tmp_path.glob("*.mark"))) < FILES:
        time.sleep(0.05)
    room.process.start()
    ended = running.ended()
    assert ended.returncode == 0, ended.stderr
    # What the job did not send in the second that it waits at its end is sent now.
    sent = package_send(room)
    assert sent == 0
    assert files_of(room.received()) == every_file()
    check_as_in_the_record(room.received(), tmp_path / "out")
    assert spooled(tmp_path) == []


def package_send(room: Room) -> int:
    from tests.command_line import run_command

    return run_command(["report", "send", "--to", room.url]).exit_code


@pytest.mark.long
def test_what_a_killed_job_did_is_sent_by_the_next_one(
    start_branchline: Callable[..., Running],
    branchline: Branchline,
    plain_wagons: Path,
    data: Path,
    tmp_path: Path,
    room: Room,
) -> None:
    room.process.pause()
    running = start_branchline("run", waiting_wagons(tmp_path), data, "-o", "killed", "-j", 2, "--report-to", room.url)
    running.wait_for(3, "*.mark", tmp_path)
    end_s = time.monotonic() + HANG_S
    while not files_of([batch_in(one) for one in spooled(tmp_path)]):
        assert time.monotonic() < end_s
        time.sleep(0.05)
    running.kill()
    running.ended()
    room.process.go_on()
    left = len(spooled(tmp_path))
    assert branchline("run", plain_wagons, data, "-o", "out", "-j", 2, "--report-to", room.url).returncode == 0
    # A short job may have had no time for all.
    assert package_send(room) == 0
    killed = room.of_job("killed")
    assert len(killed) >= left
    assert files_of(killed) == Counter({"f0.root": 1})
    assert not any(one.record for one in killed)
    check_as_in_the_record(room.of_job("out"), tmp_path / "out")
    assert spooled(tmp_path) == []
    assert not list((tmp_path / "state").rglob("*.lock"))


@pytest.mark.long
def test_two_jobs_at_once_are_two_jobs(
    start_branchline: Callable[..., Running], plain_wagons: Path, data: Path, tmp_path: Path, room: Room
) -> None:
    both = [start_branchline("run", plain_wagons, data, "-o", name, "-j", 1, "--report-to", room.url) for name in "ab"]
    assert [one.ended().returncode for one in both] == [0, 0]
    assert room.sent_again() == 0
    for name in "ab":
        check_as_in_the_record(room.of_job(name), tmp_path / name)


def test_a_wrong_token_is_said_without_showing_it(
    branchline: Branchline, plain_wagons: Path, data: Path, room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN", "another-one")
    ended = branchline("run", plain_wagons, data, "-o", "out", "-j", 1, "--report-to", room.url)
    assert ended.returncode == 0
    assert "it rejects the token (status 401): check BRANCHLINE_REPORT_TOKEN" in ended.stderr
    assert "another-one" not in ended.stderr


@pytest.mark.parametrize("where", long_but(["this process", "processes", "executor", "dask"], ["processes"]))
def test_runs_in_python_report_from_every_place(
    plain_wagons: Path, data: Path, tmp_path: Path, room: Room, where: str
) -> None:
    if where == "dask":
        settings = {"dashboard_address": "127.0.0.1:0", "local_directory": str(tmp_path / "dask")}
        with local_cluster(2, threads_per_worker=1, **settings) as cluster:
            result = package.run(str(plain_wagons), str(data), tmp_path / "out", on=cluster, report_to=room.url)
    elif where == "executor":
        with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as executor:
            result = package.run(str(plain_wagons), str(data), tmp_path / "out", on=executor, report_to=room.url)
    else:
        workers = 0 if where == "this process" else 2
        result = package.run(str(plain_wagons), str(data), tmp_path / "out", workers=workers, report_to=room.url)
    assert result.record.events == EVENTS
    batches = room.received()
    assert {one.identity.place for one in batches} == {where if where in ("executor", "dask") else "here"}
    check_as_in_the_record(batches, tmp_path / "out")


def test_a_run_in_memory_reports_and_warns_of_what_waits(plain_wagons: Path, data: Path, room: Room) -> None:
    package.run(str(plain_wagons), str(data), workers=1, report_to=room.url)
    [last] = [one for one in room.received() if one.record is not None]
    assert last.identity.name == "counts, momenta"
    room.process.kill()
    with pytest.warns(ReportWarning, match=r"reports could not be sent to http://127.0.0.1:\d+: Connection refused"):
        package.run(str(plain_wagons), str(data), workers=1, report_to=room.url)


def test_a_run_that_stops_by_an_error_reports_how_it_ended(data: Path, tmp_path: Path, room: Room) -> None:
    (data / "f3.root").unlink()
    (data / "f3.root").write_bytes(b"root" + bytes(2000))
    file = tmp_path / "counts.py"
    file.write_text(
        "class Counts:\n    branches = ['px']\n    def process(self, events):\n        return len(events)\n"
    )
    with pytest.warns(UserWarning, match="this train is not complete"):
        package.run(str(file), str(data), tmp_path / "out", workers=1, report_to=room.url)
    [last] = [one for one in room.received() if one.record is not None]
    assert last.status is not None
    assert last.status.errors
    assert last.record is not None
    assert last.record.status == json.loads((tmp_path / "out" / "job.json").read_text())["status"] == "partial"


def test_without_a_control_room_nothing_is_written(
    branchline: Branchline, plain_wagons: Path, data: Path, tmp_path: Path
) -> None:
    assert branchline("run", plain_wagons, data, "-o", "out", "-j", 1).returncode == 0
    assert not (tmp_path / "state").exists()
    os.environ["BRANCHLINE_REPORT_TO"] = "ftp://nowhere"
    try:
        ended = branchline("run", plain_wagons, data, "-o", "other", "-j", 1)
    finally:
        del os.environ["BRANCHLINE_REPORT_TO"]
    assert ended.returncode == 2
    assert "the control room URL must start with http:// or https://" in ended.stderr
    assert not (tmp_path / "other").exists()


READS_TWO = """
import sys
for path in sys.argv[2:]:
    with open(path, "rb", buffering=0) as file:
        while file.read(100_000):
            pass
sys.exit(int(sys.argv[1]))
"""


@pytest.mark.parametrize("code", long_but([0, 3], [3]))
def test_a_program_of_another_kind_reports_what_it_read(
    branchline: Branchline, data: Path, tmp_path: Path, room: Room, code: int
) -> None:
    program = tmp_path / "reads.py"
    program.write_text(READS_TWO)
    two = [data / "f0.root", data / "f1.root"]
    words = ["trace", "run", "-o", "reads.parquet", "--report-to", room.url, "--", sys.executable, program, code, *two]
    ended = branchline(*words)
    assert ended.returncode == code, ended.stderr
    batches = room.received()
    identity = batches[0].identity
    assert (identity.kind, identity.name, identity.wagons) == ("trace", Path(sys.executable).name, [])
    assert str(program) in identity.command
    assert files_of(batches) == Counter({"f0.root": 1, "f1.root": 1})
    size_bytes = sum(one.stat().st_size for one in two)
    assert sum(one.bytes_read for batch in batches for one in batch.files) == size_bytes
    [reading] = [one for batch in batches for one in batch.sites]
    assert (reading.storage_element, reading.nearness) == ("local files", "host")
    assert (reading.files, reading.bytes_read) == (2, size_bytes)
    [last] = [one for one in batches if one.record is not None]
    assert last.record is not None
    assert (last.record.status, last.record.totals.bytes_read) == ("failed" if code else "finished", size_bytes)
    assert last.record.wall_s > reading.wall_s > 0
    assert [one.message for one in last.record.errors] == ([f"the program ended with exit code {code}"] if code else [])
    [row] = room.shown().rows
    assert (row.identity.kind, row.status) == ("trace", last.record.status)


def test_a_program_that_cannot_start_is_no_job(branchline: Branchline, tmp_path: Path, room: Room) -> None:
    ended = branchline("trace", "run", "--report-to", room.url, "--", "no-such-program-anywhere")
    assert ended.returncode == 2
    assert "command not found: no-such-program-anywhere" in ended.stderr
    assert room.received() == []
    assert not (tmp_path / "state").exists()


@pytest.fixture
def full_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a disk without room."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]
    if subprocess.run(words, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    try:
        with suppress(OSError):
            (disk / "filling").write_bytes(bytes(2**20))
        yield disk
    finally:
        subprocess.run(["umount", str(disk)], check=True)


@pytest.mark.long
def test_a_full_disk_for_the_spool_loses_nothing_while_the_server_is_there(
    branchline: Branchline,
    plain_wagons: Path,
    data: Path,
    tmp_path: Path,
    room: Room,
    full_disk: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(full_disk))
    there = branchline("run", plain_wagons, data, "-o", "out", "-j", 1, "--report-to", room.url)
    assert (there.returncode, there.stderr) == (0, "")
    check_as_in_the_record(room.received(), tmp_path / "out")
    room.process.kill()
    away = branchline("run", plain_wagons, data, "-o", "other", "-j", 1, "--report-to", room.url)
    assert away.returncode == 0
    assert f"readings of files to {room.url} are lost: " in away.stderr
    assert "No space left on device" in away.stderr
