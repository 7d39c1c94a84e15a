"""Read traces of study jobs: the ranges and times of their requests, for block limits and plots."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

import numpy as np

from branchline.base.array_types import Floats, Integers
from branchline.base.quantities import NS_PER_S
from branchline.lab.sampling.job import Counts
from branchline.reading.locations import is_url

#: Clients that read with Branchline's engine in the job's process, so their requests can be recorded.
TRACED_CLIENTS = ("branchline", "train")
FOLDER = "traces"


@dataclass(frozen=True)
class TimedReads:
    """The reads of a file, in the order in which they were sent: seconds since the first read of the job, offsets, and
    sizes in bytes.
    """

    file: str
    seconds: Floats
    offsets: Integers
    sizes: Integers


def trace_path(folder: Path, arm: str, number: int) -> Path:
    """Return the path of a job's trace in a study directory."""
    return folder / FOLDER / f"{hashlib.sha256(arm.encode()).hexdigest()[:16]}-{number}.parquet"


def traced(reader: Callable[[list[str]], Counts], path: Path) -> Callable[[list[str]], Counts]:
    """Return a reader that calls ``reader`` and records all its requests."""
    from branchline.tracing.recording import recording

    def read(files: list[str]) -> Counts:
        path.parent.mkdir(parents=True, exist_ok=True)
        with recording(path, "a job of a study"):
            return reader(files)

    return read


def reads_of(path: Path) -> list[TimedReads]:
    """Return the reads in a trace, grouped by file. Files are ordered by their first read. Raises MissingFileError,
    BadFileError.
    """
    from branchline.tracing.trace import read_trace

    rows = read_trace(path).rows_of("request")
    names = np.asarray(rows["file"].to_numpy(zero_copy_only=False), dtype=object)
    sent, offsets, sizes = (
        np.nan_to_num(rows[name].to_numpy().astype("f8"), nan=-1.0).astype("i8")
        for name in ("sent_ns", "offset", "got_bytes")
    )
    order = np.argsort(sent, kind="stable")
    order = order[(offsets[order] >= 0) & (sizes[order] > 0)]
    begin_ns = int(sent[order[0]]) if len(order) else 0
    found = []
    for file in dict.fromkeys(names[order].tolist()):
        own = order[names[order] == file]
        found.append(TimedReads(str(file), (sent[own] - begin_ns) / NS_PER_S, offsets[own], sizes[own]))
    return found


def ranges_on(path: Path, files: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the file, offset and size of all reads in a trace, in order. URLs and deleted copies are replaced by their
    counterparts in ``files``. Returns an empty list if a file has no unambiguous counterpart.
    """
    reads = reads_of(path)
    known = counterparts([one.file for one in reads], files)
    if None in known.values():
        return []
    found = [
        (second, known[one.file] or "", int(offset), int(size))
        for one in reads
        for second, offset, size in zip(one.seconds.tolist(), one.offsets, one.sizes, strict=True)
    ]
    return [(file, offset, size) for _, file, offset, size in sorted(found, key=lambda read: read[0])]


def counterparts(names: Sequence[str], files: Sequence[str]) -> dict[str, str | None]:
    """Map each path or URL to a local file: the path itself if it exists, or else the file with the longest common path
    suffix. Maps to None without a match, if the match is ambiguous, or if two names match the same file.
    """
    found = {name: name if os.path.isfile(name) else _counterpart(name, files) for name in names}
    times = Counter(found.values())
    return {name: one if times[one] == 1 else None for name, one in found.items()}


def _counterpart(name: str, files: Sequence[str]) -> str | None:
    ends = sorted(((_common_end(name, one), one) for one in dict.fromkeys(files)), reverse=True)
    if not ends or ends[0][0] == 0 or (len(ends) > 1 and ends[1][0] == ends[0][0]):
        return None
    return ends[0][1]


def _common_end(name: str, file: str) -> int:
    """Return the number of trailing path components that are equal in both paths."""
    path = unquote(urlsplit(name).path) if is_url(name) else name
    both = zip(reversed(Path(path).parts), reversed(Path(file).parts), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda one: one[0] == one[1], both))
