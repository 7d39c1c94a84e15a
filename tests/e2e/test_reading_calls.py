"""Read calls as the kernel counts them: the records of a stream agree, and small files take one or two."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import uproot
from tests.page_cache import in_page_cache
from tests.patience import HANG_S
from tests.peers.peers import missing

BRANCHES = 60

PROGRAM = """
import json, sys
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream

path, branches = json.loads(sys.argv[1])
with ChunkStream([Source(path)], branches) as stream:
    entries = sum(len(chunk.arrays()) for chunk in stream)
    (record,) = stream.records().files
print(json.dumps({"entries": entries, "calls": record.read_calls, "bytes": record.bytes_read}))
"""

ALL_TREES = """
import json, sys
import branchline

path, _ = json.loads(sys.argv[1])
with branchline.open(path) as file:
    print(json.dumps({"entries": sum(len(file[name].arrays()) for name in file.keys())}))
"""


def write(path: Path, entries: int) -> Path:
    """A file of 60 branches in four clusters; doubles without pattern, which do not compress."""
    random = np.random.default_rng(3)
    names = [f"branch_{index}" for index in range(BRANCHES)]
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("events", dict.fromkeys(names, "float64"))
        for _ in range(4):
            tree.extend({name: random.normal(size=entries // 4) for name in names})
    return path


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 3 MB."""
    return write(tmp_path_factory.mktemp("small") / "small.root", 6000)


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of 15 MB."""
    return write(tmp_path_factory.mktemp("large") / "large.root", 30_000)


class Traced(NamedTuple):
    """What one program read of a file, as its records and as the kernel say."""

    record: dict[str, Any]
    sizes: list[int]  # The bytes of each read call.


def traced(path: Path, branches: list[str] | None, tmp_path: Path, code: str = PROGRAM) -> Traced:
    """The read calls of a program that reads these branches of the file."""
    strace = shutil.which("strace") or missing("strace")
    trace = tmp_path / "trace"
    calls = "trace=read,pread64,readv,preadv,preadv2,mmap"
    program = [sys.executable, "-c", code, json.dumps([str(path), branches])]
    line = [strace, "-ff", "-y", "-e", calls, "-o", str(trace), *program]
    with in_page_cache(path):
        ended = subprocess.run(line, capture_output=True, text=True, timeout=HANG_S, check=False)
    if ended.returncode != 0 and "ptrace" in ended.stderr.lower():
        pytest.skip("this machine does not let programs be traced")
    assert ended.returncode == 0, ended.stderr
    # One file for each thread, so that no line is cut in two by another thread's.
    lines = [line for part in tmp_path.glob("trace.*") for line in part.read_text().splitlines()]
    of_file = [line for line in lines if str(path) in line]
    assert not [line for line in of_file if "mmap" in line]
    sizes = [re.search(r"= (\d+)$", line) for line in of_file]
    assert all(sizes)
    return Traced(json.loads(ended.stdout), [int(size[1]) for size in sizes if size is not None])


@pytest.mark.parametrize("branches", [None, ["branch_17"]])
def test_a_file_of_a_few_megabytes_takes_at_most_two_calls(
    small: Path, branches: list[str] | None, tmp_path: Path
) -> None:
    record, sizes = traced(small, branches, tmp_path)
    assert record["entries"] == 6000
    assert len(sizes) == record["calls"] <= 2
    assert sum(sizes) == record["bytes"] == small.stat().st_size


def test_a_small_file_of_many_trees_is_read_whole_after_a_few_calls(tmp_path: Path) -> None:
    path, values = tmp_path / "trees.root", np.random.default_rng(3).normal(size=2000)
    with uproot.recreate(path, compression=None) as file:
        for number in range(100):
            file[f"tree{number}"] = {"x": values}
    record, sizes = traced(path, None, tmp_path, ALL_TREES)
    assert record["entries"] == 100 * 2000
    assert len(sizes) <= 24
    assert sum(sizes) < 1.5 * path.stat().st_size


@pytest.mark.parametrize("branches", [None, ["branch_17"], ["branch_3", "branch_4", "branch_50"]])
def test_the_kernel_counts_the_same_calls_and_bytes(large: Path, branches: list[str] | None, tmp_path: Path) -> None:
    record, sizes = traced(large, branches, tmp_path)
    assert record["entries"] == 30_000
    assert len(sizes) == record["calls"]
    assert sum(sizes) == record["bytes"]
    if branches is None:
        assert record["calls"] <= 6
    else:
        assert record["bytes"] < large.stat().st_size // 4
