"""Plans: the blocks that a job reads and computes, derived from a trace. The simulator replays them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from branchline.base.plain import from_plain, to_plain
from branchline.base.quantities import NS_PER_S
from branchline.errors import OptionError
from branchline.lab.limits import AHEAD_BYTES, PLAN_BLOCKS_MAX
from branchline.lab.simulation.kernel_requests import OPENING_REQUESTS, ReadCall, kernel_requests
from branchline.tracing.trace import FILE, PART, REQUEST, SPAN, Trace, codes, numbers
from branchline.tracing.trace_summary import Requests

#: Version of the format of plans. Plans with newer versions are rejected.
PLAN_VERSION = 1
#: Prefix of the storage element names of local files, which the kernel reads.
_LOCAL = "local:"
#: Names of activities during which a thread does not compute.
_WAITS = frozenset({"wait"})
_Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReadingAhead:
    """How far reading runs ahead of computing.

    ``requests_in_flight`` and ``bytes_in_flight`` are the maximum numbers of requests and of bytes in flight; None for
    the values that the engine chooses for the link. ``blocks_ahead`` is the maximum number of blocks that are read or
    in flight in addition to the block being computed: 0 for a program that reads a block only after it has computed the
    previous one, None for the prefetching of the engine. ``threads`` is the number of threads that compute a block.
    """

    requests_in_flight: int | None = None
    bytes_in_flight: float | None = None
    blocks_ahead: int | None = None
    threads: float = 1.0


#: For programs that alternate between reading and computing.
ONE_BY_ONE = ReadingAhead(requests_in_flight=1, blocks_ahead=0)


@dataclass(frozen=True)
class Block:
    """The data of one request, and the CPU time in seconds for processing the data. ``operations`` is the number of
    disk operations.
    """

    storage: str
    size_bytes: float
    cpu_s: float
    operations: float = 1.0
    round_trips: float = 1.0


@dataclass(frozen=True)
class BlockPlan:
    """The work of a job, in order. ``prepare_s`` is the time in seconds before the first request."""

    blocks: tuple[Block, ...]
    reading: ReadingAhead = ReadingAhead()
    prepare_s: float = 0.0
    plan_version: int = PLAN_VERSION

    @property
    def size_bytes(self) -> float:
        """Total number of bytes that the job reads."""
        # The last digit of `sum` differs between versions of Python, which would change the order of equal jobs.
        return math.fsum(one.size_bytes for one in self.blocks)

    @property
    def cpu_s(self) -> float:
        """Total CPU time of the job in seconds."""
        return math.fsum(one.cpu_s for one in self.blocks)

    def at(self, storage: str) -> BlockPlan:
        """Return the plan with all blocks on another storage element."""
        return replace(self, blocks=tuple(replace(one, storage=storage) for one in self.blocks))

    def with_cpu(self, seconds: float) -> BlockPlan:
        """Return the plan with the CPU times of its blocks scaled to a known CPU time of the whole job."""
        have_s = self.cpu_s
        if have_s > 0:
            made = [replace(one, cpu_s=one.cpu_s * seconds / have_s) for one in self.blocks]
        else:
            bytes_ = self.size_bytes or 1.0
            made = [replace(one, cpu_s=seconds * one.size_bytes / bytes_) for one in self.blocks]
        return replace(self, blocks=tuple(made))

    def to_plain(self) -> Mapping[str, object]:
        """Return the plan as dicts, lists, numbers and strings."""
        return dict(to_plain(self))

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> BlockPlan:
        """Create a plan from a dict as `to_plain` returns it. Raises OptionError."""
        version = plain.get("plan_version", PLAN_VERSION)
        if not isinstance(version, int) or version > PLAN_VERSION:
            raise OptionError(f"unsupported plan version {version!r:.20}", hint="update Branchline")
        try:
            found: BlockPlan = from_plain(cls, plain)
        except ValueError as error:
            raise OptionError(f"the plan is not complete: {error}") from None
        return found

    def blocks_ahead(self) -> int:
        """Return the number of blocks by which reading is ahead; at least one if the engine decides."""
        if self.reading.blocks_ahead is not None:
            return self.reading.blocks_ahead
        mean = self.size_bytes / len(self.blocks)
        return max(1, int(AHEAD_BYTES / max(mean, 1.0)))


def plans_of(trace: Trace, storage: str | None = None) -> list[BlockPlan]:
    """Return a plan for each process in a trace that received data, with one block per request.

    All blocks are on the storage element ``storage``; by default, each block is on the storage element that the trace
    names. The number of operations of a block is its number of ranges. For local files, it is the predicted number of
    disk requests of the kernel, whose read-ahead avoids requests for most small reads; the page cache is initially
    empty.

    The computing time is the time that threads spent on decompressing, decoding and wagons. The time for a file is
    distributed over the blocks of the file by size, the time of wagons over all blocks. If a trace has no such times,
    for example for other programs, the pauses between requests are used instead, and the plan reads one block at a
    time. Raises OptionError if no request returned data.
    """
    rows = trace.rows_of(REQUEST)
    requests = Requests.of(trace)
    number = numbers(rows, "request")
    order = np.argsort(number, kind="stable")
    row = order[np.searchsorted(number[order], requests.number)]
    process = numbers(rows, "process", 0)[row]
    store, stores = codes(rows, "store")
    store = store[row]
    ranges = _ranges(trace, requests)
    plans = []
    for one in np.unique(process):
        mine = np.nonzero((process == one) & (requests.got > 0))[0]
        if not len(mine):
            continue
        if len(mine) > PLAN_BLOCKS_MAX:
            what = f"a process of the trace has {len(mine)} requests, more than {PLAN_BLOCKS_MAX}"
            raise OptionError(what, hint="trace a part of the job")
        computed = _computed(trace, requests, mine, int(one))
        reading = ReadingAhead()
        if computed is None:
            # The pause from the end of each request to the start of the next one is the computing time of a program
            # without prefetching.
            sent, last = requests.sent[mine], np.maximum.accumulate(requests.last[mine])
            computed, reading = np.zeros(len(mine)), ONE_BY_ONE
            computed[:-1] = np.maximum(sent[1:] - last[:-1], 0) / NS_PER_S
        places = [storage or (stores[number] if number >= 0 else "") for number in store[mine].tolist()]
        is_local = np.array([*(one.startswith(_LOCAL) for one in stores), False], bool)[store[mine]]
        operations = np.where(is_local, _of_kernel(trace, requests, mine), ranges[mine]).tolist()
        sizes = requests.got[mine].tolist()
        blocks = zip(places, sizes, computed.tolist(), operations, strict=True)
        prepare_s = float(requests.sent[mine].min()) / NS_PER_S
        plans.append(BlockPlan(tuple(Block(*block) for block in blocks), reading, prepare_s))
    if not plans:
        raise OptionError("no request of the trace returned data, so there is nothing to simulate")
    return plans


def _ranges(trace: Trace, requests: Requests) -> npt.NDArray[np.int64]:
    """Return the number of non-contiguous ranges of each request."""
    parts = trace.rows_of(PART)
    request, offset, size = (numbers(parts, name, 0) for name in ("request", "offset", "size_bytes"))
    order = np.lexsort((offset, request))
    request, offset, size = request[order], offset[order], size[order]
    begins = np.ones(len(request), bool)
    begins[1:] = (request[1:] != request[:-1]) | (offset[1:] > offset[:-1] + size[:-1])
    counts = np.bincount(request[begins], minlength=int(requests.number.max(initial=0)) + 1)
    return np.maximum(counts[requests.number], 1)


def _of_kernel(trace: Trace, requests: Requests, mine: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return, for each of these requests, the number of disk requests that the kernel makes if the files are local."""
    rows = trace.rows_of(FILE)
    known = dict(zip(rows["file"].to_pylist(), numbers(rows, "size_bytes", 0).tolist(), strict=True))
    made = np.zeros(len(mine), "i8")
    file, offset, got = requests.file[mine], requests.offset[mine], requests.got[mine]
    for one in np.unique(file):
        own = np.nonzero((file == one) & (offset >= 0))[0]
        if not len(own):
            continue
        size_bytes = max(known.get(requests.files[one], 0), int((offset[own] + got[own]).max()))
        reads = [ReadCall(*place) for place in zip(offset[own].tolist(), got[own].tolist(), strict=True)]
        made[own] = [len(sent) for sent in kernel_requests(reads, size_bytes)]
        made[own[0]] += OPENING_REQUESTS
    return made


def _computed(trace: Trace, requests: Requests, mine: npt.NDArray[np.int64], process: int) -> _Seconds | None:
    """Return the CPU time of each of these requests in seconds; None if the trace has no computing times."""
    spans = trace.rows_of(SPAN)
    what, words = codes(spans, "what")
    is_work = np.array([word not in _WAITS for word in words] + [False], bool)[what]
    is_work &= numbers(spans, "process", 0) == process
    if not is_work.any():
        return None
    took = (numbers(spans, "last_byte_ns", 0) - numbers(spans, "sent_ns", 0)) / NS_PER_S
    file, files = codes(spans, "file")
    size = requests.got[mine].astype(float)
    seconds = np.zeros(len(mine))
    places = {path: number for number, path in enumerate(requests.files)}
    rest_s = float(took[is_work & (file < 0)].sum())
    for number, path in enumerate(files):
        file_s = float(took[is_work & (file == number)].sum())
        own = requests.file[mine] == places.get(path, -1)
        if own.any():
            seconds[own] += file_s * size[own] / size[own].sum()
        else:
            rest_s += file_s
    found: _Seconds = seconds + rest_s * size / size.sum()
    return found
