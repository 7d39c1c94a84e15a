"""Fifty readings from real servers that are killed, stopped, restarted and emptied in mid-read, as a seed draws.

Each gives exactly the right bytes, or a clear error within its deadline; where a replica is left always the bytes.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.stores.conftest import Served
from tests.stores.servers import Folder, Nginx, Process, Xrootd, XrootdCluster

from branchline import Access
from branchline._core import Store
from branchline.errors import BranchlineError

pytestmark = pytest.mark.slow

#: Bytes of a file, and of one read of it.
SIZE, STEP = 600_000, 50_000
HARMS = ("killed", "stopped", "restarted", "emptied")
#: Tries, silences and pauses of a reading come to much less, and the machine may be busy.
DEADLINE_S = 30.0


@dataclass
class Place:
    """Servers over a folder: where to read, who is harmed, and how all is well again."""

    locations: Callable[[str], str]
    victim: Process
    data: Path
    #: Whether what one victim does not give comes from elsewhere.
    is_double: bool = False


@pytest.fixture(autouse=True)
def impatience(monkeypatch: pytest.MonkeyPatch, surroundings: None) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "0.4")
    monkeypatch.setenv("BRANCHLINE_STORAGE_PAUSE", "0.05")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "3")
    monkeypatch.setenv("BRANCHLINE_STORAGE_WAIT", "1")


@contextmanager
def running(*servers: Any) -> Iterator[None]:
    try:
        for one in servers:
            one.start()
        yield
    finally:
        for one in servers:
            one.kill()


def put(data: Path, name: str, content: bytes) -> Path:
    path = data / name
    path.write_bytes(content)
    path.chmod(0o644)
    return path


def harm(victim: Process, how: str, path: Path) -> None:
    if how == "emptied":
        os.truncate(path, 0)
    elif how == "stopped":
        victim.pause()
    else:
        victim.kill()
        if how == "restarted":
            victim.start(waits=False)


def mend(victim: Process, how: str) -> None:
    if how == "stopped":
        victim.go_on()
    elif how == "killed":
        # A member of a cluster has an address of its own, and is not waited for: another one goes on.
        victim.start(waits=getattr(victim, "host", "127.0.0.1") == "127.0.0.1")


def access_of(seed: int, copies: Path) -> Access:
    """As it is read, through a cache of ranges, or from a copy of the whole file."""
    ways = (Access(), Access(cache_dir=copies / "cache"), Access(mode="stage", stage_dir=copies / "stage"))
    return random.Random(-seed).choice(ways)


def way_of(access: Access) -> str:
    return "through a cache" if access.cache_dir else "staged" if access.stage_dir else "plainly"


def read_all(location: str, access: Access, before: Callable[[int], None]) -> bytes:
    before(-1)
    store = Store(location, access)
    parts = []
    for number, offset in enumerate(range(0, SIZE, STEP)):
        before(number)
        half = STEP // 2
        parts += store.read([(offset, half), (offset + half, STEP - half)]).contents
    return b"".join(parts)


class Strike:
    """Harms the server before a read, or a moment later, in the middle of it."""

    def __init__(self, seed: int, victim: Process, path: Path) -> None:
        draw = random.Random(seed)
        self.how = HARMS[seed % len(HARMS)]
        self._moment = draw.randrange(-1, SIZE // STEP)
        self._harm = (victim, self.how, path)
        self._is_struck = False
        self._timer = threading.Timer(0.001, harm, self._harm) if draw.random() < 0.5 else None

    def __call__(self, number: int) -> None:
        if number != self._moment:
            return
        self._is_struck = True
        if self._timer is None:
            harm(*self._harm)
        else:
            self._timer.start()

    def mend(self) -> None:
        if not self._is_struck:
            return
        if self._timer is not None:
            self._timer.join()
        mend(self._harm[0], self.how)


def outcome_of(place: Place, seed: int) -> str:
    content = random.Random(seed).randbytes(SIZE)
    path = put(place.data, f"{seed}.bin", content)
    strike = Strike(seed, place.victim, path)
    access = access_of(seed, place.data.parent / "copies")
    try:
        found = read_all(place.locations(path.name), access, strike)
    except BranchlineError as error:
        return f"{strike.how}: an error" if path.name in str(error) else f"an error that names no file: {error}"
    finally:
        strike.mend()
        path.unlink()
    return f"{strike.how}: right" if found == content else f"{strike.how}: wrong bytes"


def try_all(place: Place, seeds: range, record_property: Any, name: str) -> None:
    outcomes: Counter[str] = Counter()
    ways = Counter(way_of(access_of(seed, place.data)) for seed in seeds)
    for seed in seeds:
        started_s = time.monotonic()
        outcome = outcome_of(place, seed)
        assert time.monotonic() - started_s < DEADLINE_S, (seed, outcome)
        assert outcome.endswith(("an error", "right")), (seed, outcome)
        assert outcome.endswith("right") or not place.is_double, (seed, outcome)
        outcomes[outcome] += 1
    counts = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    by_way = ", ".join(f"{count} {way}" for way, count in sorted(ways.items()))
    record_property("summary", f"{name}, seeds {seeds[0]} to {seeds[-1]}: {counts}; read {by_way}")


def test_xrootd_alone(served: Served, own_folder: Folder, record_property: Any) -> None:
    data = own_folder.below("harmed")
    server = Xrootd(own_folder.below("xrootd"), data, served.shim)
    with running(server):
        place = Place(lambda name: f"root://localhost:{server.port}//{name}", server, data)
        try_all(place, range(16), record_property, "xrootd")


def test_nginx(served: Served, own_folder: Folder, record_property: Any) -> None:
    data = own_folder.below("harmed")
    server = Nginx(own_folder.below("nginx"), data, served.certificates)
    with running(server):
        place = Place(lambda name: f"http://localhost:{server.port}/{name}", server, data)
        try_all(place, range(16, 30), record_property, "nginx")


def test_a_cluster_of_xrootd(served: Served, own_folder: Folder, record_property: Any) -> None:
    data = own_folder.below("harmed")
    put(data, "random.bin", b"by which it is seen that the cluster is ready")
    cluster = XrootdCluster(own_folder, data, served.shim)
    with running(cluster):
        url = f"root://localhost:{cluster.redirector.port}//"
        place = Place(lambda name: url + name, cluster.servers[0], data)
        try_all(place, range(30, 38), record_property, "a cluster, of which one data server is harmed")


def test_two_replicas(
    served: Served, own_folder: Folder, record_property: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The one that is not harmed must answer in time, on a busy machine, too.
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "1")
    data = own_folder.below("harmed")
    other = own_folder.below("other")
    xrootd = Xrootd(own_folder.below("xrootd"), data, served.shim)
    nginx = Nginx(own_folder.below("nginx"), other, served.certificates)

    def both(name: str) -> str:
        put(other, name, (data / name).read_bytes())
        return f"root://localhost:{xrootd.port}//{name} | http://localhost:{nginx.port}/{name}"

    with running(xrootd, nginx):
        try_all(Place(both, xrootd, data, is_double=True), range(38, 50), record_property, "xrootd with a replica")
