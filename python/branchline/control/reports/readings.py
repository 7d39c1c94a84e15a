"""Data classes for sums of reads, by site, storage element, time or file group, and for costs of users and wagons."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Period:
    """The time from ``since`` (inclusive) to ``until`` (exclusive), in ISO 8601, UTC. An empty string sets no bound."""

    since: str = ""
    until: str = ""


@dataclass(frozen=True)
class ReadTotals:
    """Sums of reads.

    ``wall_s`` is the time that workers spent on the files. ``fetch_s`` is the thread time spent in read calls.
    ``failures`` is the number of failed replicas.
    """

    jobs: int = 0
    files: int = 0
    bytes_read: int = 0
    failures: int = 0
    wall_s: float = 0.0
    fetch_s: float = 0.0

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes per second of worker time; None if ``wall_s`` is 0."""
        return self.bytes_read / self.wall_s if self.wall_s > 0 else None


@dataclass(frozen=True)
class SiteReadings:
    """Reads by the workers at a site.

    - ``every``, ``local``, ``remote``: all reads, local reads and remote reads.
    - ``elements``: reads by storage element.
    - ``efficiency``: fraction of the worker time of ended jobs that was not spent waiting for data or work; None if no
      job has ended.
    """

    site: str
    jobs: int = 0
    efficiency: float | None = None
    every: ReadTotals = ReadTotals()
    local: ReadTotals = ReadTotals()
    remote: ReadTotals = ReadTotals()
    elements: dict[str, ReadTotals] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteElementTable:
    """Reads by site and storage element, both sorted by decreasing number of bytes. ``total`` has all sites together.

    The layout follows figure 5 of L Betev et al., "Performance optimisations for distributed analysis in ALICE" (2014).
    """

    elements: list[str] = field(default_factory=list)
    rows: list[SiteReadings] = field(default_factory=list)
    total: SiteReadings = SiteReadings("all sites")


@dataclass(frozen=True)
class ElementHour:
    """Reads from a storage element in an hour or a day.

    ``begin`` is the start of the hour or day (ISO 8601, UTC). ``hours`` is 1 or 24.
    """

    element: str
    begin: str
    reads: ReadTotals = ReadTotals()
    hours: int = 1


@dataclass(frozen=True)
class CacheReads:
    """Sums of reads through a cache: the files that were closed, the bytes that the cache had, the bytes that it
    fetched from the origin, and the bytes that it passed on without storing them.
    """

    files: int = 0
    hit_bytes: int = 0
    miss_bytes: int = 0
    bypass_bytes: int = 0

    @property
    def sums(self) -> tuple[int, int, int, int]:
        """All sums, in the order of the fields."""
        return self.files, self.hit_bytes, self.miss_bytes, self.bypass_bytes

    @property
    def hit_part(self) -> float | None:
        """The fraction of the bytes that the cache had; None if nothing was read."""
        total_bytes = self.hit_bytes + self.miss_bytes + self.bypass_bytes
        return self.hit_bytes / total_bytes if total_bytes else None

    def plus(self, other: CacheReads) -> CacheReads:
        """Return the sums of both."""
        return CacheReads(*(one + more for one, more in zip(self.sums, other.sums, strict=True)))


@dataclass(frozen=True)
class CacheHour:
    """Reads through a cache in an hour or a day. ``element`` is the cache's server; otherwise as in `ElementHour`."""

    element: str
    site: str
    begin: str
    reads: CacheReads = CacheReads()
    hours: int = 1


@dataclass(frozen=True)
class Cost:
    """The resources that a user or a wagon (``name``) used in a period."""

    name: str
    jobs: int = 0
    events: int = 0
    bytes_read: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    output_bytes: int = 0


@dataclass(frozen=True)
class JobTime:
    """The wall time of an ended job, and the bytes that it read."""

    site: str
    seconds: float
    bytes_read: int


@dataclass(frozen=True)
class FileGroup:
    """Sums over file reads, grouped by some of the string fields. The remaining string fields are empty.

    ``failures`` is the number of failed replicas. ``wall_s`` is worker time; the other times in seconds are sums over
    threads.
    """

    site: str = ""
    storage_element: str = ""
    host: str = ""
    store: str = ""
    codec: str = ""
    files: int = 0
    failures: int = 0
    events: int = 0
    bytes_read: int = 0
    bytes_asked: int = 0
    cached_bytes: int = 0
    read_calls: int = 0
    late_reads: int = 0
    fetch_s: float = 0.0
    open_s: float = 0.0
    wall_s: float = 0.0
    decompress_s: float = 0.0
    decode_s: float = 0.0
