"""The summary of a trace: totals, and rows by kind of piece, file, branch, event, size and activity."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from branchline.tracing.traced_job import TracedJob


@dataclass(frozen=True)
class Totals:
    """Sums over all requests; ``seeks`` counts reads that do not begin where the read before them in the file ended.

    ``again_bytes`` were read before, ``unwanted_bytes`` were not used. ``in_flight_mean`` is the mean number of
    requests at a time, while there is any.
    """

    read_calls: int
    requested_bytes: int
    read_bytes: int
    distinct_bytes: int
    again_bytes: int
    unwanted_bytes: int
    basket_read_calls: int
    basket_read_bytes: int
    files: int
    seeks: int
    seeks_back: int
    seek_bytes: int
    wall_s: float
    reading_s: float
    in_flight_mean: float
    mapped_calls: int
    failed_calls: int


@dataclass(frozen=True)
class KindRow:
    """Reads of one kind of piece of files, such as baskets or streamer infos."""

    what: str
    read_calls: int
    read_bytes: int
    distinct_bytes: int


@dataclass(frozen=True)
class FileRow:
    """Reads of one file. ``size_bytes`` is None if the trace does not have it."""

    file: str
    size_bytes: int | None
    read_calls: int
    read_bytes: int
    distinct_bytes: int
    unwanted_bytes: int
    basket_read_calls: int
    basket_read_bytes: int
    seeks: int
    seeks_back: int
    reading_s: float


@dataclass(frozen=True)
class BranchRow:
    """Reads of the baskets of one branch, in all files."""

    tree: str
    branch: str
    read_calls: int
    read_bytes: int
    distinct_bytes: int
    unwanted_bytes: int
    baskets: int
    reading_s: float


@dataclass(frozen=True)
class EventRow:
    """Calls and bytes of each event of a file, and those before the first."""

    file: str
    opening_calls: int
    opening_bytes: int
    read_calls: list[int]
    read_bytes: list[int]


@dataclass(frozen=True)
class SizeRow:
    """Requests that got at most ``up_to_bytes``, and more than half of that."""

    up_to_bytes: int
    read_calls: int
    read_bytes: int


@dataclass(frozen=True)
class SpanRow:
    """How often, and how long, threads did one activity."""

    what: str
    count: int
    seconds: float


@dataclass(frozen=True)
class Summary:
    """A trace in numbers, and its job."""

    job: TracedJob
    totals: Totals
    kinds: list[KindRow]
    files: list[FileRow]
    branches: list[BranchRow]
    events: list[EventRow]
    sizes: list[SizeRow]
    spans: list[SpanRow]

    def as_json(self) -> dict[str, object]:
        """All of it as plain numbers, texts and lists."""
        plain = asdict(self)
        del plain["job"]
        return {"about": self.job.to_json(), **plain}
