"""The requests that reading a file makes, planned by the engine's own rules without reading it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from branchline import _core
from branchline.access import Access
from branchline.errors import MemoryLimitError
from branchline.forecast.laid import LaidFile
from branchline.layout.extents import Numbers, as_numbers
from branchline.limits import memory_limit_bytes, parse_bytes


@dataclass(frozen=True)
class PlanRequest:
    """How files are read. ``link`` is the round trip in seconds and the bytes per second of the link to their storage,
    if they are known; ``seen`` what was learned from the file before; ``is_named`` whether branches are named.
    """

    access: Access = field(default_factory=Access)
    link: tuple[float, float] | None = None
    step_bytes: int = parse_bytes("100 MB")
    step_entries: int | None = None
    memory_limit_bytes: int = memory_limit_bytes("1 GiB")
    threads: int = 1
    is_named: bool = False
    seen: tuple[int, float] | None = None


@dataclass(frozen=True)
class PlannedReads:
    """The requests of a file: for each range the number of its call, its offset and its bytes; what each call is for.

    A call is one wait of a reader, ``calls_in_flight`` of them at a time. ``opens_ahead`` says whether the next file is
    opened while this one is read.
    """

    call: Numbers
    offset: Numbers
    size: Numbers
    purposes: tuple[str, ...]
    chunks: int
    calls_in_flight: int
    bytes_in_flight: int
    is_whole: bool
    opens_ahead: bool
    seen: tuple[int, float]

    @property
    def calls(self) -> int:
        """Calls to the store: each waits for a round trip."""
        return len(self.purposes)

    @property
    def requests(self) -> int:
        """Ranges that are requested."""
        return len(self.offset)

    @property
    def bytes_read(self) -> int:
        """Bytes that come."""
        return int(self.size.sum())

    def calls_for(self, *purposes: str) -> int:
        """How many calls are for these purposes: opening, baskets, prefetch, staging."""
        return sum(one in purposes for one in self.purposes)

    def serial_trips(self) -> float:
        """Round trips that the reader waits for, one after the other: what is in flight together counts once. Asking
        for the file itself, which gives its size, is one more than the calls.
        """
        opening = 1.0 + self.calls_for("opening")
        ahead = self.calls_for("prefetch", "staging")
        trips = self.calls_for("baskets") + ahead / max(1, self.calls_in_flight if ahead else 1)
        return trips + (opening / max(1, self.calls_in_flight) if self.opens_ahead else opening)

    def first_trips(self) -> float:
        """Round trips of the first file that nothing hides: it is not open before it is needed."""
        return 1.0 + self.calls_for("opening") + (self.calls_for("prefetch") > 0) if self.opens_ahead else 0.0

    def largest(self) -> int:
        """Bytes of the largest range."""
        return int(np.max(self.size, initial=0))


def planned(file: LaidFile, request: PlanRequest) -> PlannedReads:
    """The requests of a file. Raises MemoryLimitError if the memory limit is too small for its baskets."""
    found = _core.plan_reads(file, request)
    if found is None:
        raise MemoryLimitError(f"{file.path}: its baskets do not fit into the memory limit", hint="allow more memory")
    return PlannedReads(
        call=as_numbers(found.call),
        offset=as_numbers(found.offset),
        size=as_numbers(found.size),
        purposes=tuple(found.purposes),
        chunks=found.chunks,
        calls_in_flight=found.calls_in_flight,
        bytes_in_flight=found.bytes_in_flight,
        is_whole=found.is_whole,
        opens_ahead=found.opens_ahead,
        seen=found.seen,
    )


def planned_in_order(files: Sequence[LaidFile], request: PlanRequest) -> list[PlannedReads]:
    """The requests of files that one reader reads one after the other: it learns from each for the next."""
    plans: list[PlannedReads] = []
    for file in files:
        seen = plans[-1].seen if plans and request.is_named else None
        plans.append(planned(file, replace(request, seen=seen)))
    return plans
