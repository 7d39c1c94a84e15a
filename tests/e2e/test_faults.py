"""Everything that goes wrong gives one clear message and an exit code, and what was finished is kept.

Each fault is a real one: files are cut and their bytes flipped, disks are full, processes are killed.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import uproot
from tests.patience import HANG_S
from tests.sampled import long_but

from branchline import run
from branchline.jobs.ledger import LEDGER_NAME, Ledger

FILES = 6
EVENTS_PER_FILE = 60_000
EVENTS = FILES * EVENTS_PER_FILE

# Leaves a mark for each chunk, and takes its time from the third file on.
SLOW_WAGONS = """
import os, time
from pathlib import Path

class Slow:
    def process(self, events):
        where = events.metadata
        name = Path(where["filename"]).stem
        Path({folder!r}, f"{{os.getpid()}}-{{name}}-{{where['entrystart']}}.mark").touch()
        if name >= "f2" and where["entrystart"] > 0:
            time.sleep(30)
        return {{"events": len(events), "sum": float(events.px[0])}}
"""


def job_of(tmp_path: Path) -> dict[str, Any]:
    job: dict[str, Any] = json.loads((tmp_path / "out" / "job.json").read_text())
    return job


def lost_in(skipped: dict[str, Any]) -> int:
    """The events lost with a file: those that the error gives, or all of them where it cannot be opened."""
    lost = skipped["entries_lost"]
    return EVENTS_PER_FILE if lost is None else int(lost)


def replace_bytes(path: Path, content: bytes) -> None:
    """Replaces a file by a new one: the old one is a link to another test's."""
    path.unlink()
    path.write_bytes(content)


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    replace_bytes(path, b"")


def cut_short(path: Path) -> None:
    replace_bytes(path, path.read_bytes()[: path.stat().st_size * 2 // 3])


def not_root(path: Path) -> None:
    replace_bytes(path, b"<html>404 not found</html>" * 1000)


def flipped_byte(path: Path) -> None:
    """Flips one byte in the middle of the compressed data of the third basket of px."""
    with uproot.open(path) as file:
        branch = file["events/px"]
        position = branch.basket_key(2).fSeekKey + branch.basket_key(2).fKeylen + branch.basket_key(2).fNbytes // 2
    content = bytearray(path.read_bytes())
    content[position] ^= 0x10
    replace_bytes(path, bytes(content))


FAULTS = [missing, empty, cut_short, not_root, flipped_byte]


@pytest.mark.parametrize("workers", long_but([1, 2], [2]))
@pytest.mark.parametrize("fault", FAULTS)
def test_a_bad_file_is_named_in_one_message(
    branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path, fault: Any, workers: int
) -> None:
    fault(data / "f3.root")
    files = [data / f"f{index}.root" for index in range(FILES)]
    ended = branchline("run", plain_wagons, *files, "-o", "out", "--workers", workers)
    assert ended.returncode == 1
    (message,) = [line for line in ended.stderr.splitlines() if line.startswith("branchline:")]
    assert "f3.root" in message
    assert "Traceback" not in ended.stderr
    if fault is missing:
        assert not (tmp_path / "out").exists()
        return
    job = job_of(tmp_path)
    assert job["status"] == "partial"
    assert job["errors"][0]["path"].endswith("f3.root")
    if workers == 1:
        assert job["events"] >= 3 * EVENTS_PER_FILE
    assert job["wagons"][0]["status"] == "partial"
    assert (tmp_path / "out" / "results" / "counts.json").exists()
    assert "partial" in (tmp_path / "out" / "report.html").read_text().lower()


@pytest.mark.parametrize("fault", long_but(FAULTS, FAULTS[:2]))
def test_a_bad_file_is_skipped_when_asked_for_and_never_silently(
    branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path, fault: Any
) -> None:
    fault(data / "f3.root")
    files = [data / f"f{index}.root" for index in range(FILES)]
    ended = branchline("run", plain_wagons, *files, "-o", "out", "--workers", 2, "--skip-bad-files")
    assert ended.returncode == 3, ended.stderr
    (message,) = [line for line in ended.stderr.splitlines() if line.startswith("branchline:")]
    assert "skipped" in message
    assert "f3.root" in message
    job = job_of(tmp_path)
    (skipped,) = job["skipped"]
    assert skipped["path"].endswith("f3.root")
    assert skipped["error"]
    assert job["events"] == EVENTS - lost_in(skipped)
    if fault is flipped_byte:
        assert skipped["entries_lost"] > 0
        lost = f"{skipped['entries_lost']:,}".replace(",", " ")
        assert f"{lost} events lost" in message
    assert "f3.root" in (tmp_path / "out" / "report.html").read_text()


@pytest.mark.parametrize("codec", [uproot.ZLIB(6), uproot.LZ4(4), uproot.LZMA(6)])
def test_a_flipped_byte_is_caught_by_the_checksum_of_the_codec(tmp_path: Path, codec: Any) -> None:
    """Wherever it is in the data; no value that is wrong may reach a wagon."""
    path = tmp_path / "flipped.root"
    values = np.round(np.random.default_rng(5).normal(size=20_000), 2)
    with uproot.recreate(path, compression=codec) as file:
        file.mktree("events", {"px": "float64"}).extend({"px": values})
    with uproot.open(path) as file:
        key = file["events/px"].basket_key(0)
        first, last = key.fSeekKey + key.fKeylen + 17, key.fSeekKey + key.fNbytes
    whole = path.read_bytes()
    for position in np.linspace(first, last - 1, 12, dtype=int):
        flipped = bytearray(whole)
        flipped[position] ^= 0x04
        replace_bytes(path, bytes(flipped))
        with pytest.warns(UserWarning, match="not complete.*px"):
            result = run(SumsOfMomenta(), str(path), workers=0)
        assert result.exit_code == 1, position
        assert result.outputs["SumsOfMomenta"] is None


class SumsOfMomenta:
    branches = ("px",)

    def process(self, events: Any) -> float:
        return float(np.sum(np.asarray(events.px)))


def test_a_bad_first_file_does_not_keep_the_train_from_learning(
    branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path
) -> None:
    empty(data / "f0.root")
    cut_short(data / "f1.root")
    ended = branchline("run", plain_wagons, data, "-o", "out", "--workers", 2, "--skip-bad-files")
    assert ended.returncode == 3, ended.stderr
    job = job_of(tmp_path)
    assert [Path(one["path"]).name for one in job["skipped"]] == ["f0.root", "f1.root"]
    assert job["events"] == EVENTS - sum(lost_in(one) for one in job["skipped"])
    assert job["misses"] == {}


def test_nothing_but_bad_files_is_no_success(branchline: Any, plain_wagons: Path, data: Path) -> None:
    empty(data / "f0.root")
    ended = branchline("run", plain_wagons, data / "f0.root", "-o", "out", "--skip-bad-files")
    assert ended.returncode == 1
    assert ended.stdout.startswith("failed: 0 events")
    assert "f0.root" in ended.stderr


def test_a_tree_that_is_not_there_is_told_with_the_nearest_names(
    branchline: Any, plain_wagons: Path, data: Path
) -> None:
    for arguments in ([f"{data / 'f0.root'}:evnts"], [data / "f0.root", "--tree", "evnts"]):
        ended = branchline("run", plain_wagons, *arguments, "-o", "out", "--workers", 1)
        assert ended.returncode == 1
        assert "f0.root" in ended.stderr
        assert "evnts" in ended.stderr
        assert re.search(r"\bevents\b", ended.stderr)
        assert "Traceback" not in ended.stderr


def test_a_branch_that_is_not_there_names_the_wagon_and_the_nearest_names(
    branchline: Any, data: Path, tmp_path: Path
) -> None:
    (tmp_path / "w.py").write_text("class W:\n  branches = ['pxx']\n  def process(self, events): return 1\n")
    ended = branchline("run", "w.py", data, "-o", "out")
    assert ended.returncode == 1
    assert "wagon 'W'" in ended.stderr
    assert "pxx" in ended.stderr
    assert re.search(r"\bpx\b", ended.stderr)


@pytest.mark.parametrize("workers", long_but([1, 2], [2]))
def test_a_wagon_that_raises_stops_alone(
    branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path, workers: int
) -> None:
    plain_wagons.write_text(
        plain_wagons.read_text()
        + "\nclass Fails:\n  def process(self, events):\n"
        + "    if 'f4' in events.metadata['filename']: raise RuntimeError('no calibration')\n"
        + "    return len(events.px)\n"
    )
    ended = branchline("run", plain_wagons, data, "-o", "out", "--workers", workers)
    assert ended.returncode == 3
    (message,) = [line for line in ended.stderr.splitlines() if line.startswith("branchline:")]
    assert "wagon Fails stopped at" in message
    assert "f4.root, entries 0 to " in message
    assert "RuntimeError: no calibration" in message
    assert "Traceback" not in ended.stderr
    wagon_by_name = {one["name"]: one for one in job_of(tmp_path)["wagons"]}
    assert wagon_by_name["counts"]["events"] == EVENTS
    assert wagon_by_name["Fails"]["events"] == 4 * EVENTS_PER_FILE
    assert "no calibration" in (tmp_path / "out" / "report.html").read_text()
    if workers == 2:
        ended = branchline("run", plain_wagons, data, "-o", "out", "--workers", workers, "--force", "--debug")
        assert "in process" in ended.stderr
        assert "Traceback" in ended.stderr


@pytest.mark.parametrize("workers", long_but([1, 2], [2]))
def test_ctrl_c_keeps_what_was_finished_and_leaves_no_process(
    start_branchline: Any, data: Path, tmp_path: Path, workers: int
) -> None:
    (tmp_path / "slow.py").write_text(SLOW_WAGONS.format(folder=str(tmp_path)))
    settings = ("-o", "out", "--workers", workers, "--step-size", "20000")
    running = start_branchline("run", "slow.py", data, *settings)
    # Each waits in another file: a worker that starts late leaves it to the first which files it has.
    running.wait_for(workers, "*-f[2-5]-2*.mark", tmp_path)
    running.interrupt()
    ended = running.ended()
    assert ended.returncode == 130, ended.stderr
    assert "interrupted" in ended.stderr
    assert "Traceback" not in ended.stderr
    job = job_of(tmp_path)
    assert job["status"] == "partial"
    assert job["interrupted"]
    assert 2 * EVENTS_PER_FILE <= job["events"] < EVENTS
    assert job["wagons"][0]["events"] == job["events"]
    assert_gone({int(one.name.split("-")[0]) for one in tmp_path.glob("*.mark")})


# Waits in the third file, the first time that a worker comes there.
WAITING_WAGONS = """
import os, time
from pathlib import Path

class Waits:
    def process(self, events):
        mark = Path({folder!r}, "waits.mark")
        if "f2" in events.metadata["filename"] and not mark.exists():
            mark.write_text(str(os.getpid()))
            time.sleep(60)
        return {{"events": len(events)}}
"""

CRASHING_WAGONS = """
import ctypes

class Counts:
    def process(self, events):
        return len(events)

class Crashes:
    def process(self, events):
        if "f2" in events.metadata["filename"]:
            ctypes.string_at(0)
        return len(events)
"""


def test_the_files_of_a_killed_worker_go_to_another(start_branchline: Any, data: Path, tmp_path: Path) -> None:
    (tmp_path / "waiting.py").write_text(WAITING_WAGONS.format(folder=str(tmp_path)))
    running = start_branchline("run", "waiting.py", data, "-o", "out", "--workers", 2)
    [mark] = running.wait_for(1, "waits.mark", tmp_path)
    while not mark.read_text():
        time.sleep(0.01)
    os.kill(int(mark.read_text()), signal.SIGKILL)
    ended = running.ended()
    assert ended.returncode == 0, ended.stderr
    assert "SIGKILL" in ended.stdout
    assert "f2.root" in ended.stdout
    job = job_of(tmp_path)
    assert (job["status"], job["events"]) == ("finished", EVENTS)
    [lost] = job["workers_lost"]
    assert lost["is_dead"]
    assert lost["doing"].startswith("wagon Waits in")


@pytest.mark.parametrize("workers", long_but([1, 2], [2]))
def test_a_wagon_that_crashes_is_named_and_the_others_finish(
    branchline: Any, data: Path, tmp_path: Path, workers: int
) -> None:
    (tmp_path / "crashing.py").write_text(CRASHING_WAGONS)
    ended = branchline("run", "crashing.py", data, "-o", "out", "--workers", workers)
    assert ended.returncode == 3
    assert "wagon Crashes stopped" in ended.stderr
    assert "SIGSEGV" in ended.stderr
    assert "Traceback" not in ended.stderr
    job = job_of(tmp_path)
    assert job["events"] == EVENTS
    wagons = {one["name"]: one for one in job["wagons"]}
    assert (wagons["Counts"]["events"], wagons["Counts"]["error"]) == (EVENTS, None)
    assert wagons["Crashes"]["events"] == 2 * EVENTS_PER_FILE
    assert "f2.root" in wagons["Crashes"]["error"]["path"]


@pytest.mark.long
@pytest.mark.parametrize("times", long_but([1, 2], [2]))
def test_ctrl_c_ends_the_making_of_the_demo_s_data(start_branchline: Any, tmp_path: Path, times: int) -> None:
    """Once, the files in the making are finished; twice, nobody waits for them. Nothing half made is left."""
    # So many that they are not all made before anybody has looked.
    running = start_branchline("demo-data", "data", "--files", 1000, "--events", 20, "--workers", 2)
    running.wait_for(1, "data/collisions-*.root", tmp_path)
    end_s = time.monotonic() + HANG_S
    # With the process from which they are forked.
    while len(workers := running.children()) < 3 and time.monotonic() < end_s:
        time.sleep(0.02)
    assert len(workers) == 3
    for _ in range(times):
        running.interrupt()
        time.sleep(0.05)
    ended = running.ended()
    assert ended.returncode == 130, ended.stderr
    assert "stopping" in ended.stderr
    assert "interrupted" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert_gone(workers)
    made = {one.name for one in (tmp_path / "data").iterdir()}
    assert {Path(name).suffix for name in made} == {".root"}
    assert len(made) < 1000
    for name in made:
        with uproot.open(tmp_path / "data" / name) as file:
            assert file["events"].num_entries == 20


def assert_gone(pids: set[int]) -> None:
    """Those that were killed take a moment to end, on a busy machine a longer one."""
    assert pids
    end_s = time.monotonic() + HANG_S
    while (left := [pid for pid in pids if psutil.pid_exists(pid)]) and time.monotonic() < end_s:
        time.sleep(0.02)
    assert left == []


def test_a_full_disk_is_told_and_what_fits_is_kept(wagons: Path, data: Path, tmp_path: Path) -> None:
    """A file system of 48 kB holds some of the results and not the pictures."""
    can_mount = subprocess.run(["unshare", "--map-root-user", "--mount", "true"], check=False, capture_output=True)
    if can_mount.returncode:
        pytest.skip("needs a kernel that lets this user mount a file system of his own")
    (tmp_path / "out").mkdir()
    (tmp_path / "seen").mkdir()
    script = 'mount -t tmpfs -o size=48k none out && "$@"; code=$?; cp -r out/. seen/; exit $code'
    from_shell = ["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"]
    ended = run_with(from_shell, tmp_path, wagons, data)
    assert ended.returncode == 1, ended.stderr
    assert "No space left on device" in ended.stderr
    assert str(Path("out")) in ended.stderr
    assert "Traceback" not in ended.stderr
    names = {one.name for one in (tmp_path / "seen").iterdir()}
    assert "results.root" in names
    with uproot.open(tmp_path / "seen" / "results.root") as results:
        assert results.keys(recursive=True, filter_classname="TH1*")
    assert not [name for name in names if name.startswith(".")]
    if "job.json" in names:
        assert json.loads((tmp_path / "seen" / "job.json").read_text())["status"] == "partial"


def test_a_full_disk_does_not_cost_the_ledger_of_a_later_version(wagons: Path, data: Path, tmp_path: Path) -> None:
    can_mount = subprocess.run(["unshare", "--map-root-user", "--mount", "true"], check=False, capture_output=True)
    if can_mount.returncode:
        pytest.skip("needs a kernel that lets this user mount a file system of his own")
    for name in ("out", "seen"):
        (tmp_path / name).mkdir()
    later = tmp_path / LEDGER_NAME
    Ledger(later).close()
    with closing(sqlite3.connect(later)) as connection:
        connection.execute("PRAGMA user_version = 99")
    content = later.read_bytes()
    size_kb = len(content) // 1024 + 24
    script = f'mount -t tmpfs -o size={size_kb}k none out && cp -p {LEDGER_NAME} out && "$@"; code=$?; '
    script += "cp -r out/. seen/; exit $code"
    ended = run_with(["unshare", "--map-root-user", "--mount", "sh", "-c", script, "sh"], tmp_path, wagons, data)
    assert ended.returncode == 1, ended.stderr
    assert "No space left on device" in ended.stderr
    assert (tmp_path / "seen" / LEDGER_NAME).read_bytes() == content
    assert "out/ledger.sqlite has version 99" in ended.stderr
    assert "move it away" in ended.stderr


def test_a_limit_on_the_size_of_files_is_told(wagons: Path, data: Path, tmp_path: Path) -> None:
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, limit[1]))
    try:
        ended = run_with([], tmp_path, wagons, data)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert ended.returncode == 1, ended.stderr
    assert "File too large" in ended.stderr
    assert "Traceback" not in ended.stderr


def run_with(before: list[str], folder: Path, wagons: Path, data: Path) -> Any:
    command = [*before, sys.executable, "-m", "branchline.cli", "run", str(wagons), str(data), "-o", "out"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=280)


def test_an_output_that_cannot_be_written_is_refused_before_the_train_runs(
    branchline: Any, plain_wagons: Path, data: Path, tmp_path: Path
) -> None:
    ended = branchline("run", plain_wagons, data, "-o", "/proc/branchline-out")
    assert ended.returncode == 1
    assert "/proc/branchline-out" in ended.stderr
    assert "Traceback" not in ended.stderr
    assert "events/s" not in ended.stderr
