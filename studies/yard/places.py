"""The places where studies find their files, made of emulated hardware and real servers, and named by what they are.

A place sets variables for the files of studies: ${DISK} is a folder, ${SERVER} a URL, and so on.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest
from tests.storage import xrootdfs
from tests.storage.ceph import Ceph
from tests.storage.glusterfs import GlusterFs
from tests.storage.hdfs import Hdfs
from tests.storage.machine import Room
from tests.storage.moosefs import MooseFs
from tests.stores.servers import Folder, Xrootd, XrootdCluster, loopback_shim

from branchline._core import Proxy
from studies.making.sets import Sets
from studies.published import Published
from studies.yard.disks import FAST_SOLID_STATE, HARD_DISK, SLOW_DISK, SOLID_STATE, DiskKind, Disks, read_ahead_of
from studies.yard.links import Link, WideArea
from studies.yard.skipping import LackingError

#: The network between servers of 2008.
LINK_BITS_PER_S = 10**9
#: That of the wide area of 2013: 7.4 MB/s and 63 ms. The second server is loaded: its answers are late.
WIDE_AREA, WIDE_AREA_LOADED = WideArea(63, 7.4), WideArea(200, 7.4)
#: Servers have the files below this folder: URLs of ROOT need one, as what follows the server is else no full path.
FILES = "files"
#: Room on a disk beside its files, for the file system's own.
SPARE_BYTES = 300 * 10**6


@dataclass
class Yard:
    """The places of a study and their variables. The study's sets are copied to each place."""

    sets: Sets
    published: Published
    room: Room
    variables: dict[str, str] = field(default_factory=dict)
    link: Link | None = None
    disks: Disks | None = None

    def files(self) -> Iterator[tuple[Path, Path]]:
        """Return the files of the sets, and their paths at a place. Further copies of the entries of a set have numbers
        in their names.
        """
        for name in self.published.sets:
            folder = self.sets.made(name)
            for entry, number in product(sorted(folder.glob("[!.]*")), range(self.published.copies)):
                copy = entry.with_stem(f"{entry.stem}-{number}") if number else entry
                for one in sorted(entry.rglob("*.root")) if entry.is_dir() else [entry]:
                    yield one, Path(name, copy.name, one.relative_to(entry))

    @property
    def size_bytes(self) -> int:
        return sum(one.stat().st_size for one, _ in self.files())

    def fill(self, place: Path) -> None:
        """Copy the sets, and have the kernel write them."""
        for one, path in self.files():
            copy = place / FILES / path
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(one, copy)
        os.sync()

    def disk(self, name: str, kind: DiskKind) -> tuple[Path, str]:
        place, device = self.emulated_disks().disk(name, kind, self.size_bytes * 5 // 4 + SPARE_BYTES)
        self.fill(place)
        return place, device

    def raid(self, name: str, kind: DiskKind, count: int, level: str) -> tuple[Path, str]:
        size_bytes = self.size_bytes * 5 // 4 + SPARE_BYTES
        place, device = self.emulated_disks().raid(name, kind, count, size_bytes, level)
        self.fill(place)
        return place, device

    def emulated_disks(self) -> Disks:
        if self.disks is None:
            self.disks = Disks(self.room.below("disks"))
        return self.disks

    def disk_rates(self) -> list[tuple[str, float]]:
        """Return the kind and the measured rate of each emulated disk. Raises OffLimitError if a disk does not have the
        rate of its kind.
        """
        return [] if self.disks is None else [(one.kind.name, one.check()) for one in self.disks.emulated]

    def own_room(self, name: str) -> Room:
        """A room for one file system: each mounts at the same name below its room."""
        room = Room(f"studies-{name}")
        self.room.at_the_end(room.close)
        return room

    def name(self, **places: Path | str) -> None:
        """Sets variables to the folders or servers with the files."""
        for variable, place in places.items():
            self.variables[variable] = f"{place}/{FILES}"

    def server(self, name: str, data: Path) -> Xrootd:
        """Start XRootD for a folder, and return it. It is reached over the link."""
        if self.link is None:
            self.link = Link(LINK_BITS_PER_S)
        shim = loopback_shim(self.room.path)
        server = Xrootd(self.room.below(name), data, shim, host=self.link.host)
        self.room.start(server)
        return server


def _disk(yard: Yard) -> None:
    place, device = yard.disk("disk", HARD_DISK)
    yard.name(DISK=place)
    yard.variables["DISK_DEVICE"] = device


def _slow_disk(yard: Yard) -> None:
    place, device = yard.disk("slow", SLOW_DISK)
    yard.name(SLOW=place)
    yard.variables["SLOW_DEVICE"] = device


def _solid_state(yard: Yard) -> None:
    yard.name(SOLID=yard.disk("solid", SOLID_STATE)[0])


def _fast_solid_state(yard: Yard) -> None:
    yard.name(FAST=yard.disk("fast", FAST_SOLID_STATE)[0])


def _four_disks(yard: Yard) -> None:
    for number in range(1, 5):
        yard.name(**{f"DISK{number}": yard.disk(f"disk{number}", HARD_DISK)[0]})


def _raid5(yard: Yard) -> None:
    place, _ = yard.raid("raid", HARD_DISK, 4, "raid5")
    yard.name(RAID=place)
    # Btrfs has a read-ahead of its own, for the whole file system.
    yard.variables["RAID_READ_AHEAD"] = str(read_ahead_of(place))


def _server(yard: Yard) -> None:
    place, _ = yard.disk("served", HARD_DISK)
    server = yard.server("xrootd", place)
    yard.name(SERVER=f"root://{server.host}:{server.port}/", SERVED=place)


def _wide_area(yard: Yard) -> None:
    place, _ = yard.disk("far", HARD_DISK)
    server = yard.server("far-xrootd", place)
    yard.name(FAR_SERVED=place)
    for name, way in (("FAR", WIDE_AREA), ("FAR_LOADED", WIDE_AREA_LOADED)):
        proxy = Proxy(f"{server.host}:0", f"{server.host}:{server.port}", way.throttle, None)
        yard.room.at_the_end(proxy.close)
        yard.name(**{name: f"root://{server.host}:{proxy.port}/"})


def _cluster(yard: Yard) -> None:
    folder = Folder()
    yard.room.at_the_end(folder.remove)
    data = folder.below("data")
    yard.fill(data)
    (data / "random.bin").write_bytes(b"found")
    cluster = XrootdCluster(folder, data, loopback_shim(folder.path))
    yard.room.at_the_end(cluster.kill)
    cluster.start()
    yard.name(CLUSTER=f"root://{cluster.redirector.host}:{cluster.redirector.port}/", CLUSTER_SERVED=data)


def _moosefs(yard: Yard) -> None:
    place = MooseFs(yard.own_room("moosefs")).path
    yard.fill(place)
    yard.name(PARALLEL=place)


def _glusterfs(yard: Yard) -> None:
    place = GlusterFs(yard.own_room("glusterfs")).path
    yard.fill(place)
    yard.name(SHARED=place)


def _over_glusterfs(yard: Yard) -> None:
    """XRootD whose folder is the mount."""
    if "SHARED" not in yard.variables:
        _glusterfs(yard)
    mount = Path(yard.variables["SHARED"]).parent
    server = Xrootd(yard.room.below("over"), mount, loopback_shim(yard.room.path))
    yard.room.start(server)
    yard.name(OVER=f"root://{server.host}:{server.port}/")


def _cephfs(yard: Yard) -> None:
    place = Ceph(yard.own_room("ceph")).mount()
    yard.fill(place)
    yard.name(CEPHFS=place)


def _xrootdfs(yard: Yard) -> None:
    """A mount of an XRootD server, and the server itself."""
    room = yard.own_room("xrootdfs")
    place, server = xrootdfs.mounted_from(room, xrootdfs.IMPATIENT)
    data = room.path / "data"
    yard.fill(data)
    yard.name(MOUNT=place, MOUNTED=f"root://127.0.0.1:{server.port}/", MOUNT_SERVED=data)


def _hdfs(yard: Yard) -> None:
    hdfs = Hdfs(yard.own_room("hdfs"), block_bytes=64 * 2**20)
    for one, path in yard.files():
        hdfs.write(f"{FILES}/{path.as_posix()}", one.read_bytes())
    yard.name(HDFS=hdfs.url)


def _results(yard: Yard) -> None:
    """A folder for what is copied to the worker, on a disk of its own."""
    place, _ = yard.emulated_disks().disk("worker", HARD_DISK, 2 * yard.size_bytes + SPARE_BYTES)
    yard.variables["WORKER"] = str(place)


PLACES: dict[str, Callable[[Yard], None]] = {
    "disk": _disk,
    "slow disk": _slow_disk,
    "solid state disk": _solid_state,
    "fast solid state disk": _fast_solid_state,
    "four disks": _four_disks,
    "RAID 5": _raid5,
    "worker's disk": _results,
    "server": _server,
    "wide area": _wide_area,
    "cluster": _cluster,
    "MooseFS": _moosefs,
    "GlusterFS": _glusterfs,
    "XRootD over GlusterFS": _over_glusterfs,
    "CephFS": _cephfs,
    "xrootdfs": _xrootdfs,
    "HDFS": _hdfs,
}


@contextmanager
def yard_of(sets: Sets, published: Published) -> Iterator[Yard]:
    """The places of a study, while it runs. Raises LackingError for one that this machine cannot make."""
    room = Room("studies")
    yard = Yard(sets, published, room)
    for name in published.sets:
        sets.made(name)
    try:
        for name in published.places:
            try:
                PLACES[name](yard)
            except pytest.skip.Exception as reason:
                raise LackingError(str(reason)) from None
            except AssertionError as error:
                raise LackingError(f"{name} did not start here: {str(error)[:300]}") from None
        yield yard
    finally:
        if yard.disks is not None:
            room.at_the_end(yard.disks.close)
        # Servers and proxies first: without a link their connections would never end.
        room.close()
        if yard.link is not None:
            yard.link.close()
