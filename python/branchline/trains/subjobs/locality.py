"""Which replica a worker reads first, and what it read at which storage element.

Measures of a control room can change that while a train runs: to avoid a replica, or to stage files. They hold for
sub-jobs that begin later.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from branchline import _core
from branchline.base.limits import MEASURES_RECORDED_MAX
from branchline.errors import BranchlineError
from branchline.jobs.sites import Distances, RoundTrip, SiteMap, Spot, nearness_of, own_spot
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile, storage_element
from branchline.reading.datasets.elements import LOCAL_ELEMENT, ElementSites, ReplicaRank
from branchline.reading.locations import without_secrets
from branchline.reading.sources import ReplicaReading
from branchline.records.sensors.job_measures import AVOID, STAGE, JobMeasure, JobMeasures, MeasureRecord, added_measures
from branchline.records.sensors.record import FileRecord, SiteReading
from branchline.records.sensors.storage_counts import links_chosen

#: The storage element of a location, as pages name it.
ElementOf = Callable[[str, ElementSites], str]


@dataclass
class Locality:
    """A worker's own spot, and how far storage elements are from it."""

    spot: Spot
    sites: SiteMap
    access: Access
    distances: Distances = field(init=False)

    def __post_init__(self) -> None:
        self.distances = Distances(self.sites)

    @classmethod
    def here(cls, access: Access) -> Locality:
        """That of this process; a site's file that is wrong was refused when the job began."""
        try:
            return cls(own_spot(), SiteMap.load(), access)
        except BranchlineError:
            return cls(Spot(), SiteMap(), access)

    def learn(self, round_trips: Iterable[RoundTrip]) -> None:
        """Takes over what other workers at this site have measured."""
        for one in round_trips:
            self.distances.measured(self.spot.site, one.server, one.took_s)

    def obey(self, files: Collection[DataFile], measures: Sequence[JobMeasure]) -> Obedience:
        """What measures make of the reading of files here."""

        def distance_s(location: str, file: DataFile) -> float:
            return self.distances.round_trip_s(self.spot, location, file.sites)

        return obedience(files, measures, self.access, self.spot.site, self._element, distance_s)

    def prefer_near(self, files: Iterable[DataFile], skipped: int = 0, avoided: Collection[str] = ()) -> None:
        """Has the engine open the nearest replica of each file first. The nearest ``skipped`` storage elements come
        last: workers were silent over what they read there. The locations ``avoided`` come behind all others.
        """
        several = [one for one in files if one.replicas]
        if not several:
            return
        self.learn(RoundTrip(link.name, link.round_trip_s) for link in links_chosen(self.access))
        ranks = self._turned(several, skipped, avoided) if skipped else self._by_distance(several, avoided)
        _core.prefer_replicas([ReplicaRank(*one) for one in ranks.items()])

    def _by_distance(self, files: Sequence[DataFile], avoided: Collection[str]) -> dict[str, int]:
        """The ranks of replicas by how their locations begin; those that are equally near share one."""
        far_s = {
            (_replica_key(file, location), location): self.distances.round_trip_s(self.spot, location, file.sites)
            for file in files
            for location in file.locations
        }
        distances = sorted(set(far_s.values()))
        ranks = {names[0]: distances.index(took_s) for names, took_s in far_s.items() if names[1] not in avoided}
        # The whole location holds before how it begins.
        last = {names[1]: len(distances) + distances.index(far_s[names]) for names in far_s if names[1] in avoided}
        return ranks | last

    def _turned(self, files: Iterable[DataFile], skipped: int, avoided: Collection[str]) -> dict[str, int]:
        """The same where of each file the nearest replicas come last. No two of a file share a rank: the engine would
        take the one that is listed first again.
        """
        ranks: dict[str, int] = {}
        for file in files:
            near_first = sorted(
                file.locations,
                key=lambda one: (one in avoided, self.distances.round_trip_s(self.spot, one, file.sites)),
            )
            turn = skipped % len(near_first)
            for rank, location in enumerate(near_first[turn:] + near_first[:turn]):
                ranks.setdefault(_replica_key(file, location), rank)
        return ranks

    def read(self, record: FileRecord, file: DataFile | None, replicas: Sequence[ReplicaReading]) -> list[SiteReading]:
        """What was read of a file, by storage element; the record gets the element and the replica that it was."""
        listed = ElementSites() if file is None else file.sites
        if not replicas:
            record.storage_element = self._element(record.path, listed)
            whole = self._reading(record.path, listed, () if file is None else file.hosts)
            whole.files, whole.bytes_read = 1, record.bytes_read
            whole.wall_s, whole.fetch_s = record.wall_s, record.fetch_s
            return [whole]
        # A companion's replicas are not in the list: its path stands for them.
        locations = () if file is None else file.locations
        by_shown = {without_secrets(one): one for one in locations}
        most = max(replicas, key=lambda one: one.bytes_read)
        record.storage_element = self._element(by_shown.get(most.path, most.path), listed)
        record.replica = "" if most.path == record.path else most.path
        record.replicas_failed = [
            f"{one.path} failed {one.failures} times: {one.error}" for one in replicas if one.failures
        ]
        total_bytes = sum(one.bytes_read for one in replicas)
        readings = []
        for one in replicas:
            if not (one.bytes_read or one.failures or one is most):
                continue
            part = one.bytes_read / total_bytes if total_bytes else float(one is most)
            reading = self._reading(by_shown.get(one.path, one.path), listed)
            reading.files, reading.failures = int(bool(one.bytes_read) or one is most), one.failures
            reading.bytes_read = one.bytes_read
            reading.wall_s, reading.fetch_s = part * record.wall_s, part * record.fetch_s
            readings.append(reading)
        return readings

    def _reading(self, location: str, listed: ElementSites, hosts: Collection[str] = ()) -> SiteReading:
        near = nearness_of(self.spot, location, listed, self.sites, hosts)
        return SiteReading(self.spot.site, self._element(location, listed), near.value)

    @staticmethod
    def _element(location: str, listed: ElementSites) -> str:
        """As the list names it, else the server or the mount."""
        element = listed.element_of(location)
        return storage_element(location) if element == LOCAL_ELEMENT else element


def _replica_key(file: DataFile, location: str) -> str:
    """What the engine knows a replica by: its storage element, or all of a path."""
    element = file.sites.element_of(location)
    return location if element == LOCAL_ELEMENT else element


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
