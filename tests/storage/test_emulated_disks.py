"""Emulated disks are neither faster nor slower than disks of their kind, as measured by fio."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from studies.yard.disks import HARD_DISK, SOLID_STATE, DiskKind, Disks, EmulatedDisk, OffLimitError
from studies.yard.skipping import LackingError

from branchline.base.quantities import MB

SIZE_BYTES = 600 * MB
#: A disk is never faster than its kind, but for what it reads ahead into its buffer; a busy machine makes it slower.
FASTER_MAX, SLOWER_MAX = 1.03, 0.8


@pytest.fixture
def disks(tmp_path: Path) -> Iterator[Disks]:
    if shutil.which("fio") is None:
        pytest.skip("fio is missing")
    disks = Disks(tmp_path)
    try:
        yield disks
    finally:
        disks.close()


def emulated(disks: Disks, kind: DiskKind) -> EmulatedDisk:
    try:
        disks.disk("disk", kind, SIZE_BYTES)
    except LackingError as reason:
        pytest.skip(str(reason))
    return disks.emulated[0]


def fio(device: str, **options: str | int) -> dict[str, float]:
    """Run fio with direct reads for three seconds and return what it measured."""
    options = {"name": "read", "filename": device, "direct": 1, "runtime": 3, "time_based": 1} | options
    words = [f"--{name}={value}" for name, value in options.items()]
    done = subprocess.run(
        ["fio", "--output-format=json", "--group_reporting", "--readonly", *words],
        capture_output=True,
        text=True,
        check=True,
    )
    measured: dict[str, float] = json.loads(done.stdout)["jobs"][0]["read"]
    return measured


@pytest.mark.parametrize("kind", [HARD_DISK, SOLID_STATE], ids=lambda kind: kind.name)
def test_it_has_the_rate_of_its_kind_from_the_first_byte_on(disks: Disks, kind: DiskKind) -> None:
    disk = emulated(disks, kind)
    measured = fio(disk.device, rw="read", bs="1M")["bw_bytes"]
    assert SLOWER_MAX < measured / kind.bytes_per_s < FASTER_MAX
    # A job that reads little gets no more.
    short = fio(disk.device, rw="read", bs="128k", size="4M", time_based=0, runtime=0)
    assert short["bw_bytes"] / kind.bytes_per_s < 1.3


@pytest.mark.parametrize("jobs", [1, 4])
def test_small_reads_at_random_places_wait_for_the_head(disks: Disks, jobs: int) -> None:
    disk = emulated(disks, HARD_DISK)
    measured = fio(disk.device, rw="randread", bs="4k", numjobs=jobs)["iops"]
    assert SLOWER_MAX < measured / HARD_DISK.seeks_per_s < 1.1


def test_jobs_that_read_different_files_get_less_together_than_one_alone(disks: Disks) -> None:
    disk = emulated(disks, HARD_DISK)
    far = fio(disk.device, rw="read", bs="128k", numjobs=2, offset_increment="250M", size="200M")["bw_bytes"]
    assert far < HARD_DISK.bytes_per_s / 4


def test_a_disk_with_another_rate_than_its_kind_fails_the_study(disks: Disks) -> None:
    disk = emulated(disks, HARD_DISK)
    assert abs(disk.check() / HARD_DISK.bytes_per_s - 1) < 0.2
    twin = EmulatedDisk(SOLID_STATE, disk.device, disk.process, disk.folder)
    with pytest.raises(OffLimitError, match=r"solid state disk, 130 MB/s, reads [67][0-9.]+ MB/s"):
        twin.check()


def test_files_on_a_raid_are_whole_and_nothing_is_left_mounted(disks: Disks, tmp_path: Path) -> None:
    if shutil.which("mkfs.btrfs", path="/usr/sbin:/sbin") is None:
        pytest.skip("btrfs-progs is missing")
    emulated(disks, HARD_DISK)
    place, _ = disks.raid("raid", SOLID_STATE, 3, SIZE_BYTES, "raid5")
    content = os.urandom(20 * MB)
    (place / "file").write_bytes(content)
    os.sync()
    Path("/proc/sys/vm/drop_caches").write_text("3", encoding="ascii")
    assert (place / "file").read_bytes() == content
    assert sum(
        int(Path(f"/sys/block/{Path(one.device).name}/stat").read_text().split()[2]) for one in disks.emulated
    ) > len(content) / (512 * 2)
    disks.close()
    assert str(tmp_path) not in Path("/proc/mounts").read_text(encoding="utf-8")
    assert all(one.process.poll() is not None for one in disks.emulated)
