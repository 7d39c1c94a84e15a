"""Reads some branches of some files in a process of its own, so that two ways of reading can be compared:
``python -m branchline.lab.advice.timed_read REQUEST.json``.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.plain import from_plain, to_plain
from branchline.base.processes import own_python
from branchline.errors import BranchlineError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.records.sensors.record import AccessRecord

READING_VERSION = 1
#: A process that reads a sample for longer hangs.
READING_S_MAX = 300.0


@dataclass(frozen=True)
class ReadingRequest:
    """Files with the names of their trees (empty for the only one), branches (empty for all), settings of reading. A
    process writes what it did to the file ``done``.
    """

    files: list[str]
    trees: list[str]
    branches: list[str] = field(default_factory=list)
    mode: str = "planned"
    throttle: str = ""
    threads: int = 1
    read_ahead: int | None = None
    tree_cache: int | None = None
    cache_dir: str | None = None
    done: str = ""
    memory_limit_bytes: int = 2**30
    reading_version: int = READING_VERSION

    @classmethod
    def of(
        cls, files: Sequence[DataFile], branches: Sequence[str] | None, access: Access, threads: int, done: Path
    ) -> ReadingRequest:
        """For some files, branches (None for all) and a way of reading."""
        chosen = AccessRecord.of(access)
        return cls(
            files=[one.opens for one in files],
            trees=[one.tree or "" for one in files],
            branches=list(branches or ()),
            mode=access.mode,
            throttle=access.throttle or "",
            threads=threads,
            read_ahead=chosen.read_ahead,
            tree_cache=chosen.tree_cache if access.tree_cache != Access().tree_cache else None,
            cache_dir=access.cache_dir,
            done=str(done),
        )

    def write(self, path: Path) -> None:
        """Writes it for the process that is to read."""
        path.write_text(json.dumps(to_plain(self)), encoding="utf-8")


@dataclass(frozen=True)
class ReadingDone:
    """The seconds of reading alone, without those in which the process was started, and entries that were read."""

    wall_s: float
    entries: int

    @classmethod
    def of(cls, path: Path) -> ReadingDone:
        """What a process wrote. Raises OSError and ValueError where it wrote nothing."""
        found: ReadingDone = from_plain(cls, json.loads(path.read_text(encoding="utf-8")))
        return found


def read(request: ReadingRequest) -> int:
    """Reads and decodes all; returns the number of entries. Raises what reading raises."""
    sources = [Source(path, tree or None) for path, tree in zip(request.files, request.trees, strict=True)]
    access = Access(
        mode=request.mode,
        throttle=request.throttle or None,
        read_ahead=request.read_ahead,
        tree_cache=request.tree_cache or Access().tree_cache,
        cache_dir=request.cache_dir,
    )
    entries = 0
    limit = request.memory_limit_bytes
    with ChunkStream(
        sources, request.branches or None, access=access, threads=request.threads, memory_limit=limit
    ) as stream:
        for chunk in stream:
            entries += chunk.entry_stop - chunk.entry_start
    return entries


def read_apart_s(request: ReadingRequest, path: Path) -> float:
    """The seconds of reading in a process of its own, which finds its work in the file ``path``. Raises
    BranchlineError where that process fails.
    """
    request.write(path)
    command = [*own_python(), "-m", "branchline.lab.advice.timed_read", str(path)]
    done = subprocess.run(  # noqa: S603 - our own module
        command, capture_output=True, check=False, text=True, timeout=READING_S_MAX
    )
    if done.returncode:
        raise BranchlineError(f"a process that was to read ended with {done.returncode}: {done.stderr[-400:]}")
    return ReadingDone.of(Path(request.done)).wall_s


def main(path: Path) -> None:
    """Reads what a file asks for, and writes down what that took. Raises what reading raises."""
    request: ReadingRequest = from_plain(ReadingRequest, json.loads(path.read_text(encoding="utf-8")))
    begin_s = time.monotonic()
    entries = read(request)
    done = ReadingDone(time.monotonic() - begin_s, entries)
    if request.done:
        Path(request.done).write_text(json.dumps(to_plain(done)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
