"""Starts a real server for each storage on the loopback interface, with the same file, and defines the client that
copies the file from it.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.storage.ceph import Ceph
from tests.storage.hdfs import Hdfs
from tests.storage.machine import Room, needed
from tests.stores.servers import Nginx, certificates, loopback_shim, xrootd_with_http
from tests.stores.servers_s3 import KEYS, Moto

NAME = "events.root"


@dataclass(frozen=True)
class Place:
    """A file at a storage. `bare` is the command of a common client that copies it to /dev/null."""

    name: str
    url: str
    bare: list[str]
    server: str
    environment: dict[str, str] = field(default_factory=dict)


def curl(url: str, *options: str) -> list[str]:
    return [needed("curl"), "--silent", "--show-error", "--fail", "--location", *options, "--output", "/dev/null", url]


def xrootd(room: Room, file: Path) -> list[Place]:
    """XRootD, serving its own protocol and HTTP."""
    data = room.below("xrootd-data")
    shutil.copy(file, data / NAME)
    server, http_port = xrootd_with_http(room.below("xrootd"), data, loopback_shim(room.path))
    room.start(server)
    url, web = f"root://127.0.0.1:{server.port}//{NAME}", f"http://127.0.0.1:{http_port}/{NAME}"
    copy = [needed("xrdcp"), "--force", "--nopbar", "--silent", url, "/dev/null"]
    return [Place("XRootD", url, copy, "xrootd"), Place("HTTP, XrdHttp", web, curl(web), "xrootd")]


def nginx(room: Room, file: Path) -> list[Place]:
    data, keys = room.below("nginx-data"), room.below("certificates")
    shutil.copy(file, data / NAME)
    certificates(keys)
    server = room.start(Nginx(room.below("nginx"), data, keys))
    url, secure = f"http://127.0.0.1:{server.port}/{NAME}", f"https://127.0.0.1:{server.tls_port}/{NAME}"
    authority = str(keys / "ca.pem")
    trust = {"SSL_CERT_FILE": authority}
    return [
        Place("HTTP, nginx", url, curl(url), "nginx, one worker"),
        Place("HTTPS, nginx", secure, curl(secure, "--cacert", authority), "the same nginx, with TLS 1.3", trust),
    ]


def gateway(room: Room, file: Path) -> list[Place]:
    """Ceph's S3 gateway, or moto if it is not installed."""
    try:
        at_ceph = Ceph(room).gateway()
    except pytest.skip.Exception:
        return [moto(room, file)]
    at_ceph.put(NAME, file.read_bytes())
    bare = curl(f"{at_ceph.environment['AWS_ENDPOINT_URL']}/{at_ceph.bucket}/{NAME}")
    url = f"s3://{at_ceph.bucket}/{NAME}"
    return [Place("S3, Ceph RGW", url, bare, "radosgw over one OSD in memory", at_ceph.environment)]


def moto(room: Room, file: Path) -> Place:
    server = Moto(room.below("moto"))
    room.start(server)
    server.put(NAME, file.read_bytes())
    bare = curl(f"{server.endpoint}/{server.bucket}/{NAME}")
    environment = {"AWS_ENDPOINT_URL": server.endpoint, **KEYS}
    return Place("S3, moto", f"s3://{server.bucket}/{NAME}", bare, "moto, a mock in Python", environment)


def hdfs(room: Room, file: Path) -> list[Place]:
    server = Hdfs(room, block_bytes=128 * 2**20)
    server.write(NAME, file.read_bytes())
    bare = curl(f"http://{server.web_address}/webhdfs/v1/{NAME}?op=OPEN&user.name=reader")
    url = f"webhdfs://reader@{server.web_address}/{NAME}"
    return [
        Place("HDFS", f"{server.url}/{NAME}", bare, "NameNode and DataNode, read by hdfs-native; curl through WebHDFS"),
        Place("HDFS, WebHDFS", url, bare, "NameNode and DataNode, over HTTP"),
    ]


def local(room: Room, file: Path) -> list[Place]:
    copy = room.below("local") / NAME
    shutil.copy(file, copy)
    return [Place("local", str(copy), [needed("dd"), f"if={copy}", "of=/dev/null", "bs=4M", "status=none"], "none")]


MAKERS: dict[str, Callable[[Room, Path], list[Place]]] = {
    "local": local, "XRootD": xrootd, "nginx": nginx, "S3": gateway, "HDFS": hdfs,
}  # fmt: skip


@contextmanager
def places(file: Path, chosen: list[str], say: Callable[[str], None]) -> Iterator[tuple[list[Place], list[str]]]:
    """Yield the available places, and the reasons why others cannot run on this machine."""
    made: list[Place] = []
    missing: list[str] = []
    rooms: list[Room] = []
    try:
        for name in chosen:
            say(f"starting {name}")
            rooms.append(Room(f"benches-{name}"))
            try:
                made += MAKERS[name](rooms[-1], file)
            except pytest.skip.Exception as reason:
                missing.append(f"{name}: {reason}")
        yield made, missing
    finally:
        for room in rooms:
            room.close()
