"""XRootD caches (XCache) in front of a storage element, in both forms."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import uproot
from tests.stores.servers import Folder, Xrootd, answers, free_port, loopback_shim

#: The files of the origin, each alone in its folder, and their entries.
FILES = ("aa/one.root", "bb/two.root", "cc/three.root")
ENTRIES = 20_000
#: Time of the files at the origin, long before the cache writes its own.
WRITTEN_NS = 1_700_000_000_000_000_000
# A cache on a disk that is nearly full would remove files at once. Less memory is refused.
CACHE = """
all.export /root:/
all.export /xroot:/
ofs.osslib libXrdPss.so
pss.cachelib libXrdPfc.so
pss.origin {origin}
pfc.blocksize 128k
pfc.ram 1g
pfc.prefetch 0
pfc.diskusage 0.998 0.999
xrootd.monitor all flush 1s window 1s dest pfc 127.0.0.1:{monitor_port}
"""


class Cache(Xrootd):
    """A cache. It listens before it has started, and may then still refuse its configuration."""

    def __init__(self, folder: Path, origin: str, shim: Path, monitor_port: int) -> None:
        self.disk = folder / "disk"
        self.disk.mkdir()
        more = CACHE.format(origin=origin, monitor_port=monitor_port)
        super().__init__(folder, self.disk, shim, more, name="cache")

    def start(self, waits: bool = True) -> None:
        log = self._log.parent / "cache" / "xrootd.log"
        log.unlink(missing_ok=True)
        self._ready = lambda: answers(self.port) and f"{self.port} initialization completed" in log.read_text()
        super().start(waits)


@dataclass(frozen=True)
class Caches:
    """The origin, and two caches: one for this origin, one that forwards to any. Both report to ``monitor_port``."""

    folder: Path
    origin: Xrootd
    plain: Cache
    forwarding: Cache
    monitor_port: int

    @property
    def urls(self) -> list[str]:
        """The files at the origin."""
        return [f"root://127.0.0.1:{self.origin.port}//{name}" for name in FILES]

    def cache(self, form: str) -> Cache:
        """The cache of this form."""
        return self.plain if form == "plain" else self.forwarding

    def configured(self, form: str) -> str:
        """The cache as the site configuration has it."""
        return f"root://127.0.0.1:{self.cache(form).port}{'' if form == 'plain' else '//'}"

    def cached(self, form: str) -> list[Path]:
        """The files that a cache has on its disk, without its notes about them."""
        return [one for one in self.cache(form).disk.rglob("*.root") if one.is_file()]

    def purge(self, form: str) -> None:
        """Restart a cache with an empty disk."""
        cache = self.cache(form)
        cache.kill()
        for one in cache.disk.iterdir():
            shutil.rmtree(one) if one.is_dir() else one.unlink()
        cache.start()


def _write(path: Path, seed: int) -> None:
    path.parent.mkdir()
    with uproot.recreate(path, compression=uproot.ZLIB(1)) as file:
        tree = file.mktree("events", {"x": "float64", "y": "float64"})
        random = np.random.default_rng(seed)
        tree.extend({"x": random.normal(size=ENTRIES), "y": random.normal(size=ENTRIES)})
    os.utime(path, ns=(WRITTEN_NS, WRITTEN_NS))
    path.parent.chmod(0o755)
    path.chmod(0o644)


@contextmanager
def started_caches() -> Iterator[Caches]:
    """Start the origin and its caches."""
    folder = Folder()
    started: list[Xrootd] = []
    try:
        data, monitor_port = folder.below("data"), free_port()
        for number, name in enumerate(FILES):
            _write(data / name, number)
        shim = loopback_shim(folder.path)
        origin = Xrootd(folder.below("origin"), data, shim)
        plain = Cache(folder.below("plain"), f"127.0.0.1:{origin.port}", shim, monitor_port)
        forwarding = Cache(folder.below("forwarding"), "=", shim, monitor_port)
        for one in (origin, plain, forwarding):
            started.append(one)
            one.start()
        yield Caches(folder.path, origin, plain, forwarding, monitor_port)
    finally:
        for one in started:
            one.kill()
        folder.remove()
