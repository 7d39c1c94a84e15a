"""The places that the heavier servers make, one after another: each is started for its checks and ended after them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.storage import xrootdfs
from tests.storage.ceph import Ceph, Gateway
from tests.storage.glusterfs import GlusterFs
from tests.storage.hdfs import Hdfs
from tests.storage.machine import Room
from tests.storage.moosefs import MooseFs
from tests.stores.conftest import write_files
from tests.stores.places import Place


@dataclass(frozen=True)
class Files:
    """The files of the tests on the local disk."""

    folder: Path
    content: bytes


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("originals")
    return Files(folder, write_files(folder))


class MountedPlace(Place):
    """A mounted file system, written and read through its mount."""

    def __init__(self, name: str, mount: Path, files: Files) -> None:
        closes_nothing = "nothing is closed to root" if os.geteuid() == 0 else ""
        super().__init__(name, lambda file: str(mount / file), files.folder, files.content, closes_nothing)
        self.mount = mount
        shutil.copytree(files.folder, mount, dirs_exist_ok=True, copy_function=shutil.copyfile)

    def write(self, name: str, content: bytes) -> None:
        (self.mount / name).write_bytes(content)

    def close(self, name: str) -> None:
        (self.mount / name).chmod(0)

    def remove(self, name: str) -> None:
        (self.mount / name).unlink(missing_ok=True)


class GatewayPlace(Place):
    """A bucket at Ceph's gateway."""

    def __init__(self, name: str, gateway: Gateway, files: Files, patch: pytest.MonkeyPatch) -> None:
        super().__init__(name, lambda key: f"s3://{gateway.bucket}/{key}", files.folder, files.content)
        self._gateway = gateway
        for one in sorted(files.folder.rglob("*")):
            if one.is_file():
                gateway.put(one.relative_to(files.folder).as_posix().replace("%", "%25"), one.read_bytes())
        for variable, value in gateway.environment.items():
            patch.setenv(variable, value)

    def write(self, name: str, content: bytes) -> None:
        self._gateway.put(name, content)

    def close(self, name: str) -> None:
        self._gateway.put(name, b"closed", is_open=False)

    def remove(self, name: str) -> None:
        self._gateway.remove(name)


class HdfsPlace(Place):
    """HDFS, read by a user who is not its superuser."""

    def __init__(self, name: str, hdfs: Hdfs, url: Callable[[str], str], files: Files) -> None:
        super().__init__(name, url, files.folder, files.content)
        self._hdfs = hdfs
        for one in sorted(files.folder.rglob("*")):
            if one.is_file():
                hdfs.write(one.relative_to(files.folder).as_posix(), one.read_bytes())

    def write(self, name: str, content: bytes) -> None:
        self._hdfs.write(name, content)

    def close(self, name: str) -> None:
        self._hdfs.close(name)

    def remove(self, name: str) -> None:
        self._hdfs.remove(name)


def through_webhdfs(room: Room, files: Files) -> Place:
    hdfs = Hdfs(room)
    return HdfsPlace("webhdfs", hdfs, lambda name: f"webhdfs://reader@{hdfs.web_address}/{name}", files)


def hdfs_itself(room: Room, files: Files, patch: pytest.MonkeyPatch) -> Place:
    hdfs = Hdfs(room)
    patch.setenv("HADOOP_USER_NAME", "reader")
    return HdfsPlace("hdfs", hdfs, lambda name: f"{hdfs.url}/{name}", files)


Maker = Callable[[Room, Files, pytest.MonkeyPatch], Place]
PLACES: dict[str, Maker] = {
    "xrootdfs": lambda room, files, patch: MountedPlace("xrootdfs", xrootdfs.mounted(room), files),
    "cephfs": lambda room, files, patch: MountedPlace("cephfs", Ceph(room).mount(), files),
    "moosefs": lambda room, files, patch: MountedPlace("moosefs", MooseFs(room).path, files),
    "glusterfs": lambda room, files, patch: MountedPlace("glusterfs", GlusterFs(room).path, files),
    "s3-rgw": lambda room, files, patch: GatewayPlace("s3-rgw", Ceph(room).gateway(), files, patch),
    "hdfs": lambda room, files, patch: hdfs_itself(room, files, patch),
    "webhdfs": lambda room, files, patch: through_webhdfs(room, files),
}


@pytest.fixture(scope="session", params=list(PLACES))
def place(request: pytest.FixtureRequest, files: Files) -> Iterator[Place]:
    room = Room(request.param)
    try:
        with pytest.MonkeyPatch.context() as patch:
            yield PLACES[request.param](room, files, patch)
    finally:
        room.close()


@pytest.fixture
def room(request: pytest.FixtureRequest) -> Iterator[Room]:
    """A room for servers that the test will harm."""
    one = Room(request.node.name.split("[")[0][:40])
    yield one
    one.close()
