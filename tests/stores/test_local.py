"""The ways to read local files: what the kernel is asked for, and what is done where it refuses."""

from __future__ import annotations

import errno
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.page_cache import in_page_cache
from tests.peers.peers import missing

import branchline
from branchline import Access
from branchline._core import Store
from branchline.errors import BranchlineError, MissingFileError, OptionError, StorageError

SIZE_BYTES = 3_000_017
RANGES = [(offset, 10_000) for offset in range(0, 2_900_000, 200_000)]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "random.bin"
    path.write_bytes(random.Random(7).randbytes(SIZE_BYTES))
    return path


def calls_of(file: Path, way: str, names: str, *strace_options: str) -> str:
    """What a process that reads RANGES asks the kernel, after the file has left its cache; and what it prints."""
    strace = shutil.which("strace") or missing("strace")
    code = f"""
import os
from branchline import Access
from branchline._core import Store
with open({str(file)!r}, "rb+") as opened:
    os.fsync(opened)
    os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
store = Store({str(file)!r}, Access(local={way!r}))
content = open({str(file)!r}, "rb", buffering=0)
found = store.read({RANGES!r}).contents
assert all(one == os.pread(content.fileno(), len(one), at) for one, (at, _) in zip(found, {RANGES!r}))
print("remarks", store.remarks)
"""
    options = [strace, "-f", "-q", "-y", "-s", "4096", "-e", f"trace={names}", *strace_options]
    ended = subprocess.run([*options, sys.executable, "-c", code], capture_output=True, text=True, timeout=280)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return (
        "\n".join(
            line
            for line in ended.stderr.splitlines()
            if any(word in line for word in ("random.bin", "uring", "resumed"))
        )
        + ended.stdout
    )


def test_the_kernel_is_told_of_all_that_it_has_not_got(file: Path) -> None:
    calls = calls_of(file, "advised", "fadvise64,pread64")
    advised = [line for line in calls.splitlines() if "POSIX_FADV_WILLNEED" in line]
    assert len(advised) == len(RANGES)
    lines = calls.splitlines()
    assert lines.index(advised[-1]) < next(index for index, line in enumerate(lines) if "pread64" in line)


def test_what_the_kernel_has_is_read_without_advice(file: Path) -> None:
    code = f"from branchline._core import Store; Store({str(file)!r}).read({RANGES!r})"
    strace = shutil.which("strace") or missing("strace")
    line = [strace, "-f", "-e", "trace=fadvise64", sys.executable, "-c", code]
    with in_page_cache(file):
        ended = subprocess.run(line, capture_output=True, text=True, timeout=280, check=False)
    assert ended.returncode == 0
    assert "WILLNEED" not in ended.stderr


def threads_that_read(calls: str) -> set[str]:
    """The threads that called pread64, as strace names them."""
    return {line.split("]")[0] for line in calls.splitlines() if "pread64(" in line and line.startswith("[pid")}


def test_what_the_kernel_has_not_is_read_by_several_threads(file: Path) -> None:
    calls = calls_of(file, "auto", "fadvise64,pread64")
    assert "WILLNEED" not in calls
    assert len(threads_that_read(calls)) > 1


def test_what_the_kernel_has_is_read_in_order_by_one_thread(file: Path, tmp_path: Path) -> None:
    code = f"from branchline._core import Store; Store({str(file)!r}).read({RANGES!r})"
    strace = shutil.which("strace") or missing("strace")
    # One file for each thread, so that no line is cut in two by another thread's.
    line = [strace, "-ff", "-y", "-e", "trace=pread64,preadv2", "-o", tmp_path / "trace", sys.executable, "-c", code]
    with in_page_cache(file):
        subprocess.run(line, capture_output=True, text=True, timeout=280, check=True)
    [calls] = [
        found
        for one in tmp_path.glob("trace.*")
        if (found := [text for text in one.read_text(encoding="utf-8").splitlines() if "random.bin" in text])
    ]
    # The first range is looked up in the cache, the others follow in their order.
    assert sum("preadv2" in one for one in calls) == 1
    offsets = [int(one.rsplit(")", 1)[0].rsplit(", ", 1)[1]) for one in calls if "pread64" in one]
    assert offsets == [offset for offset, _ in RANGES[1:]]


def test_where_the_kernel_does_not_tell_what_it_has_ranges_are_announced(file: Path) -> None:
    calls = calls_of(file, "auto", "fadvise64,preadv2,pread64", "-e", "inject=preadv2:error=EOPNOTSUPP")
    assert calls.count("POSIX_FADV_WILLNEED") == len(RANGES)


def test_past_the_cache_only_whole_sectors_are_asked_for(file: Path) -> None:
    calls = calls_of(file, "direct", "openat,open,pread64")
    assert "O_DIRECT" in calls
    in_three, in_four = calls.count(", 12288, "), calls.count(", 16384, ")
    assert in_three + in_four == len(RANGES), "10000 bytes lie in three or four sectors"


def test_a_ring_takes_many_reads_in_one_call(file: Path) -> None:
    if not_allowed := Store(str(file), Access(local="uring")).remarks:
        pytest.skip(not_allowed[0])
    calls = calls_of(file, "uring", "io_uring_setup,io_uring_enter,pread64")
    assert "io_uring_enter" in calls
    assert calls.count("io_uring_enter") < 2 * len(RANGES)
    assert "remarks []" in calls


def test_where_rings_are_forbidden_threads_read_and_it_is_said(file: Path) -> None:
    calls = calls_of(file, "uring", "io_uring_setup", "-e", "inject=io_uring_setup:error=EPERM")
    assert "io_uring is not allowed here" in calls


@pytest.mark.parametrize("way", ["auto", "advised", "threads", "direct", "uring"])
def test_a_file_that_was_cut_while_it_was_open_is_an_error(file: Path, way: str) -> None:
    store = Store(str(file), Access(local=way))
    with file.open("rb+") as opened:
        opened.truncate(1_000_000)
    for ranges in ([(0, 10), (2_000_000, 10_000), (500_000, 100)], [(999_000, 2_000)]):
        with pytest.raises(BranchlineError, match=r"cut short|differs from the file that was opened first") as raised:
            store.read(ranges)
        assert not raised.value.retry


def test_a_way_that_is_none_is_refused() -> None:
    with pytest.raises(OptionError, match="unknown local mode 'fast'"):
        branchline.Access(local="fast")


def test_the_error_of_the_system_is_the_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(MissingFileError) as caught:
        Store(str(tmp_path / "absent"))
    cause = caught.value.__cause__
    assert isinstance(cause, FileNotFoundError)
    assert cause.errno == errno.ENOENT
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    for url in ("root://127.0.0.1:1//f", "http://127.0.0.1:1/f"):
        with pytest.raises(StorageError) as caught:
            Store(url)
        assert isinstance(caught.value.__cause__, ConnectionRefusedError), url
    # What no call of the system has refused has no such cause.
    with pytest.raises(StorageError) as caught:
        Store(str(tmp_path))
    assert caught.value.__cause__ is None
