"""Storage systems that scheduled studies watch, with their histories from the control room's directory."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from branchline.errors import OptionError
from branchline.lab.studies.alarms import Alarm, alarms
from branchline.lab.studies.history import (
    HISTORY,
    HistoryPoint,
    LevelChange,
    ReferencePoint,
    StorageHistory,
    change_text,
    histories,
    series_name,
    verdict,
)

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
    - ``changes``: sentences about changes of the speed; ``level_changes`` are the changes themselves.
    - ``worker``, ``reference``: the type of worker and the present state of the reference job, if it runs here.
    """

    storage: str
    ratio: float | None
    megabytes_per_s: float | None
    failed_part: float
    turns_count: int
    changes: list[str] = field(default_factory=list)
    turns: list[HistoryPoint] = field(default_factory=list)
    worker: str = ""
    reference: ReferencePoint | None = None
    level_changes: list[LevelChange] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The storage system, and the type of worker if it is known."""
        return series_name(self.storage, self.worker)


@dataclass(frozen=True)
class WatchSchedule:
    """The storage systems that a schedule watches, and the verdict for their administrators.

    ``trouble`` says why the history file cannot be read; empty if it can.
    """

    name: str
    storages: list[WatchedStorage] = field(default_factory=list)
    verdict: list[str] = field(default_factory=list)
    trouble: str = ""
    alarms: list[Alarm] = field(default_factory=list)


def schedules(folder: Path) -> list[WatchSchedule]:
    """Return all schedules in a control room's directory."""
    found = []
    for history in sorted((folder / WATCHED).glob(f"*/{HISTORY}")):
        # The directory of a schedule may be removed at any time.
        with suppress(OSError):
            schedule, known = _schedule(history.parent, history.stat().st_mtime_ns)
            # Alarms end with time, also without a new turn.
            found.append(replace(schedule, alarms=alarms(known)))
    return found


@lru_cache(SCHEDULES_KEPT)
def _schedule(folder: Path, changed_ns: int) -> tuple[WatchSchedule, list[StorageHistory]]:
    """Return a schedule, without its alarms. The result is cached until the history file changes, since the search for
    changes is slow.
    """
    del changed_ns
    try:
        found = histories(folder)
    except OptionError as error:
        return WatchSchedule(folder.name, trouble=str(error)), []
    storages = [
        WatchedStorage(
            one.storage,
            one.ratio,
            one.megabytes_per_s,
            one.failed_part,
            len(one.points),
            [change_text(change) for change in one.changes],
            one.points[-TURNS_SHOWN:],
            one.worker,
            one.reference,
            one.changes,
        )
        for one in found
    ]
    return WatchSchedule(folder.name, storages, verdict(found)), found
