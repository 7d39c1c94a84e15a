"""`--trace` records the reads that the kernel sees, of all processes of a job, also of one that is killed."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
import uproot
from tests.page_cache import in_page_cache
from tests.patience import HANG_S
from tests.peers.peers import missing

from branchline.errors import OptionError
from branchline.reading.datasets.identity import HEAD_BYTES
from branchline.tracing.recording import recording, recover
from branchline.tracing.trace import EXTENT, REQUEST, SPAN, Trace, read_trace
from branchline.tracing.trace_summary import summarise

BRANCHES = [f"branch_{number}" for number in range(30)]
WAGON = """
class Sum:
    branches = ["branch_3", "branch_4", "branch_20"]

    def process(self, events):
        return float(sum(events[name].to_numpy().sum() for name in self.branches))
"""
LATE = """
class Late:
    branches = ["branch_3"]

    def process(self, events):
        self.count = getattr(self, "count", 0) + 1
        return float(events["branch_3" if self.count < 2 else "branch_7"].to_numpy().sum())
"""
#: Leaves a file when it has the last chunk: all is read by then.
SLOW = """
import time
from pathlib import Path

class Slow:
    branches = ["branch_3", "branch_4", "branch_20"]

    def process(self, events):
        if events.metadata["entrystop"] == 54_000:
            Path({mark!r}).touch()
            time.sleep(1000)
        return 0
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A file that is too large to be read whole, and two small ones."""
    folder = tmp_path_factory.mktemp("files")
    random = np.random.default_rng(5)
    for number in range(3):
        with uproot.recreate(folder / f"{number}.root", compression=uproot.ZLIB(1)) as file:
            tree = file.mktree("events", dict.fromkeys(BRANCHES, "float64"))
            for _ in range(3):
                tree.extend({name: random.normal(size=2000 if number else 18_000) for name in BRANCHES})
    return sorted(folder.glob("*.root"))


def reads_in(folder: Path, files: Container[Path], until_s: float, since_s: float = 0.0) -> list[tuple[str, int, int]]:
    """File, offset and bytes of every read of these files that strace saw in this time, in order of these."""
    found = []
    for part in folder.glob("calls.*"):
        for line in part.read_text().splitlines():
            if not since_s <= float(line.split(" ", 1)[0]) <= until_s:
                continue
            one = re.search(r"(?:pread64|preadv2)\(\d+<([^>]*)>, .*, (\d+)(?:, RWF_NOWAIT)?\) = (\d+|-1 EAGAIN)", line)
            if one is not None and (int(one[2]), one[3]) == (0, str(HEAD_BYTES)):
                continue  # the identity of a file in cache keys
            if one is not None and Path(one[1]) in files:
                found.append((one[1], int(one[2]), 0 if one[3].startswith("-") else int(one[3])))
            else:
                named = re.search(r"<(/[^>]*)>", line)
                assert named is None or Path(named[1]) not in files, line
    return sorted(found)


def reads_recorded(trace: Trace) -> list[tuple[str, int, int]]:
    return sorted((row["file"], row["offset"], row["got_bytes"]) for row in trace.rows_of(REQUEST).to_pylist())


def strace_line(folder: Path) -> list[str]:
    strace = shutil.which("strace") or missing("strace")
    calls = "trace=read,pread64,readv,preadv,preadv2,mmap"
    return [strace, "-ff", "-y", "-s", "0", "-ttt", "-e", calls, "-e", "signal=none", "-o", str(folder / "calls")]


def under_strace(folder: Path, *command: Any) -> subprocess.CompletedProcess[str]:
    line = strace_line(folder)
    ended = subprocess.run([*line, *map(str, command)], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended


def drop_from_page_cache(files: list[Path]) -> None:
    for path in files:
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@pytest.mark.long
def test_a_job_of_two_processes_tells_what_the_kernel_sees(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text(WAGON)
    # What the page cache has not got is tried there first: a read that finds nothing is none that failed.
    drop_from_page_cache(files)
    command = [sys.executable, "-m", "branchline", "run", tmp_path / "wagons.py", *files, "-o", tmp_path / "out"]
    ended = under_strace(tmp_path, *command, "-j", "2", "--trace", tmp_path / "t.parquet")
    trace = read_trace(tmp_path / "t.parquet")
    # When all is read the trace is laid over the files, and these are looked at once more.
    until_s = (trace.job.started_unix_ns + trace.job.wall_ns) / 1e9
    assert reads_recorded(trace) == reads_in(tmp_path, files, until_s)
    assert len(reads_recorded(trace)) > len(files) + 2
    assert "branchline trace show" in ended.stderr
    assert not (tmp_path / "t.parquet.unfinished").exists()
    found = summarise(trace).as_json()
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert found["totals"]["failed_calls"] == 0
    assert len({row["process"] for row in trace.rows_of(REQUEST).to_pylist()}) >= 2
    used = {row["branch"] for row in trace.rows_of(EXTENT).to_pylist()}
    assert used == {"branch_3", "branch_4", "branch_20"}
    # Each basket of these branches was used once: three clusters in each of three files.
    assert trace.rows_of(EXTENT).num_rows == 3 * 3 * 3
    assert {row["what"] for row in found["spans"]} >= {"wait", "decompress", "decode"}
    assert job["status"] == "finished"
    wagons = {row["wagon"] for row in trace.rows_of(SPAN).to_pylist() if row["what"] == "wagon"}
    assert wagons == {"Sum"}


def test_a_read_that_a_wagon_asks_for_has_its_name(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text(LATE)
    line = [sys.executable, "-m", "branchline", "run", tmp_path / "wagons.py", files[0], "-o", tmp_path / "out"]
    command = [*map(str, line), "-j", "1", "--step-size", "18000", "--trace", str(tmp_path / "t.parquet")]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert ended.returncode == 0, ended.stderr
    trace = read_trace(tmp_path / "t.parquet")
    (late,) = {row["wagon"] for row in trace.rows_of(REQUEST).to_pylist()} - {None}
    assert late == "Late"
    asked = {row["request"] for row in trace.rows_of(REQUEST).to_pylist() if row["wagon"] == "Late"}
    hit = {row["branch"] for row in trace.rows_of("part").to_pylist() if row["request"] in asked and whole(row)}
    assert hit == {"branch_7"}


def whole(part: dict[str, Any]) -> bool:
    return part["size_bytes"] == part["extent_bytes"]


@pytest.mark.long
def test_a_job_that_is_killed_leaves_what_it_read(files: list[Path], tmp_path: Path) -> None:
    mark = tmp_path / "all is read"
    (tmp_path / "wagons.py").write_text(SLOW.format(mark=str(mark)))
    line = [sys.executable, "-m", "branchline", "run", tmp_path / "wagons.py", files[0], "-o", tmp_path / "out"]
    job = subprocess.Popen(
        [*strace_line(tmp_path), *map(str, line), "-j", "1", "--trace", str(tmp_path / "t.parquet")],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    folder = tmp_path / "t.parquet.unfinished"
    end = time.monotonic() + HANG_S
    while time.monotonic() < end and not mark.exists():
        time.sleep(0.05)
    assert mark.exists()
    # The records of what is read are written a little later.
    while time.monotonic() < end and not (
        any(b"U\0\0\0" in one.read_bytes() for one in folder.glob("*.journal"))
        and written_by_now(folder) >= reads_so_far(tmp_path, files[0])
    ):
        time.sleep(0.05)
    kill_children(job.pid)
    job.wait()
    trace = recover(tmp_path / "t.parquet")
    assert reads_recorded(read_trace(tmp_path / "t.parquet")) == reads_recorded(trace)
    assert reads_recorded(trace) == reads_in(tmp_path, files, time.time())
    assert {path for path, _, _ in reads_recorded(trace)} == {str(files[0])}
    assert trace.rows_of(EXTENT).num_rows >= 3
    assert any("The job was killed" in note for note in trace.notes)
    assert not folder.exists()


#: Of a read in a journal.
RECORD_BYTES = 88


def blocks(journal: bytes) -> Iterator[tuple[bytes, int, int]]:
    """The letter, the begin and the end of the records of each block: numbers may look like the letter of a block."""
    end = 20  # behind the head
    while end + 12 <= len(journal):
        letter, length = struct.unpack_from("<c7xI", journal, end)
        begin, end = end + 12, end + 12 + length
        yield letter, begin, end


def written_by_now(folder: Path) -> int:
    """How many reads the journals in a folder have by now."""
    found = [one for journal in folder.glob("*.journal") for one in blocks(journal.read_bytes())]
    return sum((end - begin) // RECORD_BYTES for letter, begin, end in found if letter == b"R")


def reads_so_far(folder: Path, file: Path) -> int:
    """How many reads of a file strace has written down; its last line may be half one."""
    identity = rf"(?!.*, 0\) = {HEAD_BYTES}\b)"
    read = re.compile(rf"(?:pread64|preadv2)\(\d+<{re.escape(str(file))}>{identity}.* = (?:\d+|-1 EAGAIN)")
    return sum(len(read.findall(part.read_text())) for part in folder.glob("calls.*"))


def kill_children(process: int) -> None:
    """Kills the children of a process, which are in groups of their own; it ends when they are gone."""
    for one in psutil.Process(process).children(recursive=True):
        one.send_signal(signal.SIGKILL)


def test_a_journal_that_is_cut_in_a_record_is_read_up_to_there(files: list[Path], tmp_path: Path) -> None:
    from branchline.reading.trees.file import File

    with recording(tmp_path / "same.parquet", "a test"):
        File(files[0]).tree().arrays(["branch_1"])
    reads = len(reads_recorded(read_trace(tmp_path / "same.parquet")))
    with recording(tmp_path / "t.parquet", "a test"):
        File(files[0]).tree().arrays(["branch_1"])
        folder = tmp_path / "t.parquet.unfinished"
        end_s = time.monotonic() + HANG_S
        while written_by_now(folder) < reads and time.monotonic() < end_s:
            time.sleep(0.05)
        shutil.copytree(folder, tmp_path / "u.parquet.unfinished")
    (journal,) = (tmp_path / "u.parquet.unfinished").glob("*.journal")
    content = journal.read_bytes()
    last_end = [end for letter, _, end in blocks(content) if letter == b"R"][-1]
    journal.write_bytes(content[: last_end - 9])
    whole, cut = read_trace(tmp_path / "t.parquet"), recover(tmp_path / "u.parquet")
    assert reads_recorded(cut) == [one for one in reads_recorded(whole) if one in reads_recorded(cut)]
    assert len(reads_recorded(cut)) == len(reads_recorded(whole)) - 1


FORKED = """
import os, sys
from pathlib import Path
from branchline.tracing.recording import recording
from branchline.reading.trees.file import File

def read(path, branch):
    File(path).tree().arrays([branch])

with recording(Path(sys.argv[1]), "a test"):
    read(sys.argv[2], "branch_1")
    for number in range(3):
        if os.fork() == 0:
            read(sys.argv[3], f"branch_{number}")
            os._exit(0)
        os.wait()
    read(sys.argv[2], "branch_2")
"""


def test_forked_processes_tell_what_they_read_and_nothing_of_the_parent(files: list[Path], tmp_path: Path) -> None:
    under_strace(tmp_path, sys.executable, "-c", FORKED, tmp_path / "t.parquet", files[1], files[2])
    trace = read_trace(tmp_path / "t.parquet")
    until_s = (trace.job.started_unix_ns + trace.job.wall_ns) / 1e9
    assert reads_recorded(trace) == reads_in(tmp_path, files, until_s)
    rows = trace.rows_of(REQUEST).to_pylist()
    processes = {path: {row["process"] for row in rows if row["file"] == str(path)} for path in files[1:]}
    assert [len(processes[path]) for path in files[1:]] == [1, 3]
    assert not processes[files[1]] & processes[files[2]]


def test_what_slows_a_storage_is_in_the_times_of_its_requests(files: list[Path], tmp_path: Path) -> None:
    from branchline import Access
    from branchline.reading.trees.file import File

    with recording(tmp_path / "t.parquet", "a test"):
        File(files[1], access=Access(throttle="latency=20ms")).tree().arrays(["branch_1"])
    rows = read_trace(tmp_path / "t.parquet").rows_of(REQUEST).to_pylist()
    assert rows
    # The link is a clock of its own: nothing comes sooner than it says.
    assert all(row["last_byte_ns"] - row["sent_ns"] >= 20e6 for row in rows if row["got_bytes"])


def test_a_fault_that_is_asked_for_is_a_request_that_failed_and_took_its_time(
    files: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from branchline import Access
    from branchline.reading.trees.file import File

    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0.001")
    with recording(tmp_path / "t.parquet", "a test"):
        File(files[1], access=Access(mode="plain", fault="stall,for=30ms,every=3,seed=1")).tree().arrays(BRANCHES[:5])
    rows = read_trace(tmp_path / "t.parquet").rows_of(REQUEST).to_pylist()
    failed = [row for row in rows if row["outcome"] == "stall"]
    assert len(rows) / 5 < len(failed) < len(rows) / 2
    assert all(row["last_byte_ns"] - row["sent_ns"] >= 30e6 and row["got_bytes"] == 0 for row in failed)
    # Each was tried again, and had its bytes then.
    had = {(row["offset"], row["size_bytes"]) for row in rows if row["outcome"] == "ok"}
    assert had >= {(row["offset"], row["size_bytes"]) for row in failed if row["size_bytes"]}


READ_IN_ALL_MODES = """
import sys
from pathlib import Path
from branchline import Access
from branchline.tracing.recording import recording
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

folder, *files = sys.argv[1:]
for mode in ("plain", "cache", "planned", "prefetch"):
    with recording(Path(folder) / f"{mode}.parquet", mode):
        sources = [Source(path, "events") for path in 3 * files]
        with ChunkStream(sources, ["branch_3", "branch_17"], step_size=4000, access=Access(mode=mode)) as stream:
            for chunk in stream:
                del chunk
"""


def test_all_ways_of_reading_tell_what_the_kernel_sees(files: list[Path], tmp_path: Path) -> None:
    with in_page_cache(*files):
        under_strace(tmp_path, sys.executable, "-c", READ_IN_ALL_MODES, tmp_path, *files)
    counts = {}
    for mode in ("plain", "cache", "planned", "prefetch"):
        trace = read_trace(tmp_path / f"{mode}.parquet")
        since_s = trace.job.started_unix_ns / 1e9
        seen = reads_in(tmp_path, files, since_s + trace.job.wall_ns / 1e9, since_s)
        assert reads_recorded(trace) == seen, mode
        # Also where a buffer is used again that had more.
        rows = trace.rows_of(REQUEST).to_pylist()
        assert {row["size_bytes"] - row["got_bytes"] for row in rows if row["outcome"] == "ok"} == {0}, mode
        counts[mode] = len(seen)
    assert counts["plain"] > counts["cache"] > counts["prefetch"] == 3 * len(files)


READ_A_COPY = """
import sys
from pathlib import Path
from branchline import Access
from branchline.tracing.recording import recording
from branchline.reading.trees.file import File

path, folder = sys.argv[1:]
# A file on a local disk is copied to another only if it is taken for a far one.
access = Access(mode="stage", stage_dir=folder, throttle="bandwidth=10GB/s")
with recording(Path(folder) / "t.parquet", "a test"):
    File(path, access=access).tree().arrays(["branch_3", "branch_17"])
"""


class InFolder:
    """A file, and all in a folder."""

    def __init__(self, file: Path, folder: Path) -> None:
        self.file, self.folder = file, folder

    def __contains__(self, path: object) -> bool:
        return isinstance(path, Path) and (path == self.file or path.is_relative_to(self.folder))


def test_reads_of_a_copy_are_told_as_the_kernel_sees_them(files: list[Path], tmp_path: Path) -> None:
    copies = tmp_path / "copies"
    copies.mkdir()
    under_strace(tmp_path, sys.executable, "-c", READ_A_COPY, files[0], copies)
    trace = read_trace(copies / "t.parquet")
    since_s = trace.job.started_unix_ns / 1e9
    seen = reads_in(tmp_path, InFolder(files[0], copies), since_s + trace.job.wall_ns / 1e9, since_s)
    # A trace has the name of the file that the copy is of.
    assert reads_recorded(trace) == sorted((str(files[0]), offset, got) for _, offset, got in seen)
    assert {path == str(files[0]) for path, _, _ in seen} == {True, False}


def test_one_trace_is_recorded_at_a_time(tmp_path: Path) -> None:
    second = recording(tmp_path / "b.parquet", "a test")
    with (
        recording(tmp_path / "a.parquet", "a test"),
        pytest.raises(OptionError, match="already being recorded"),
        second,
    ):
        pass
    assert read_trace(tmp_path / "a.parquet").rows_of(REQUEST).num_rows == 0
    assert "BRANCHLINE_TRACE" not in os.environ


def test_a_trace_that_cannot_be_written_is_no_fault_of_the_files(files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "wagons.py").write_text(WAGON)
    done = subprocess.run(
        [sys.executable, "-m", "branchline", "run", "wagons.py", *files, "-o", "out", "--skip-bad-files"],
        cwd=tmp_path,
        env={**os.environ, "BRANCHLINE_TRACE": str(tmp_path / "missing")},
        capture_output=True,
        text=True,
    )
    assert done.returncode != 0
    assert "BRANCHLINE_TRACE" in done.stderr
    assert "the trace cannot be written there" in done.stderr
    assert "skipped" not in done.stderr + done.stdout
