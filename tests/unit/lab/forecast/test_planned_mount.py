"""Files on a file system that FUSE really mounts: the requests that are planned are those that are made."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.unit.lab.forecast.test_planned_requests import ranges_of, write

from branchline.lab.advice.proposals import is_far
from branchline.lab.forecast.laid_file import laid_file
from branchline.lab.forecast.planned_requests import PlanRequest, planned_in_order
from branchline.lab.forecast.rates import Rates
from branchline.lab.forecast.subject import Subject
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.tracing.recording import recording
from branchline.tracing.trace import read_trace

NAMES = ("y",)


@pytest.fixture
def mount(tmp_path: Path) -> Iterator[Path]:
    """A folder of files through FUSE."""
    if not Path("/dev/fuse").exists() or shutil.which("bindfs") is None:
        pytest.skip("no /dev/fuse, or no bindfs")
    under, seen = tmp_path / "under", tmp_path / "seen"
    under.mkdir()
    seen.mkdir()
    for number in range(3):
        write(under / f"{number}.root", [30_000, 30_000])
    process = subprocess.Popen(["bindfs", "-f", "-r", str(under), str(seen)], stderr=subprocess.DEVNULL)
    try:
        end_s = time.monotonic() + HANG_S
        while not os.path.ismount(seen) and process.poll() is None and time.monotonic() < end_s:
            time.sleep(0.05)
        if not os.path.ismount(seen):
            pytest.skip("this machine does not let FUSE mount anything")
        yield seen
    finally:
        unmount = shutil.which("fusermount3") or shutil.which("fusermount") or "umount"
        subprocess.run([unmount, "-u", str(seen)] if "fusermount" in unmount else [unmount, str(seen)], check=False)
        try:
            process.wait(HANG_S)
        except subprocess.TimeoutExpired:
            process.kill()


@pytest.mark.parametrize("mode", ["planned", "plain", "cache", "prefetch"])
def test_requests_to_a_mount_are_as_planned(mount: Path, tmp_path: Path, mode: str) -> None:
    paths = sorted(mount.glob("*.root"))
    access = Access(mode=mode)
    files = [laid_file(DataFile(str(path), "events"), NAMES) for path in paths]
    assert [(one.is_near, one.is_at_a_server) for one in files] == [(False, False)] * 3
    with (
        recording(tmp_path / "trace.parquet", "a test"),
        ChunkStream([Source(str(path), "events") for path in paths], NAMES, access=access) as stream,
    ):
        entries = sum(len(chunk.arrays()["y"]) for chunk in stream)
    assert entries == 3 * 60_000
    made = ranges_of(read_trace(tmp_path / "trace.parquet"))
    plans = planned_in_order(files, PlanRequest(access=access, is_named=True))
    assert made == sorted((at, size) for one in plans for at, size in zip(one.offset, one.size, strict=True))


def test_a_mount_is_far_where_it_has_a_round_trip(mount: Path) -> None:
    file = DataFile(str(next(mount.glob("*.root"))), "events")
    laid = (laid_file(file, NAMES),)
    for round_trip_s, far in ((0.01, True), (0.0001, False)):
        rates = Rates(4e-9, {"zlib": 0.5e-9}, 0.0, round_trip_s, 1e9, spread=0.05)
        work = Subject("a mount", (file,), laid, NAMES, Access(), rates, workers=1, threads=1, cores=2)
        assert is_far(work) is far
