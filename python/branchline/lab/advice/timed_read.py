"""Measure reading some branches of some files in a separate process, to compare two ways of reading:
``python -m branchline.lab.advice.timed_read REQUEST.json``.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline.base.plain import from_plain, to_plain
from branchline.base.processes import own_python
from branchline.base.quantities import GIB, duration
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
    empty ``branches`` stands for all branches. The process writes its result to the file ``done``. With ``waits``, it
    prints a line when it is ready, and reads the files after it has received a line.
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
    waits: bool = False
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


def read_at_once_s(requests: Sequence[ReadingRequest], folder: Path) -> float:
    """Return the mean time in seconds of several jobs that read concurrently, each in its own process. All start to
    read when the last one is ready. ``folder`` is for the requests and results.

    Raises BranchlineError if a process fails.
    """
    processes: list[subprocess.Popen[str]] = []
    results = [folder / f"done-{number}.json" for number in range(len(requests))]
    try:
        for number, (request, result) in enumerate(zip(requests, results, strict=True)):
            path = folder / f"request-{number}.json"
            replace(request, done=str(result), waits=True).write(path)
            command = [*own_python(), "-m", "branchline.lab.advice.timed_read", str(path)]
            pipe = subprocess.PIPE
            process = subprocess.Popen(  # noqa: S603 - a module of this package
                command, stdin=pipe, stdout=pipe, stderr=pipe, text=True
            )
            processes.append(process)
        for process in processes:
            # The line is empty if the process has failed, which is reported below.
            assert process.stdout is not None
            process.stdout.readline()
        for process in processes:
            assert process.stdin is not None
            with suppress(BrokenPipeError):
                process.stdin.write("\n")
                process.stdin.flush()
        for process in processes:
            _, said = process.communicate(timeout=READING_S_MAX)
            if process.returncode:
                raise BranchlineError(f"the reading process ended with code {process.returncode}: {said[-400:]}")
    except subprocess.TimeoutExpired:
        raise BranchlineError(f"a sample was not read within {duration(READING_S_MAX)}") from None
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return statistics.fmean(ReadingDone.of(one).wall_s for one in results)


def main(path: Path) -> None:
    """Execute the request in the file ``path`` and write the result. Raises the errors of reading."""
    request: ReadingRequest = from_plain(ReadingRequest, json.loads(path.read_text(encoding="utf-8")))
    if request.waits:
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        sys.stdin.readline()
    begin_s = time.monotonic()
    entries = read(request)
    done = ReadingDone(time.monotonic() - begin_s, entries)
    if request.done:
        Path(request.done).write_text(json.dumps(to_plain(done)), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
