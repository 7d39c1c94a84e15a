"""When viewers are told that something is new."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from tests.patience import HANG_S
from tests.unit.control.batches import batch, identity

from branchline.control.room import ControlRoom
from branchline.control.web import live
from branchline.control.web.live import Ticks


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ControlRoom]:
    with closing(ControlRoom(tmp_path / "room")) as room:
        yield room


def test_a_change_is_told_after_the_interval_or_at_once_to_who_made_it(
    room: ControlRoom, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "LIVE_INTERVAL_S", 1000.0)
    ticks = Ticks(room)
    before = ticks.now()
    room.take(batch(identity(), 0))
    assert ticks.now() == before
    ticks.renew()
    assert ticks.now() > before


def test_pages_grow_old_also_when_nothing_happens(room: ControlRoom, monkeypatch: pytest.MonkeyPatch) -> None:
    """A job falls silent by not reporting."""
    monkeypatch.setattr(live, "LIVE_INTERVAL_S", 0.01)
    monkeypatch.setattr(live, "LIVE_AGE_MAX_S", 0.05)
    ticks = Ticks(room)
    seen = [ticks.now()]
    end = time.monotonic() + HANG_S
    while len(seen) < 4 and time.monotonic() < end:
        time.sleep(0.005)
        if ticks.now() != seen[-1]:
            seen.append(ticks.now())
    assert len(seen) == 4
    assert seen == sorted(seen)
