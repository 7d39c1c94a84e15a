"""Parts of a parallel file system fail in mid-read, and what is read stays right."""

from __future__ import annotations

from pathlib import Path

from tests.storage.glusterfs import GlusterFs
from tests.storage.machine import Room, wait_until
from tests.storage.moosefs import MooseFs
from tests.stores.conftest import write_files

from branchline._core import Store

PIECE = 100_000


def copied(originals: Path, mount: Path) -> tuple[Store, bytes]:
    content = write_files(originals)
    (mount / "random.bin").write_bytes(content)
    return Store(str(mount / "random.bin")), content


def read_and_compare(store: Store, content: bytes, pieces: range) -> None:
    for offset in pieces:
        assert store.read([(offset, PIECE)])[0] == [content[offset : offset + PIECE]]


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
