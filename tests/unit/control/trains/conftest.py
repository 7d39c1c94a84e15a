"""Shared control rooms that tests make."""

from __future__ import annotations

from collections.abc import Iterator

import psutil
import pytest
from tests.unit.control.trains.shared_room import SharedRoom


@pytest.fixture
def made() -> Iterator[list[SharedRoom]]:
    """Rooms to be closed; none of their processes is left."""
    rooms: list[SharedRoom] = []
    yield rooms
    for one in rooms:
        one.room.close()
        left = [
            two for two in psutil.process_iter(["cmdline"]) if str(one.folder) in " ".join(two.info["cmdline"] or [])
        ]
        for process in left:
            process.kill()
