"""Measures each `--local` with a file on a local disk that is not in the page cache."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benches.conditions import machine_lines
from benches.rounds import Spread
from benches.tables import spread, table
from branchline import Access
from branchline._core import Store
from branchline.lab.sampling.page_cache import make_cold
from branchline.reading.access import ByteRange

RANGE_BYTES = 64 * 1024
WRITTEN_BYTES = 4 * 1024 * 1024
RANGES = 1000
#: Bytes per call. Each call returns newly allocated memory, whose cost is low for small calls.
CALL_BYTES = 8 * 1024 * 1024
ONE_BY_ONE = "advised, one by one"
WAYS = ("auto", "advised", "threads", "direct", "uring", ONE_BY_ONE)
SEED = 1


def made(cache: Path, size_bytes: int, say: Callable[[str], None]) -> Path:
    """Create a file of random bytes, unless it exists."""
    path = cache / f"local-disk-{size_bytes}.bin"
    if not path.exists():
        say(f"making a file of {size_bytes / 1e6:.0f} MB")
        cache.mkdir(parents=True, exist_ok=True)
        numbers = random.Random(SEED)
        with path.open("wb") as file:
            for start in range(0, size_bytes, WRITTEN_BYTES):
                file.write(numbers.randbytes(min(WRITTEN_BYTES, size_bytes - start)))
            file.flush()
            os.fsync(file.fileno())
    return path


def scattered(size_bytes: int) -> list[ByteRange]:
    """Return ordered, separate ranges over the whole file, like the baskets of a few branches."""
    count = min(RANGES, size_bytes // (4 * RANGE_BYTES))
    places = random.Random(SEED).sample(range(size_bytes // (2 * RANGE_BYTES)), count)
    return [ByteRange(2 * RANGE_BYTES * place, RANGE_BYTES) for place in sorted(places)]


def opened(path: Path, way: str) -> Store:
    """Open the file with a method. Its remarks state the reason if another method is used."""
    return Store(str(path), Access(local="advised" if way == ONE_BY_ONE else way))


def bytes_per_second(path: Path, way: str, ranges: list[ByteRange]) -> float:
    """Read the ranges of a cold file once."""
    make_cold([str(path)])
    store = opened(path, way)
    count = 1 if way == ONE_BY_ONE else max(1, CALL_BYTES // ranges[0].length)
    begin_s = time.perf_counter()
    for first in range(0, len(ranges), count):
        store.read(ranges[first : first + count])
    return sum(length for _, length in ranges) / (time.perf_counter() - begin_s)


def local_disk_page(
    cache: Path, size_bytes: int, repeats: int, say: Callable[[str], None]
) -> tuple[str, list[dict[str, Any]]]:
    """Measure all methods in rotating order, and return the page and its rows."""
    path = made(cache, size_bytes, say)
    ranges = scattered(size_bytes)
    impossible = [remark for way in WAYS for remark in opened(path, way).remarks]
    ways = [way for way in WAYS if not opened(path, way).remarks]
    found = []
    for number in range(repeats):
        say(f"round {number + 1} of {repeats}: {path.name} by each --local")
        turn = number % len(ways)
        found += [
            {"way": way, "round": number, "bytes_per_second": bytes_per_second(path, way, ranges)}
            for way in ways[turn:] + ways[:turn]
        ]
    cells = []
    for way in ways:
        rates = [one["bytes_per_second"] for one in found if one["way"] == way]
        cells.append([way, spread(Spread.of(rates), 1e-6, 0)])
    lines = [
        "# Reading a cold file on a local disk",
        "",
        f"A file of {size_bytes / 1e6:.0f} MB that is not in the page cache: {len(ranges)} ranges of "
        f"{RANGE_BYTES >> 10} KiB spread over the file, in calls of {CALL_BYTES >> 20} MiB; the last method has one "
        f"call per range. Median, lowest and highest of {repeats} rounds in rotating order.",
        "",
        *machine_lines(repeats),
        *(f"- not available here: {remark}" for remark in impossible),
        "",
        table(["`--local`", "MB/s"], cells),
        "",
    ]
    return "\n".join(lines), found
