"""Alarms of watched storage elements: wrong values, storage elements that cannot be read, and changes to slower.

Whether a change is an alarm is decided anew at each turn, which gives chance one more opportunity each time. An alarm
therefore needs more than a change point: the whole interval of the change must be above `ALARM_TIMES`. Of 100 histories
of the reference job whose turns scatter by 5 %, about two then have a false alarm in 60 daily turns, and a storage
element that becomes 20 % slower has an alarm after 5 to 8 turns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from branchline.lab.studies.history import LevelChange, StorageHistory, change_text, moment_text

WRONG_VALUES, UNREADABLE, SLOWER = "wrong values", "unreadable storage", "slower since a change"
#: A change is an alarm if the whole interval of its ratio (new time / old time) is above this value.
ALARM_TIMES = 1.05
#: Number of days after which a change is the usual state and no longer an alarm.
ALARM_DAYS = 30


@dataclass(frozen=True)
class Alarm:
    """A problem of a storage element on a type of worker, since the turn ``at``.

    ``lost_part`` is the part of the samples of the latest turn that failed, ``change`` the change to slower.
    """

    kind: str
    storage: str
    worker: str
    at: str
    sentence: str
    turns: int
    lost_part: float = 0.0
    change: LevelChange | None = None


def alarms(found: Sequence[StorageHistory], now: datetime | None = None) -> list[Alarm]:
    """Return the alarms of all histories, the most serious ones first."""
    since = (now or datetime.now(UTC)) - timedelta(days=ALARM_DAYS)
    alarms_found = [alarm for one in found for alarm in _of_history(one, since)]
    order = (WRONG_VALUES, UNREADABLE, SLOWER)
    return sorted(alarms_found, key=lambda one: order.index(one.kind))


def _of_history(one: StorageHistory, since: datetime) -> list[Alarm]:
    last, latest = one.points[-1], one.latest_reference
    turns, lost_part = len(one.points), last.lost / max(last.lost + last.samples, 1)
    if latest is not None and latest.reference is not None and latest.reference.wrong:
        sentence = f"{one.name}: the reference job found at {moment_text(latest.at)}: {latest.reference.wrong}"
        return [Alarm(WRONG_VALUES, one.storage, one.worker, latest.at, sentence, turns, lost_part)]
    if last.lost and not last.samples:
        sentence = f"{one.name}: no sample could be read at {moment_text(last.at)}: {last.error}"
        return [Alarm(UNREADABLE, one.storage, one.worker, last.at, sentence, turns, lost_part)]
    return [
        Alarm(
            SLOWER, one.storage, one.worker, change.at, f"{one.name}: {change_text(change)}", turns, lost_part, change
        )
        for change in _latest(one.changes)
        if is_slower(change) and _moment(one, change) >= since
    ]


def _moment(one: StorageHistory, change: LevelChange) -> datetime:
    return next(point.moment for point in one.points if point.at == change.at)


def is_slower(change: LevelChange) -> bool:
    """Return whether a change is an alarm: the storage or the processor is surely slower than before."""
    return change.low > ALARM_TIMES or (change.processor is not None and change.processor.low > ALARM_TIMES)


def _latest(changes: Sequence[LevelChange]) -> list[LevelChange]:
    """Return the last change of each quantity, without repetition."""
    latest: dict[str, LevelChange] = {}
    for change in changes:
        parts = ("storage", "processor") if change.what == "both" else (change.what,)
        latest.update(dict.fromkeys(parts, change))
    return list(dict.fromkeys(latest.values()))
