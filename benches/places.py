"""What the benchmarks of links read, and from where: files behind a real XRootD server, and slow ways to it."""

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
#: Of a cluster of the large file, as it is stored.
LARGE_CLUSTER_BYTES = 7_300_000
#: Of a file of split objects.
SMALL_FILE_BYTES = 2_960_000
#: So many of them at most go into a large file, again and again.
EVENT_FILES = 100


def large_file(cache: Path, size_bytes: int, progress: Callable[[str], None]) -> Path:
    """A file of about so many bytes, with 40 branches of arrays of 64 floats, made once. They compress by a third, with
    the fastest level of zstd: decoding them takes little time compared with the transfer.
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
                # As the numbers of detectors are: of a few digits, so that they compress a little.
                values = {f"b{number}": random.normal(size=shape).astype("f2").astype("f4") for number in range(40)}
                tree.extend(values)
        os.replace(temporary, path)
    return path


def large_event_file(cache: Path, size_bytes: int, progress: Callable[[str], None]) -> Path:
    """A file of about so many bytes, made once of the small files of split objects, whose baskets it has as they are: a
    few KB each, compressed with zlib, as ROOT wrote them.
    """
    path = cache / "links" / f"events-{size_bytes // 1_000_000}.root"
    if not path.exists():
        from branchline.writing.merging.merge import merge

        made = split_object_files(cache, min(EVENT_FILES, max(2, size_bytes // SMALL_FILE_BYTES)), progress)
        progress(f"merging a file of {size_bytes / 1e6:.0f} MB")
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=path.parent) as folder:
            # Files that are there already come again: a file of two names would be refused.
            inputs = [Path(folder) / f"{number}.root" for number in range(max(2, size_bytes // SMALL_FILE_BYTES))]
            for number, one in enumerate(inputs):
                shutil.copyfile(made[number % len(made)], one)
            merge(inputs, path)
    return path


@dataclass(frozen=True)
class Workload:
    """Files with a tree, by their names below the server's folder, and some of its branches or all; and the round trips
    that a reader that knows nothing yet cannot spare: TCP, login and open, the list of what else to read, the rest.
    """

    name: str
    names: tuple[str, ...]
    tree: str
    branches: tuple[str, ...] | None
    round_trips: int = 4

    def request(self, base: str) -> dict[str, object]:
        """What a reader is asked to read below a folder or URL."""
        branches = None if self.branches is None else list(self.branches)
        return {"files": [f"{base}/{name}" for name in self.names], "tree": self.tree, "branches": branches}


def some_branches(path: Path, tree: str, count: int) -> tuple[str, ...]:
    """So many of the branches with values, spread over the tree."""
    import branchline

    opened = branchline.open(f"{path}:{tree}")
    named = [name for name in opened.keys() if opened[name].readable and opened[name].baskets_count]
    # Names that uproot and ROOT take too: with no dot and no bracket in them.
    plain = [name for name in named if name.replace("/", "").replace("_", "").isalnum()] or named
    return tuple(plain[:: max(1, len(plain) // count)][:count])


@dataclass(frozen=True)
class Place:
    """A folder, and the port and the process of the server that serves it."""

    folder: Path
    port: int
    pid: int

    def cpu_s(self) -> float:
        """Seconds of processor time that the server has taken so far."""
        # proc(5): of the fields behind the name in brackets the 12th and 13th, in ticks.
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def url(self) -> str:
        return url_of(self.port)


def url_of(port: int) -> str:
    """The root of what a server at this port serves."""
    return f"root://127.0.0.1:{port}/"


@contextmanager
def served(files: dict[str, Path]) -> Iterator[Place]:
    """Files under new names in a folder of their own, behind an XRootD server that is ended afterwards."""
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
    """The files of split objects under names of their own."""
    made = split_object_files(cache, count, progress)
    return {f"small-{number:03}.root": path for number, path in enumerate(made)}


SMALL_TREE = SPLIT_TREE
