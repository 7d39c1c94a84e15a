"""Traces in places where they must not be: no file of data is lost to one, and no two jobs share one."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.command_line import run_command
from tests.unit.reading.trees.conftest import write_sample

from branchline.base.whole_files import whole_file
from branchline.errors import BadFileError, BranchlineError, OptionError
from branchline.tracing import recording as recordings
from branchline.tracing.journals import JOB_FILE
from branchline.tracing.recording import recording, recover
from branchline.tracing.trace import UNFINISHED, TracedJob, read_trace


def test_a_file_of_data_is_not_replaced_by_a_trace(tmp_path: Path) -> None:
    data = tmp_path / "data.root"
    data.write_bytes(b"root precious")
    with pytest.raises(OptionError, match=r"data\.root exists and is not a trace"), recording(data, "a test"):
        raise AssertionError
    done = run_command(["trace", "run", "-o", str(data), "--", "true"])
    assert (done.exit_code, data.read_bytes()) == (2, b"root precious")
    with pytest.raises(OptionError, match="so it is not replaced"), recording(tmp_path, "a test"):
        raise AssertionError
    trace = tmp_path / "t.parquet"
    for _ in range(2):
        with recording(trace, "a test"):
            pass
    assert read_trace(trace).job.command == "a test"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data.root", "t.parquet"]


def test_what_another_job_records_is_left_to_it(tmp_path: Path) -> None:
    trace, data = tmp_path / "t.parquet", tmp_path / "data.root"
    write_sample(data, None, (5, 3))
    command = ["merge", str(data), "-o", str(tmp_path / "all.root"), "--trace", str(trace)]
    with recording(trace, "the first"):
        with pytest.MonkeyPatch.context() as patch:
            # As in another process, which has no part in this recording.
            patch.delenv(recordings.VARIABLE)
            patch.setattr(recordings._core, "trace_is_on", lambda: False)
            done = run_command(command)
        assert (done.exit_code, "a running job records" in done.output) == (2, True), done.output
        with pytest.raises(OptionError, match="a running job records"):
            recover(trace)
    assert read_trace(trace).job.command == "the first"


def test_of_jobs_that_begin_one_trace_together_one_records_and_the_others_are_told(tmp_path: Path) -> None:
    # As many threads, which hold folders as processes do; whoever comes late may follow one that has ended.
    jobs, rounds, together = 6, 40, threading.Barrier(6, timeout=280)

    def job(number: int) -> list[str]:
        outcomes = []
        for _ in range(rounds):
            together.wait()
            try:
                with recordings._held(tmp_path / "t.parquet", TracedJob(str(number))) as folder:
                    (folder / "1.journal").touch()
                    held_by = json.loads((folder / recordings.JOB_FILE).read_text())["command"]
                    outcomes.append("recorded" if held_by == str(number) else "shared")
                    recordings._remove(folder)
            except (BranchlineError, OSError) as error:
                outcomes.append(str(error))
        return outcomes

    with ThreadPoolExecutor(jobs) as pool:
        outcomes = [one for all_of_one in pool.map(job, range(jobs)) for one in all_of_one]
    assert outcomes.count("recorded") >= rounds
    assert all(one == "recorded" or "a running job records" in one for one in outcomes), set(outcomes)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_somebody_else_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "t.parquet.unfinished"
    folder.mkdir()
    (folder / "precious").touch()
    with (
        pytest.raises(OptionError, match="not a folder with request journals"),
        recording(tmp_path / "t.parquet", "a test"),
    ):
        raise AssertionError
    assert (folder / "precious").exists()


def run_on_small_disk(folder: Path, options: str, program: str, *arguments: str) -> list[str]:
    """The lines that a program prints whose current folder is a file system of its own, mounted with these options."""
    unshare = ["unshare", "--map-root-user", "--mount"]
    if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode:
        pytest.skip("needs a kernel that lets this user mount a file system of his own")
    script = f'mount -t tmpfs -o {options} none "$0" && cd "$0" && exec "$@"'
    command = [*unshare, "sh", "-c", script, str(folder), sys.executable, "-c", program, *arguments]
    ended = subprocess.run(command, check=False, capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


NO_ROOM_FOR_JOURNAL = """
from pathlib import Path
from branchline.errors import StorageError
from branchline.tracing.recording import recording

try:
    with recording(Path("t.parquet"), "a test"):
        print("recorded")
except StorageError as error:
    print(error)
print(list(Path().iterdir()))
"""


def test_a_disk_without_room_is_left_without_a_rest(tmp_path: Path) -> None:
    # The third inode is that of the job's description.
    (error, left) = run_on_small_disk(tmp_path, "nr_inodes=3", NO_ROOM_FOR_JOURNAL)
    assert "No space left" in error
    assert left == "[]"


FULL_FOR_A_WHILE = """
import sys
import threading
from pathlib import Path
from branchline import _core
from branchline.errors import StorageError
from branchline.tracing.recording import recording, recover

store = _core.Store(sys.argv[1])
filler = Path("filler")

def read_while_recorded():
    while _core.trace_is_on():
        store.read([(0, 10)])

def journal_bytes():
    return [path.stat().st_size for path in Path("t.parquet.unfinished").glob("*.journal")]

try:
    with recording(Path("t.parquet"), "a test"):
        filler.write_bytes(bytes(900_000))
        threads = [threading.Thread(target=read_while_recorded) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        filler.unlink()
        when_full = journal_bytes()
        for _ in range(1000):
            store.read([(0, 10)])
except StorageError as error:
    print(error)
print(journal_bytes() == when_full)
print(*recover(Path("t.parquet")).notes)
print(*(path.name for path in Path().iterdir()))
"""


def test_records_that_a_full_disk_lost_are_reported(tmp_path: Path) -> None:
    data, disk = tmp_path / "data.root", tmp_path / "disk"
    write_sample(data, None, (5, 3))
    disk.mkdir()
    error, is_unchanged, notes, left = run_on_small_disk(disk, "size=1M", FULL_FOR_A_WHILE, str(data))
    assert "No space left" in error
    # Records of another thread would follow the partially written block.
    assert is_unchanged == "True"
    assert "could not record all of its requests" in notes
    assert left == "t.parquet"


def test_an_error_of_the_job_stays_what_it_is(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="not of the trace"), recording(tmp_path / "t.parquet", "a test"):
        raise FileNotFoundError(errno.ENOENT, "not of the trace")
    assert read_trace(tmp_path / "t.parquet").job.program == "branchline"


def test_no_file_takes_the_place_of_a_device(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(BranchlineError, match="a pipe or a device"), whole_file(pipe):
        raise AssertionError
    assert pipe.is_fifo()


@pytest.mark.parametrize("content", ["", "[1]", '{"wall_ns": "x"}'])
def test_a_cut_description_of_a_killed_job_is_no_fault_of_branchline(tmp_path: Path, content: str) -> None:
    folder = tmp_path / "t.parquet.unfinished"
    assert folder.name.endswith(UNFINISHED)
    folder.mkdir()
    (folder / JOB_FILE).write_text(content)
    with pytest.raises(BadFileError, match="does not describe the traced job"):
        recover(tmp_path / "t.parquet")
