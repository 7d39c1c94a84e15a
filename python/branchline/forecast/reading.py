"""Reads some branches of some files in a process of its own, so that two ways of reading can be compared:
``python -m branchline.forecast.reading REQUEST.json``.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path

from branchline.access import Access
from branchline.sensors.plain import from_plain, to_plain
from branchline.tree import ChunkStream, Source

READING_VERSION = 1


@dataclass(frozen=True)
class ReadingRequest:
    """Files with the names of their trees (empty for the only one), branches (empty for all), settings of reading."""

    files: list[str]
    trees: list[str]
    branches: list[str] = field(default_factory=list)
    mode: str = "planned"
    throttle: str = ""
    threads: int = 1
    read_ahead: int | None = None
    tree_cache: int | None = None
    cache_dir: str | None = None
    reading_version: int = READING_VERSION

    def write(self, path: Path) -> None:
        """Writes it for the process that is to read."""
        path.write_text(json.dumps(to_plain(self)), encoding="utf-8")


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
    with ChunkStream(sources, request.branches or None, access=access, threads=request.threads) as stream:
        for chunk in stream:
            entries += chunk.entry_stop - chunk.entry_start
    return entries


if __name__ == "__main__":
    read(from_plain(ReadingRequest, json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))))
