"""The data for the benchmarks of links: files on a real XRootD server, read through slow links."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.stores.servers import Folder, Xrootd, loopback_shim

from benches.data import SPLIT_TREE, split_object_files

LARGE_TREE = "events"
LARGE_BRANCHES = 40
LARGE_ENTRIES_OF_CLUSTER = 1000
#: Compressed size of a cluster of the large file.
LARGE_CLUSTER_BYTES = 7_300_000
#: Size of a file of split objects.
SMALL_FILE_BYTES = 2_960_000
#: Maximum number of distinct small files in a large file, which repeats them.
EVENT_FILES = 100


def large_file(cache: Path, size_bytes: int, progress: Callable[[str], None]) -> Path:
    """Write a file of about this size, with 40 branches of arrays of 64 floats, unless it exists.

    The fastest level of zstd compresses them by a third, so that decoding takes little time compared with the transfer.
    """
    path = cache / "links" / f"large-{size_bytes // 1_000_000}.root"
    if not path.exists():
        import numpy as np
        import uproot

        progress(f"writing a file of {size_bytes / 1e6:.0f} MB")
        path.parent.mkdir(parents=True, exist_ok=True)
        random = np.random.default_rng(1)
        temporary = path.with_suffix(".tmp")
        with uproot.recreate(temporary, compression=uproot.ZSTD(1)) as file:
            tree = file.mktree(LARGE_TREE, {f"b{number}": ("f4", (64,)) for number in range(LARGE_BRANCHES)})
            for _ in range(max(1, size_bytes // LARGE_CLUSTER_BYTES)):
                shape = (LARGE_ENTRIES_OF_CLUSTER, 64)
                # Values with few digits, like detector data, so that they compress a little.
                values = {f"b{number}": random.normal(size=shape).astype("f2").astype("f4") for number in range(40)}
                tree.extend(values)
        os.replace(temporary, path)
    return path


def large_event_file(cache: Path, size_bytes: int, progress: Callable[[str], None]) -> Path:
    """Merge small files of split objects to a file of about this size, unless it exists. The baskets are copied
    unchanged: a few KB each, compressed with zlib by ROOT.
    """
    path = cache / "links" / f"events-{size_bytes // 1_000_000}.root"
    if not path.exists():
        from branchline.writing.merging.merge import merge

        made = split_object_files(cache, min(EVENT_FILES, max(2, size_bytes // SMALL_FILE_BYTES)), progress)
        progress(f"merging a file of {size_bytes / 1e6:.0f} MB")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            # Repeat the same paths, since two names of one file would be an error.
            inputs = [Path(folder) / f"{number}.root" for number in range(max(2, size_bytes // SMALL_FILE_BYTES))]
            for number, one in enumerate(inputs):
                shutil.copyfile(made[number % len(made)], one)
            merge(inputs, path)
    return path


@dataclass(frozen=True)
class Workload:
    """Files with a tree, relative to the server's folder; branches, or None for all; and the minimum number of round
    trips of a reader without prior knowledge: TCP, login and open, the list of further parts, the rest.
    """

    name: str
    names: tuple[str, ...]
    tree: str
    branches: tuple[str, ...] | None
    round_trips: int = 4

    def request(self, base: str) -> dict[str, object]:
        """Return the request to a reader for a folder or URL."""
        branches = None if self.branches is None else list(self.branches)
        return {"files": [f"{base}/{name}" for name in self.names], "tree": self.tree, "branches": branches}


def some_branches(path: Path, tree: str, count: int) -> tuple[str, ...]:
    """Return ``count`` branches with values, spread over the tree."""
    import branchline

    opened = branchline.open(f"{path}:{tree}")
    named = [name for name in opened.keys() if opened[name].readable and opened[name].baskets_count]
    # Use names without dots and brackets, which uproot and ROOT also accept.
    plain = [name for name in named if name.replace("/", "").replace("_", "").isalnum()] or named
    return tuple(plain[:: max(1, len(plain) // count)][:count])


@dataclass(frozen=True)
class Place:
    """A folder, and the port and process id of the server that serves it."""

    folder: Path
    port: int
    pid: int

    def cpu_s(self) -> float:
        """Return the CPU seconds of the server."""
        # proc(5): utime and stime are the 12th and 13th fields after the name in parentheses, in ticks.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def url(self) -> str:
        return url_of(self.port)


def url_of(port: int) -> str:
    """Return the root URL of a server on this port."""
    return f"root://127.0.0.1:{port}/"


@contextmanager
def served(files: dict[str, Path]) -> Iterator[Place]:
    """Serve these files under new names from a temporary folder with an XRootD server."""
    folder = Folder()
    data = folder.below("data")
    try:
        for name, path in files.items():
            (data / name).parent.mkdir(parents=True, exist_ok=True)
            try:
                os.link(path.resolve(), data / name)
            except OSError:
                shutil.copy(path, data / name)
        server = Xrootd(folder.below("server"), data, loopback_shim(folder.path))
        server.start()
        try:
            yield Place(data, server.port, server.pid)
        finally:
            server.kill()
    finally:
        folder.remove()


def small_files(cache: Path, count: int, progress: Callable[[str], None]) -> dict[str, Path]:
    """Return the files of split objects by new names."""
    made = split_object_files(cache, count, progress)
    return {f"small-{number:03}.root": path for number, path in enumerate(made)}


SMALL_TREE = SPLIT_TREE
