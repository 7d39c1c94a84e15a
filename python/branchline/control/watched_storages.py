"""Storages that are watched by studies again and again: their histories, which lie in the room's directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from branchline.errors import OptionError
from branchline.lab.studies.history import HISTORY, HistoryPoint, StorageHistory, change_text, histories, verdict

#: The folder with a folder for each schedule.
WATCHED = "watched"
#: Pages show so many turns; the file has all of them.
TURNS_SHOWN = 400
#: So many schedules are known without reading their files again.
SCHEDULES_KEPT = 100


@dataclass(frozen=True)
class WatchedStorage:
    """A storage, how it is now beside its reference, and its changes in words; ``turns`` are the last ones."""

    storage: str
    ratio: float | None
    megabytes_per_s: float | None
    failed_part: float
    turns_count: int
    changes: list[str] = field(default_factory=list)
    turns: list[HistoryPoint] = field(default_factory=list)


@dataclass(frozen=True)
class Schedule:
    """The storages of a schedule, and the verdict for their admins. ``trouble`` says why its history is not read."""

    name: str
    storages: list[WatchedStorage] = field(default_factory=list)
    verdict: list[str] = field(default_factory=list)
    trouble: str = ""


def schedules(folder: Path) -> list[Schedule]:
    """All that lie in the directory of a control room."""
    found = sorted(one.parent for one in (folder / WATCHED).glob(f"*/{HISTORY}"))
    return [_schedule(one, (one / HISTORY).stat().st_mtime_ns) for one in found]


@lru_cache(SCHEDULES_KEPT)
def _schedule(folder: Path, changed_ns: int) -> Schedule:
    """Looking for changes takes a while: it is done once for each turn."""
    del changed_ns
    try:
        found = histories(folder)
    except OptionError as error:
        return Schedule(folder.name, trouble=str(error))
    return Schedule(folder.name, [_storage(one) for one in found], verdict(found))


def _storage(one: StorageHistory) -> WatchedStorage:
    changes = [change_text(change) for change in one.changes]
    return WatchedStorage(
        one.storage,
        one.ratio,
        one.megabytes_per_s,
        one.failed_part,
        len(one.points),
        changes,
        one.points[-TURNS_SHOWN:],
    )
