"""Storage systems that scheduled studies watch, with their histories from the control room's directory."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from branchline.errors import OptionError
from branchline.lab.studies.history import HISTORY, HistoryPoint, change_text, histories, verdict

#: Folder in the control room's directory that contains a folder for each schedule of studies.
WATCHED = "watched"
#: Maximum number of study runs per storage on a page. The history file has all runs.
TURNS_SHOWN = 400
#: Maximum number of cached schedules.
SCHEDULES_KEPT = 100


@dataclass(frozen=True)
class WatchedStorage:
    """A watched storage system.

    - ``ratio``: the current time relative to the reference storage; None if unknown.
    - ``megabytes_per_s``: the current speed; None if unknown.
    - ``turns_count``: number of study runs in the history; ``turns`` has the last ones.
    - ``changes``: sentences about changes of the speed.
    """

    storage: str
    ratio: float | None
    megabytes_per_s: float | None
    failed_part: float
    turns_count: int
    changes: list[str] = field(default_factory=list)
    turns: list[HistoryPoint] = field(default_factory=list)


@dataclass(frozen=True)
class WatchSchedule:
    """The storage systems that a schedule watches, and the verdict for their administrators.

    ``trouble`` says why the history file cannot be read; empty if it can.
    """

    name: str
    storages: list[WatchedStorage] = field(default_factory=list)
    verdict: list[str] = field(default_factory=list)
    trouble: str = ""


def schedules(folder: Path) -> list[WatchSchedule]:
    """Return all schedules in a control room's directory."""
    found = sorted(one.parent for one in (folder / WATCHED).glob(f"*/{HISTORY}"))
    return [_schedule(one, (one / HISTORY).stat().st_mtime_ns) for one in found]


@lru_cache(SCHEDULES_KEPT)
def _schedule(folder: Path, changed_ns: int) -> WatchSchedule:
    """Return a schedule. The result is cached until the history file changes, since the search for changes is slow."""
    del changed_ns
    try:
        found = histories(folder)
    except OptionError as error:
        return WatchSchedule(folder.name, trouble=str(error))
    storages = [
        WatchedStorage(
            one.storage,
            one.ratio,
            one.megabytes_per_s,
            one.failed_part,
            len(one.points),
            [change_text(change) for change in one.changes],
            one.points[-TURNS_SHOWN:],
        )
        for one in found
    ]
    return WatchSchedule(folder.name, storages, verdict(found))
