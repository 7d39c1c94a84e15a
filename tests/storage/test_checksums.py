"""Ceph's gateway gives the checksums that show when a replica is another file."""

from __future__ import annotations

import time

import pytest
from tests.storage.ceph import Ceph
from tests.storage.machine import Room

from branchline._core import Store
from branchline.errors import BranchlineError

CONTENT = bytes(range(256)) * 400


def test_a_replica_with_another_checksum_is_not_mixed_in(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    gateway = Ceph(room).gateway()
    for variable, value in gateway.environment.items():
        monkeypatch.setenv(variable, value)
    for end in (b"", b"other"):
        gateway.put("one.bin", CONTENT)
        gateway.put("two.bin", CONTENT[: len(CONTENT) - len(end)] + end)
        store = Store("s3://tests/one.bin | s3://tests/two.bin")
        assert store.read([(0, 1000)]).contents == [CONTENT[:1000]]
        time.sleep(1)  # the checksum is requested while the read goes on
        gateway.remove("one.bin")
        if end:
            with pytest.raises(BranchlineError, match="its checksum is md5:"):
                store.read([(5000, 1000)])
        else:
            assert store.read([(5000, 1000)]).contents == [CONTENT[5000:6000]]
