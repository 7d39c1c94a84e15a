"""What a merge asks of the system: each byte is written once, and the disk is waited for unless nobody wants that."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.patience import HANG_S
from tests.peers.peers import missing

import branchline


def inputs(folder: Path, entries_count: int = 5000) -> list[str]:
    """Some files of one tree with differing numbers of entries."""
    paths = []
    for number in range(4):
        path, count = folder / f"{number}.root", entries_count + number
        with uproot.recreate(path) as file:
            file.mktree("events", {"x": "int64", "y": "float64"})
            file["events"].extend({"x": np.arange(count), "y": np.random.default_rng(number).random(count)})
        paths.append(str(path))
    return paths


#: Calls that read or write a file.
TRANSFERS = "read,readv,pread64,preadv,preadv2,write,writev,pwrite64,pwritev"


def calls(folder: Path, *words: str) -> list[str]:
    """The calls of a merge that write, wait for the disk, or announce what is read soon."""
    wanted = "write,writev,pwrite64,pwritev,fsync,fdatasync,fadvise64"
    return traced(folder, wanted, "-m", "branchline", "merge", *words)


def traced(folder: Path, wanted: str, *words: str) -> list[str]:
    """These calls of a process of Python."""
    strace = shutil.which("strace") or missing("strace")
    log = folder / "calls"
    line = [strace, "-ff", "-y", "-s", "0", "-e", f"trace={wanted}", "-e", "signal=none", "-o", str(log)]
    program = [sys.executable, *words]
    ended = subprocess.run([*line, *program], capture_output=True, text=True, timeout=HANG_S, check=False)
    if ended.returncode != 0 and "ptrace" in ended.stderr.lower():
        pytest.skip("this machine does not let programs be traced")
    assert ended.returncode == 0, ended.stderr
    # One file for each thread, so that no line is cut in two by another thread's.
    parts = list(folder.glob("calls.*"))
    lines = [line for part in parts for line in part.read_text().splitlines()]
    for part in parts:
        part.unlink()
    return lines


def test_each_byte_is_written_once_and_the_disk_is_waited_for(tmp_path: Path) -> None:
    output = tmp_path / "all.root"
    made = calls(tmp_path, *inputs(tmp_path), "-o", str(output))
    written = [
        int(found[1]) for line in made if (found := re.search(r"write[v64]*\(\d+<[^>]*all.root.*= (\d+)$", line))
    ]
    size = output.stat().st_size
    # Header and directories are written over once more in the end.
    assert size <= sum(written) <= size + 1000
    assert len([line for line in made if "sync(" in line]) >= 2


def test_without_sync_the_output_is_the_same_and_nothing_is_waited_for(tmp_path: Path) -> None:
    paths = inputs(tmp_path)
    output = tmp_path / "all.root"
    calls(tmp_path, *paths, "-o", str(output))
    before = output.read_bytes()
    made = calls(tmp_path, *paths, "-o", str(output), "--force", "--no-sync")
    assert not [line for line in made if "sync(" in line]
    assert output.read_bytes() == before


def asked_for(made: list[str], path: str) -> list[tuple[int, int]]:
    """The offsets and lengths of a file that a disk was asked for ahead."""
    found = [re.search(rf"fadvise64\(\d+<{re.escape(path)}>, (\d+), (\d+), POSIX_FADV_WILLNEED", line) for line in made]
    return [(int(one[1]), int(one[2])) for one in found if one]


def test_disks_are_asked_for_files_that_are_copied_whole_when_these_are_opened(tmp_path: Path) -> None:
    paths = inputs(tmp_path, 50_000)
    words = (*paths, "-o", str(tmp_path / "all.root"), "--force")
    made = calls(tmp_path, *words)
    for path in paths:
        assert [one for one in asked_for(made, path) if one[0] == 0 and one[1] >= Path(path).stat().st_size]
    part = calls(tmp_path, *words, "--tree", "events")
    assert not [one for path in paths for one in asked_for(part, path) if one[1] >= Path(path).stat().st_size]


def histograms(folder: Path, count: int, cells: int) -> list[str]:
    """Two files of many histograms."""
    paths = [str(folder / f"histograms-{number}.root") for number in range(2)]
    for number, path in enumerate(paths):
        random = np.random.default_rng(number)
        with branchline.recreate(path) as file:
            for name in range(count):
                file[f"h{name}"] = random.random(cells), np.linspace(0, 1, cells + 1)
    return paths


def of_file(made: list[str], path: str) -> int:
    """How many calls are of a file, whose name has a number until it is whole."""
    return sum(f"/{Path(path).name}" in line for line in made)


def test_many_histograms_are_merged_in_few_calls(tmp_path: Path) -> None:
    paths, output = histograms(tmp_path, 1500, 100), str(tmp_path / "all.root")
    made = traced(tmp_path, TRANSFERS, "-m", "branchline", "merge", *paths, "-o", output)
    for path in paths:
        # Ends of the file, its keys and its histograms.
        assert of_file(made, path) <= 10
    # Blocks of 256 KiB, the records behind them, and what is written over in the end.
    assert of_file(made, output) <= Path(output).stat().st_size // (256 << 10) + 10
    merged = branchline.open(output)
    one, two = (branchline.open(path) for path in paths)
    for name in ("h0", "h749", "h1499"):
        assert merged[name].values().tolist() == (one[name].values() + two[name].values()).tolist()


OPENING = """
import sys, branchline
with branchline.open(sys.argv[1]) as file:
    print(sum(file[f"h{number}"].sum() for number in range(500)))
"""


@pytest.mark.long
def test_neighbouring_histograms_are_read_in_few_calls(tmp_path: Path) -> None:
    # A file of more than 8 MiB is not read whole.
    path = histograms(tmp_path, 3000, 400)[0]
    assert Path(path).stat().st_size > 8 << 20
    made = traced(tmp_path, TRANSFERS, "-c", OPENING, path)
    # Pieces of 64 KiB, about twenty histograms each, the ends of the file and its keys.
    assert of_file(made, path) <= 60
