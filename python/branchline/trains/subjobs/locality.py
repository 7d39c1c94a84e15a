"""Chooses the replica of a file that a worker reads first, and records from which storage elements it has read.

While a train runs, a control room can send measures that change this choice: avoid a replica, or stage files. Measures
affect only sub-jobs that start later.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from branchline import _core
from branchline.base.limits import MEASURES_RECORDED_MAX
from branchline.errors import BranchlineError
from branchline.jobs.sites import Distances, Nearness, RoundTrip, SiteMap, Spot, nearness_of
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile, storage_element
from branchline.reading.datasets.elements import LOCAL_ELEMENT, ElementSites, ReplicaRank
from branchline.reading.locations import without_secrets
from branchline.reading.sources import ReplicaReading
from branchline.records.sensors.job_measures import AVOID, STAGE, JobMeasure, JobMeasures, MeasureRecord, added_measures
from branchline.records.sensors.record import FileRecord, SiteReading
from branchline.records.sensors.storage_counts import links_chosen
from branchline.records.sensors.this_process import host

#: A function that returns the storage element of a location, as a name for display.
ElementOf = Callable[[str, ElementSites], str]


@dataclass
class Locality:
    """A worker's location, and its distances to storage elements."""

    spot: Spot
    sites: SiteMap
    access: Access
    distances: Distances = field(init=False)
    #: Storage elements that the job reported as silent.
    _silent: set[str] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.distances = Distances(self.sites)

    @classmethod
    def here(cls, access: Access) -> Locality:
        """Return the locality of this process. An invalid site file is ignored, because it was rejected when the job
        started.
        """
        try:
            sites = SiteMap.load()
            return cls(Spot.of(host(), os.environ, sites), sites, access)
        except BranchlineError:
            return cls(Spot(), SiteMap(), access)

    def learn(self, round_trips: Iterable[RoundTrip], silent: Collection[str] = ()) -> None:
        """Add round-trip times measured by other workers at this site, and the storage elements that were silent."""
        for one in round_trips:
            self.distances.measured(self.spot.site, one.server, one.took_s)
        # Each element only once, since this worker may have found out that it works again.
        _core.avoid_silent(sorted(set(silent) - self._silent))
        self._silent.update(silent)

    def through_cache(self, file: DataFile) -> DataFile:
        """Return the file with its location in the site's cache, if the site has a cache and no replica of the file."""
        cache = self.sites.caches.get(self.spot.site)
        if cache is None or any(
            nearness_of(self.spot, one, file.sites, self.sites, file.hosts).is_local for one in file.locations
        ):
            return file
        near_first = sorted(file.locations, key=lambda one: self._round_trip_s(file, one))
        return file.changed(cache=next(filter(None, map(cache.location_of, near_first)), ""))

    def _round_trip_s(self, file: DataFile, location: str) -> float:
        """Return the round-trip time to a replica. A cache counts as nearest, to spare the links to its origins."""
        if location == file.cache:
            return 0.0
        return self.distances.round_trip_s(self.spot, location, file.sites)

    def obey(self, files: Collection[DataFile], measures: Sequence[JobMeasure]) -> Obedience:
        """Return how this worker must read files to follow the given measures."""
        if not measures:
            return Obedience(self.access)

        return obedience(files, measures, self.access, self.spot.site, self._element, self._round_trip_s)

    def prefer_near(self, files: Sequence[DataFile], skipped: int = 0, avoided: Collection[str] = ()) -> None:
        """Make the reader open the nearest replica of each file first. ``files`` have replicas.

        The nearest ``skipped`` storage elements, from which workers timed out, are moved to the end. The ``avoided``
        locations come after all others.
        """
        self.learn(RoundTrip(link.name, link.round_trip_s) for link in links_chosen(self.access))
        ranks = self._turned(files, skipped, avoided) if skipped else self._by_distance(files, avoided)
        _core.prefer_replicas([ReplicaRank(*one) for one in ranks.items()])

    def _by_distance(self, files: Sequence[DataFile], avoided: Collection[str]) -> dict[str, int]:
        """Return the ranks of replicas by location prefix. Replicas at the same distance share a rank."""
        far_s = {
            (_replica_key(file, location), location): self._round_trip_s(file, location)
            for file in files
            for location in file.locations
        }
        distances = sorted(set(far_s.values()))
        ranks = {names[0]: distances.index(took_s) for names, took_s in far_s.items() if names[1] not in avoided}
        # Rank avoided replicas by full location, which takes precedence over a prefix.
        last = {names[1]: len(distances) + distances.index(far_s[names]) for names in far_s if names[1] in avoided}
        return ranks | last

    def _turned(self, files: Iterable[DataFile], skipped: int, avoided: Collection[str]) -> dict[str, int]:
        """Return ranks as ``_by_distance`` does, but move the ``skipped`` nearest replicas of each file to the end.
        Each replica of a file gets a different rank. Otherwise, the reader would choose the replica that is listed
        first again.
        """
        ranks: dict[str, int] = {}
        for file in files:
            near_first = sorted(file.locations, key=lambda one: (one in avoided, self._round_trip_s(file, one)))
            turn = skipped % len(near_first)
            for rank, location in enumerate(near_first[turn:] + near_first[:turn]):
                ranks.setdefault(_replica_key(file, location), rank)
        return ranks

    def read(self, record: FileRecord, file: DataFile | None, replicas: Sequence[ReplicaReading]) -> list[SiteReading]:
        """Return how much of a file was read from each storage element. Also sets the storage element and the replica
        in ``record``.
        """
        listed = ElementSites() if file is None else file.sites
        if not replicas:
            record.storage_element = self._element(record.path, listed)
            whole = self._reading(record.path, listed, () if file is None else file.hosts)
            whole.files, whole.bytes_read = 1, record.bytes_read
            whole.wall_s, whole.fetch_s = record.wall_s, record.fetch_s
            return [whole]
        # The dataset list does not contain a companion's replicas, so use the companion's path instead.
        locations = () if file is None else file.locations
        by_shown = {without_secrets(one): one for one in locations}
        most = max(replicas, key=lambda one: one.bytes_read)
        record.storage_element = self._element(self._origin(file, by_shown.get(most.path, most.path)), listed)
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
            location = by_shown.get(one.path, one.path)
            origin = self._origin(file, location)
            reading = self._reading(origin, listed)
            if origin != location:
                reading.nearness = Nearness.SITE.value
            reading.files, reading.failures = int(bool(one.bytes_read) or one is most), one.failures
            reading.bytes_read = one.bytes_read
            reading.wall_s, reading.fetch_s = part * record.wall_s, part * record.fetch_s
            readings.append(reading)
        return readings

    def _origin(self, file: DataFile | None, location: str) -> str:
        """Return the replica from which a cache has the file; any other location is returned unchanged."""
        cache = self.sites.caches.get(self.spot.site)
        if file is None or cache is None or location != file.cache:
            return location
        return next((one for one in file.locations if cache.location_of(one) == location), location)

    def _reading(self, location: str, listed: ElementSites, hosts: Collection[str] = ()) -> SiteReading:
        near = nearness_of(self.spot, location, listed, self.sites, hosts)
        return SiteReading(self.spot.site, self._element(location, listed), near.value)

    @staticmethod
    def _element(location: str, listed: ElementSites) -> str:
        """Return the storage element of a location from the dataset list; by default, the server or mount."""
        element = listed.element_of(location)
        return storage_element(location) if element == LOCAL_ELEMENT else element


def _replica_key(file: DataFile, location: str) -> str:
    """Return the reader's key for a replica: its storage element or, for a local file, the whole path."""
    element = file.sites.element_of(location)
    return location if element == LOCAL_ELEMENT else element


class MeasuresTold:
    """The current measures of a control room. One thread sets them, and other threads read them. If measures are not
    followed, ``refuses`` is the reason.
    """

    def __init__(self, refuses: str = "") -> None:
        self._refuses = refuses
        self._lock = threading.Lock()
        # Measures with their end times (``time.monotonic``), so that they expire even if the control room is
        # unreachable.
        self._in_force: list[tuple[JobMeasure, float]] = []
        self._heard: dict[int, MeasureRecord] = {}
        self._ignored = 0

    def tell(self, told: JobMeasures) -> None:
        """Replace the current measures."""
        now_s = time.monotonic()
        with self._lock:
            self._in_force = [(one, now_s + one.seconds_left) for one in told.in_force]
            self._ignored = max(self._ignored, told.ignored)
            for one in told.in_force:
                if len(self._heard) < MEASURES_RECORDED_MAX:
                    self._heard.setdefault(one.number, replace(MeasureRecord.of(one), refused=self._refuses))

    def now(self) -> tuple[JobMeasure, ...]:
        """Return the measures for a sub-job that starts now."""
        if self._refuses:
            return ()
        now_s = time.monotonic()
        with self._lock:
            # Set the remaining time to 0, so that a `JobMeasure` compares equal to itself at a later time.
            return tuple(replace(one, seconds_left=0.0) for one, end_s in self._in_force if now_s < end_s)

    @property
    def ignored(self) -> int:
        """Largest number of measures in one response that were ignored because this version does not support them."""
        return self._ignored

    def with_heard(self, obeyed: Sequence[MeasureRecord]) -> list[MeasureRecord]:
        """Return one record per measure that the job received, whether or not the measure had an effect."""
        with self._lock:
            heard = list(self._heard.values())
        return added_measures([*heard, *obeyed])


@dataclass(frozen=True)
class Obedience:
    """How to read some files so that measures are followed: the access, the locations of replicas to try last, and
    records of the measures.
    """

    access: Access
    avoided: frozenset[str] = frozenset()
    records: list[MeasureRecord] = field(default_factory=list)


def obedience(
    files: Collection[DataFile],
    measures: Sequence[JobMeasure],
    access: Access,
    site: str,
    element_of: ElementOf,
    distance_s: Callable[[DataFile, str], float],
) -> Obedience:
    """Return how workers at a site must read files to follow measures. ``distance_s`` returns the round-trip time to a
    location.
    """
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
        first = min(others or file.locations, key=lambda location: distance_s(file, location))
        for one in meant[first]:
            if one.kind == STAGE:
                refused = access.why_it_is_compared
                records[one.number].refused = refused
                records[one.number].files += not refused
                is_staged |= not refused
    now = datetime.now(UTC).isoformat(timespec="seconds")
    # Keep only the records of measures that changed a read or could not be followed, and add the time.
    told = [one for one in records.values() if one.files or one.without_other or one.refused]
    told = [replace(one, first=now, last=now) for one in told]
    return Obedience(replace(access, mode="stage") if is_staged else access, frozenset(avoided), told)
