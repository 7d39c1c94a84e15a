"""The summary of a trace: totals, sentences on the main facts, and tables of the kinds of pieces, the files, the
branches, the events, the request sizes and the activities.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from branchline.base.quantities import count, counted, duration, percent, significant, size
from branchline.tracing.trace import TracedJob

#: Thresholds for sentences. AGAIN_SHARE: fraction of bytes that were read again. UNWANTED_SHARE: fraction of unused
#: bytes. SMALL_SHARE: fraction of calls that received at most SMALL_BYTES.
AGAIN_SHARE, UNWANTED_SHARE, SMALL_BYTES, SMALL_SHARE = 0.02, 0.1, 4096, 0.5
#: Maximum number of branches named in the sentence on the branches with most calls.
NAMED_BRANCHES = 3


# --- the numbers ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Summary:
    """The statistics of a trace, and its job."""

    job: TracedJob
    totals: RequestTotals
    kinds: list[KindRow]
    files: list[FileReads]
    branches: list[BranchReads]
    events: list[EventRow]
    sizes: list[SizeRow]
    spans: list[SpanRow]

    def as_json(self) -> dict[str, object]:
        """Return the summary as JSON-compatible values."""
        plain = asdict(self)
        del plain["job"]
        return {"about": self.job.to_json(), **plain}


@dataclass(frozen=True)
class RequestTotals:
    """Totals over all requests.

    - ``seeks``: number of reads that do not start where the previous read of the file ended.
    - ``again_bytes``: bytes that an earlier request had already read.
    - ``unwanted_bytes``: bytes that were read but not used.
    - ``in_flight_mean``: mean number of concurrent requests while at least one request is in flight.
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
    """Reads of one kind of piece of a file, such as baskets or streamer infos."""

    what: str
    read_calls: int
    read_bytes: int
    distinct_bytes: int


@dataclass(frozen=True)
class FileReads:
    """Reads of one file. ``size_bytes`` is the file size, None if the trace does not contain the size."""

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
class BranchReads:
    """Reads of the baskets of one branch, over all files."""

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
    """Read calls and bytes for each event of a file. The ``opening_`` fields are the totals before the first event."""

    file: str
    opening_calls: int
    opening_bytes: int
    read_calls: list[int]
    read_bytes: list[int]


@dataclass(frozen=True)
class SizeRow:
    """Requests that received more than half of ``up_to_bytes`` and at most ``up_to_bytes``."""

    up_to_bytes: int
    read_calls: int
    read_bytes: int


@dataclass(frozen=True)
class SpanRow:
    """Number of times that threads performed an activity, and its total duration."""

    what: str
    count: int
    seconds: float


# --- the sentences ----------------------------------------------------------------------------------------------------


def headline(found: Summary) -> list[str]:
    """Return sentences on the number of reads and bytes, in total and for baskets."""
    totals = found.totals
    if not totals.read_calls:
        if totals.mapped_calls:
            return ["No ROOT file was read by calls; files were mapped into memory."]
        return ["No ROOT file was read."]
    first = (
        f"{counted(totals.read_calls, 'read call')} for {size(totals.read_bytes)} "
        f"({count(totals.read_bytes)} bytes) of {counted(totals.files, 'file')}, "
        f"which took {duration(totals.reading_s)} of {duration(totals.wall_s)}"
    )
    if not totals.basket_read_calls:
        return [f"{first}."]
    data = (
        f"{counted(totals.basket_read_calls, 'call')} of these started in baskets or pages and got "
        f"{count(totals.basket_read_bytes)} bytes; the others started in headers or metadata and "
        "may also have read the baskets that follow"
    )
    return [f"{first}.", f"{data}."]


def remarks(found: Summary) -> list[str]:
    """Return sentences on seeks, repeated or unused bytes, small requests, and the branches with most calls."""
    totals = found.totals
    calls, read = totals.read_calls, totals.read_bytes
    if not calls:
        return []
    found_remarks = ["No seeks: every read started where the previous read of its file ended."]
    if totals.seeks:
        found_remarks = [
            f"{counted(totals.seeks, 'seek')} ({count(totals.seeks_back)} backwards) over "
            f"{size(totals.seek_bytes)}, {significant(totals.seek_bytes / max(read, 1), 2)} times the bytes read."
        ]
    if totals.again_bytes > AGAIN_SHARE * read:
        found_remarks.append(
            f"{size(totals.again_bytes)}, {percent(totals.again_bytes, read)} of the bytes read, had been read before."
        )
    if totals.unwanted_bytes > UNWANTED_SHARE * read:
        found_remarks.append(
            f"{size(totals.unwanted_bytes)}, {percent(totals.unwanted_bytes, read)} of the bytes read, were not used: "
            f"they are gaps between requested ranges, or belong to baskets that were not used or not read completely."
        )
    small = sum(row.read_calls for row in found.sizes if row.up_to_bytes <= SMALL_BYTES)
    if small > SMALL_SHARE * calls:
        found_remarks.append(f"{percent(small, calls)} of the calls got no more than {size(SMALL_BYTES)}.")
    return found_remarks + _busiest(found)


def _busiest(found: Summary) -> list[str]:
    """Return a sentence that names the branches with half of the basket calls; empty if these are too many branches."""
    ordered = sorted(found.branches, key=lambda row: -row.read_calls)
    total = sum(row.read_calls for row in ordered)
    gathered = 0
    number = 0
    while 2 * gathered < total:
        gathered += ordered[number].read_calls
        number += 1
    if len(ordered) < 2 * number + 1:
        return []
    names = ", ".join(f"{row.branch} ({count(row.read_calls)})" for row in ordered[:NAMED_BRANCHES])
    return [
        f"{number} of the {len(ordered)} branches that were read account for half of the calls that read baskets: "
        f"{names}{' and others' if number > NAMED_BRANCHES else ''}."
    ]
