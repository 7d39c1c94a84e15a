"""Parts of a parallel file system fail in mid-read, and what is read stays right, or is an error in time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.storage.glusterfs import GlusterFs
from tests.storage.hdfs import Hdfs
from tests.storage.machine import Room, wait_until
from tests.storage.moosefs import MooseFs
from tests.storage.xrootdfs import PATIENT, mounted_from
from tests.stores.conftest import write_files

from branchline._core import Store
from branchline.errors import StorageError

PIECE = 100_000


def copied(originals: Path, mount: Path) -> tuple[Store, bytes]:
    content = write_files(originals)
    (mount / "random.bin").write_bytes(content)
    return Store(str(mount / "random.bin")), content


def read_and_compare(store: Store, content: bytes, pieces: range) -> None:
    for offset in pieces:
        assert store.read([(offset, PIECE)]).contents == [content[offset : offset + PIECE]]


def test_a_brick_is_killed(room: Room, tmp_path: Path) -> None:
    volume = GlusterFs(room)
    store, content = copied(tmp_path, volume.path)
    half, end = len(content) // 2 // PIECE * PIECE, len(content) - PIECE
    read_and_compare(store, content, range(0, half, PIECE))
    volume.kill_a_brick()
    read_and_compare(store, content, range(half, end, PIECE))
    read_and_compare(Store(store.path), content, range(0, end, PIECE))


def test_a_chunk_server_is_killed(room: Room, tmp_path: Path) -> None:
    mount = MooseFs(room)
    store, content = copied(tmp_path, mount.path)
    wait_until(lambda: mount.is_at_both(mount.path / "random.bin"), "a copy at each chunk server")
    half, end = len(content) // 2 // PIECE * PIECE, len(content) - PIECE
    read_and_compare(store, content, range(0, half, PIECE))
    mount.chunk_servers[0].kill()
    read_and_compare(store, content, range(half, end, PIECE))
    read_and_compare(Store(store.path), content, range(0, end, PIECE))


def test_a_mount_whose_server_stops_is_given_up_or_left_for_a_replica(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "2")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "1")
    mount, server = mounted_from(room, PATIENT)
    alone, content = copied(tmp_path, mount)
    replicated = Store(f"{mount / 'random.bin'} | {tmp_path / 'random.bin'}")
    for store in (alone, replicated):
        read_and_compare(store, content, range(0, PIECE * 3, PIECE))
    server.pause()
    try:
        started_s = time.monotonic()
        # Not in the cache of the kernel, which has read ahead.
        with pytest.raises(StorageError, match=r"random\.bin: .*4000000"):
            alone.read([(4_000_000, PIECE)])
        assert replicated.read([(4_000_000, PIECE)]).contents == [content[4_000_000 : 4_000_000 + PIECE]]
        assert time.monotonic() - started_s < 60
    finally:
        server.go_on()


def test_servers_of_hdfs_stop_and_are_killed(room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hdfs, content = Hdfs(room), write_files(tmp_path)
    hdfs.write("random.bin", content)
    url = f"{hdfs.url}/random.bin"
    store = Store(url)
    half, end = len(content) // 2 // PIECE * PIECE, len(content) - PIECE
    read_and_compare(store, content, range(0, half, PIECE))
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "2")
    monkeypatch.setenv("BRANCHLINE_STORAGE_TRIES", "2")
    for name in ("datanode", "namenode"):
        server = hdfs.servers[name]
        server.pause()
        # In a process of its own, which must end though the package still waits.
        code = (
            # Its first thread imports this, as that of every program with NumPy does.
            "import threading; from branchline._core import Store; "
            f"Store({url!r}).read([(0, 9), (2_000_000, 9), (4_000_000, 9)])"
        )
        started_s = time.monotonic()
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=280)
        assert "did not answer within" in ended.stderr, ended.stderr
        assert time.monotonic() - started_s < 30
        server.go_on()
    read_and_compare(store, content, range(half, end, PIECE))
    hdfs.servers["datanode"].kill()
    with pytest.raises(StorageError, match="DataTransferError: All DataNodes failed") as raised:
        Store(url).read([(0, 9)])
    assert raised.value.retry
    hdfs.servers["datanode"].start()
    read_and_compare(store, content, range(0, end, PIECE))
    hdfs.servers["namenode"].kill()
    # Meanwhile the package looks for another one.
    monkeypatch.setenv("BRANCHLINE_STORAGE_TIMEOUT", "30")
    with pytest.raises(StorageError, match="Connection refused") as raised:
        Store(url)
    assert raised.value.retry
