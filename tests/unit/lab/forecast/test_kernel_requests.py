"""What Linux requests of a disk for reads of a cold file, beside what it really did on a loop device."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest

from branchline.lab.simulation.kernel_requests import PAGE, KernelSettings, ReadCall, kernel_requests

SIZE = 331 * PAGE - 1520
#: Since this release ext4 keeps folios.
FOLIOS = (6, 16)


def from_begin_to_end(size: int) -> list[ReadCall]:
    return [ReadCall(offset, size) for offset in range(0, SIZE, size)]


def pages(reads: list[ReadCall], settings: KernelSettings | None = None) -> list[tuple[int, int]]:
    """Where requests begin, and how long they are, in pages."""
    made = kernel_requests(reads, SIZE, settings)
    return [(one.offset // PAGE, -(-one.size_bytes // PAGE)) for sent in made for one in sent]


def test_windows_double_up_to_the_read_ahead_and_end_with_the_file() -> None:
    sizes = [count for _, count in pages(from_begin_to_end(2000), KernelSettings(has_folios=False))]
    assert sizes == [4, 8, 16, 32, 32, 32, 32, 32, 32, 32, 32, 32, 15]
    assert sum(sizes) == 331


def test_windows_of_folios_end_where_folios_do() -> None:
    sizes = [count for _, count in pages(from_begin_to_end(2000))]
    assert sizes == [4, 8, 4, 8, 8, 16, 16, *[32] * 8, 11]


def test_a_small_read_in_the_middle_gets_its_pages_and_no_more() -> None:
    assert pages([ReadCall(100 * PAGE + 10, 500), ReadCall(50 * PAGE, 2 * PAGE)]) == [(100, 1), (50, 2)]


def test_what_is_in_memory_is_not_requested_again() -> None:
    reads = [ReadCall(100 * PAGE, PAGE), ReadCall(98 * PAGE, 4 * PAGE), ReadCall(100 * PAGE, 10)]
    assert kernel_requests(reads, SIZE)[2] == []
    assert sum(count for _, count in pages(reads)) == 4


def test_a_read_larger_than_the_device_takes_is_cut() -> None:
    settings = KernelSettings(read_ahead_bytes=0, request_bytes_max=64 * PAGE)
    assert pages([ReadCall(0, SIZE)], settings) == [(0, 64), (64, 64), (128, 64), (192, 64), (256, 64), (320, 11)]


def test_reads_behind_the_end_request_nothing() -> None:
    assert kernel_requests([ReadCall(SIZE, 100), ReadCall(SIZE + PAGE, 100)], SIZE) == [[], []]


class LoopDisk:
    """A file on a file system of a loop device, which counts what is requested of it."""

    def __init__(self, folder: Path) -> None:
        self._mount = folder / "mounted"
        self._mount.mkdir()
        image = folder / "disk.img"
        with image.open("wb") as file:
            file.truncate(64 << 20)
        self.device = run("losetup", "-f", "--show", "--direct-io=on", str(image)).strip()
        self._queue = Path("/sys/block") / Path(self.device).name
        run("blockdev", "--setra", "256", self.device)
        run("mkfs.ext4", "-q", "-b", "4096", "-E", "nodiscard", self.device)
        self._mounted = False
        self.cold()
        (self._mount / "file").write_bytes(os.urandom(SIZE))

    def cold(self) -> None:
        """Mounted anew, so that nothing of it is in memory."""
        self.close(loop=False)
        run("mount", "-o", "noatime", self.device, str(self._mount))
        self._mounted = True

    def requested(self, reads: list[ReadCall]) -> int:
        """How many requests these make of a file that is open and cold."""
        self.cold()
        descriptor = os.open(self._mount / "file", os.O_RDONLY)
        try:
            os.fstat(descriptor)
            before = self._count()
            for one in reads:
                os.pread(descriptor, one.size_bytes, one.offset)
            return self._count() - before
        finally:
            os.close(descriptor)

    def _count(self) -> int:
        """Of stat(5) the first number, when nothing is in flight."""
        while (self._queue / "inflight").read_text().split() != ["0", "0"]:
            time.sleep(0.001)
        return int((self._queue / "stat").read_text().split()[0])

    def close(self, *, loop: bool = True) -> None:
        if self._mounted:
            run("umount", str(self._mount))
            self._mounted = False
        if loop:
            run("losetup", "-d", self.device)


def run(*words: str) -> str:
    program = shutil.which(words[0]) or shutil.which(words[0], path="/usr/sbin:/sbin")
    if program is None:
        pytest.skip(f"the program {words[0]} is missing")
    done = subprocess.run([program, *words[1:]], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no loop device can be mounted here: {words[0]}: {done.stderr.strip()[-200:]}")
    return done.stdout


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopDisk]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a loop device")
    made = LoopDisk(tmp_path_factory.mktemp("disk"))
    yield made
    made.close()


def _random(seed: int, *, in_order: bool) -> list[ReadCall]:
    chance = Random(seed)
    found = [ReadCall(chance.randrange(SIZE - 40_000), chance.randrange(100, 40_000)) for _ in range(60)]
    return sorted(found, key=lambda one: one.offset) if in_order else found


READS = {
    "small, from begin to end": from_begin_to_end(2000),
    "large, from begin to end": from_begin_to_end(300_000),
    "in turn at three places": [
        ReadCall(place + third, 3000) for place in range(0, SIZE // 3, 3000) for third in (0, SIZE // 3, 2 * SIZE // 3)
    ],
    "at random": _random(1, in_order=False),
    "at random, forward": _random(3, in_order=True),
}


@pytest.mark.parametrize("kind", READS)
def test_the_kernel_requests_as_much(disk: LoopDisk, kind: str) -> None:
    release = tuple(int(one) for one in platform.release().split("-")[0].split(".")[:2])
    expected = kernel_requests(READS[kind], SIZE, KernelSettings(has_folios=release >= FOLIOS))
    count = sum(len(one) for one in expected)
    real = disk.requested(READS[kind])
    print(f"{kind}: {real} requests by Linux {platform.release()}, {count} expected")
    assert real == pytest.approx(count, rel=0.1, abs=2)
