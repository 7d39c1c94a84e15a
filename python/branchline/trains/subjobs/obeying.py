"""Measures of a control room, as a train obeys them: told while it runs, they hold for sub-jobs that begin later."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from branchline.base.limits import MEASURES_RECORDED_MAX
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.datasets.elements import ElementSites
from branchline.reading.locations import without_secrets
from branchline.records.sensors.job_measures import (
    AVOID,
    STAGE,
    JobMeasure,
    JobMeasures,
    MeasureRecord,
    added_measures,
)

#: The storage element of a location, as pages name it.
ElementOf = Callable[[str, ElementSites], str]


class MeasuresTold:
    """The measures that a job was told of; one thread tells, and others ask. ``refuses`` says why none is obeyed."""

    def __init__(self, refuses: str = "") -> None:
        self._refuses = refuses
        self._lock = threading.Lock()
        # With the ends by ``time.monotonic``: a control room that is away cannot undo any.
        self._in_force: list[tuple[JobMeasure, float]] = []
        self._heard: dict[int, MeasureRecord] = {}
        self._ignored = 0

    def tell(self, told: JobMeasures) -> None:
        """These are in force from now on, and no others."""
        now_s = time.monotonic()
        with self._lock:
            self._in_force = [(one, now_s + one.seconds_left) for one in told.in_force]
            self._ignored = max(self._ignored, told.ignored)
            for one in told.in_force:
                if len(self._heard) < MEASURES_RECORDED_MAX:
                    self._heard.setdefault(one.number, replace(MeasureRecord.of(one), refused=self._refuses))

    def now(self) -> tuple[JobMeasure, ...]:
        """Those that a sub-job which begins now obeys."""
        if self._refuses:
            return ()
        now_s = time.monotonic()
        with self._lock:
            # What is left of their time would make equal measures differ.
            return tuple(replace(one, seconds_left=0.0) for one, end_s in self._in_force if now_s < end_s)

    @property
    def ignored(self) -> int:
        """How many of an answer were not understood, at most."""
        return self._ignored

    def with_heard(self, obeyed: Sequence[MeasureRecord]) -> list[MeasureRecord]:
        """What was done about each measure that the job was told of, also where that is nothing."""
        with self._lock:
            heard = list(self._heard.values())
        return added_measures([*heard, *obeyed])


@dataclass(frozen=True)
class Obedience:
    """What measures make of the reading of some files: replicas that come last, how files are read, and a record."""

    access: Access
    avoided: frozenset[str] = frozenset()
    records: list[MeasureRecord] = field(default_factory=list)


def obedience(
    files: Collection[DataFile],
    measures: Sequence[JobMeasure],
    access: Access,
    site: str,
    element_of: ElementOf,
    distance_s: Callable[[str, DataFile], float],
) -> Obedience:
    """What the measures make of files that workers at a site read. ``distance_s`` says how far a location is."""
    own = [one for one in measures if one.is_for(site)]
    if not own:
        return Obedience(access)
    records = {one.number: MeasureRecord.of(one) for one in own}
    avoided: set[str] = set()
    is_staged = False
    for file in files:
        meant = {
            location: [one for one in own if one.concerns(element_of(location, file.sites), without_secrets(location))]
            for location in file.locations
        }
        avoiding = {location: [one for one in those if one.kind == AVOID] for location, those in meant.items()}
        others = [location for location in file.locations if not avoiding[location]]
        for number in {one.number for those in avoiding.values() for one in those}:
            records[number].files += bool(others)
            records[number].without_other += not others
        if others:
            avoided.update(location for location in file.locations if avoiding[location])
        first = min(others or file.locations, key=lambda location: distance_s(location, file))
        for one in meant[first]:
            if one.kind == STAGE:
                refused = access.why_it_is_compared
                records[one.number].refused = refused
                records[one.number].files += not refused
                is_staged |= not refused
    return Obedience(
        replace(access, mode="stage") if is_staged else access, frozenset(avoided), _of_now(records.values())
    )


def _of_now(records: Collection[MeasureRecord]) -> list[MeasureRecord]:
    """Those that say anything, with the time."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    told = [one for one in records if one.files or one.without_other or one.refused]
    return [replace(one, first=now, last=now) for one in told]
