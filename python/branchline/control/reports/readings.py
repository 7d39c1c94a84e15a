"""What was read where: sites by storage elements, storage elements over time, and costs by user and wagon."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Period:
    """From ``since`` to before ``until`` (ISO 8601, UTC); an empty text is no bound."""

    since: str = ""
    until: str = ""


@dataclass(frozen=True)
class Reads:
    """Reads of some jobs. ``wall_s`` is the time of the files in their workers, ``fetch_s`` thread time inside read
    calls, ``failures`` counts failed replicas.
    """

    jobs: int = 0
    files: int = 0
    bytes_read: int = 0
    failures: int = 0
    wall_s: float = 0.0
    fetch_s: float = 0.0

    @property
    def bytes_per_s(self) -> float | None:
        """Bytes by the time of the files in their workers, the speed of figure 5; None without time."""
        return self.bytes_read / self.wall_s if self.wall_s > 0 else None


@dataclass(frozen=True)
class SiteRow:
    """The workers at a site. ``efficiency`` is the part of their time in which they waited neither for data nor for
    work, of ended jobs; None if there are none. ``elements`` has the storage elements that they read from.
    """

    site: str
    jobs: int = 0
    efficiency: float | None = None
    every: Reads = Reads()
    local: Reads = Reads()
    remote: Reads = Reads()
    elements: dict[str, Reads] = field(default_factory=dict)


@dataclass(frozen=True)
class SiteElementTable:
    """Sites by storage elements, those with most bytes first. ``total`` is over all sites.

    Its form is that of figure 5 of L Betev et al., "Performance optimisations for distributed analysis in ALICE"
    (2014).
    """

    elements: list[str] = field(default_factory=list)
    rows: list[SiteRow] = field(default_factory=list)
    total: SiteRow = SiteRow("all sites")


@dataclass(frozen=True)
class ElementHour:
    """Reads from a storage element in an hour, or a day of 24 ``hours``, which began at ``begin`` (ISO 8601, UTC)."""

    element: str
    begin: str
    reads: Reads = Reads()
    hours: int = 1


@dataclass(frozen=True)
class Cost:
    """What a user, a wagon or a storage element cost in a period; ``name`` is whose cost it is."""

    name: str
    jobs: int = 0
    events: int = 0
    bytes_read: int = 0
    cpu_s: float = 0.0
    wall_s: float = 0.0
    output_bytes: int = 0


@dataclass(frozen=True)
class FileGroup:
    """Readings of files that have something in common: what they were not grouped by is empty. ``failures`` counts
    failed replicas; times are seconds, ``wall_s`` in workers and the others sums over threads.
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
