"""Measure reading some branches of some files in a separate process, to compare two ways of reading:
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
from branchline.base.quantities import GIB
from branchline.errors import BranchlineError
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.records.sensors.record import AccessRecord

READING_VERSION = 1
#: Timeout in seconds of a process that reads a sample.
READING_S_MAX = 300.0


@dataclass(frozen=True)
class ReadingRequest:
    """The files to read, with access settings. ``trees`` has the name of each file's tree, empty for the only tree. An
    empty ``branches`` stands for all branches. The process writes its result to the file ``done``.
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
    memory_limit_bytes: int = GIB
    reading_version: int = READING_VERSION

    @classmethod
    def of(
        cls, files: Sequence[DataFile], branches: Sequence[str] | None, access: Access, threads: int, done: Path
    ) -> ReadingRequest:
        """Create the request for these files, branches (None for all) and access settings."""
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
        """Write the request to a file for the reading process."""
        path.write_text(json.dumps(to_plain(self)), encoding="utf-8")


@dataclass(frozen=True)
class ReadingDone:
    """The time for reading in seconds, without the start of the process, and the number of entries read."""

    wall_s: float
    entries: int

    @classmethod
    def of(cls, path: Path) -> ReadingDone:
        """Load the result of a process. Raises OSError without a result file, and ValueError for an invalid one."""
        found: ReadingDone = from_plain(cls, json.loads(path.read_text(encoding="utf-8")))
        return found


def read(request: ReadingRequest) -> int:
    """Read and decode all data of a request; return the number of entries. Raises the errors of reading."""
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
    """Return the time in seconds for reading in a separate process, which gets its request in the file ``path``. Raises
    BranchlineError if the process fails.
    """
    request.write(path)
    command = [*own_python(), "-m", "branchline.lab.advice.timed_read", str(path)]
    done = subprocess.run(  # noqa: S603 - a module of this package
        command, capture_output=True, check=False, text=True, timeout=READING_S_MAX
    )
    if done.returncode:
        raise BranchlineError(f"the reading process ended with code {done.returncode}: {done.stderr[-400:]}")
    return ReadingDone.of(Path(request.done)).wall_s


def main(path: Path) -> None:
    """Execute the request in the file ``path`` and write the result. Raises the errors of reading."""
    request: ReadingRequest = from_plain(ReadingRequest, json.loads(path.read_text(encoding="utf-8")))
    begin_s = time.monotonic()
    entries = read(request)
    done = ReadingDone(time.monotonic() - begin_s, entries)
    if request.done:
        Path(request.done).write_text(json.dumps(to_plain(done)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
