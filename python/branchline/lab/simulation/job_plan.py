"""The blocks that a job reads and computes, from a trace of it: what the simulator replays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from branchline.base.plain import from_plain, to_plain
from branchline.errors import OptionError
from branchline.lab.limits import AHEAD_BYTES, PLAN_BLOCKS_MAX
from branchline.lab.simulation.kernel_requests import OPENING_REQUESTS, Read, kernel_requests
from branchline.tracing.trace import FILE, PART, REQUEST, SPAN, Trace, codes, numbers
from branchline.tracing.trace_summary import Requests

#: The version of the form of plans; a reader refuses a newer one.
PLAN_VERSION = 1
#: How the names of stores begin that are files of a machine, which its kernel reads.
_LOCAL = "local:"
#: What threads do that is no computing.
_WAITS = frozenset({"wait"})
_Seconds = npt.NDArray[np.float64]


@dataclass(frozen=True)
class ReadingAhead:
    """How reading runs ahead of computing.

    ``requests_in_flight`` and ``bytes_in_flight`` are due at a time; None for what the engine chooses for the link.
    ``blocks_ahead`` may be read, or be on their way, beyond the block that is computed; 0 for a program that reads a
    block only when it is done with the one before; None for as many as the engine's stream of chunks reads ahead.
    ``threads`` compute a block.
    """

    requests_in_flight: int | None = None
    bytes_in_flight: float | None = None
    blocks_ahead: int | None = None
    threads: float = 1.0


#: Programs that read, compute, and read again.
ONE_BY_ONE = ReadingAhead(requests_in_flight=1, blocks_ahead=0)


@dataclass(frozen=True)
class Block:
    """What one request reads, and the seconds of a core to compute it. ``operations`` are those of the disk."""

    storage: str
    size_bytes: float
    cpu_s: float
    operations: float = 1.0
    round_trips: float = 1.0


@dataclass(frozen=True)
class BlockPlan:
    """What a job does, in order. ``prepare_s`` passes before its first request."""

    blocks: tuple[Block, ...]
    reading: ReadingAhead = ReadingAhead()
    prepare_s: float = 0.0
    plan_version: int = PLAN_VERSION

    @property
    def size_bytes(self) -> float:
        """Bytes that it reads."""
        # Not `sum`: its last digit differs between versions of Python, and decides which of two equal jobs comes first.
        return math.fsum(one.size_bytes for one in self.blocks)

    @property
    def cpu_s(self) -> float:
        """Seconds of a core that it computes."""
        return math.fsum(one.cpu_s for one in self.blocks)

    def at(self, storage: str) -> BlockPlan:
        """The same blocks at one other storage."""
        return replace(self, blocks=tuple(replace(one, storage=storage) for one in self.blocks))

    def with_cpu(self, seconds: float) -> BlockPlan:
        """The same blocks, computed in so many seconds of a core, as where those of the whole job are known."""
        have_s = self.cpu_s
        if have_s > 0:
            made = [replace(one, cpu_s=one.cpu_s * seconds / have_s) for one in self.blocks]
        else:
            bytes_ = self.size_bytes or 1.0
            made = [replace(one, cpu_s=seconds * one.size_bytes / bytes_) for one in self.blocks]
        return replace(self, blocks=tuple(made))

    def to_plain(self) -> Mapping[str, object]:
        """All of it as dicts, lists, numbers and texts."""
        return dict(to_plain(self))

    @classmethod
    def from_plain(cls, plain: Mapping[str, object]) -> BlockPlan:
        """The plan of such a dict. Raises OptionError."""
        version = plain.get("plan_version", PLAN_VERSION)
        if not isinstance(version, int) or version > PLAN_VERSION:
            raise OptionError(f"version {version!r:.20} of the plan is not known here", hint="update Branchline")
        try:
            found: BlockPlan = from_plain(cls, plain)
        except ValueError as error:
            raise OptionError(f"the plan is not complete: {error}") from None
        return found

    def blocks_ahead(self) -> int:
        """How many blocks its reading is ahead, at least one where the engine's stream decides."""
        if self.reading.blocks_ahead is not None:
            return self.reading.blocks_ahead
        mean = self.size_bytes / len(self.blocks)
        return max(1, int(AHEAD_BYTES / max(mean, 1.0)))


def plans_of(trace: Trace, storage: str | None = None) -> list[BlockPlan]:
    """The plan of each process of a trace that read something: a block for each request.

    ``storage`` is where all of it is; by default each storage element of the trace has its own name. The operations of
    a block are its ranges; of a file of the machine those that its kernel makes for the read if nothing of the file is
    in memory, with its read-ahead: for most small reads none. Time that threads
    decompressed, decoded and spent in wagons is computing: that of a file is spread over the file's blocks by their
    bytes, that of wagons over all. A trace that lacks these times, as one of another program, has the pauses between
    requests instead, and a plan that reads one by one. Raises OptionError if nothing was read.
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
            raise OptionError(f"a process of the trace has {len(mine)} requests", hint="trace a part of the job")
        computed = _computed(trace, requests, mine, int(one))
        reading = ReadingAhead()
        if computed is None:
            computed, reading = _pauses(requests, mine), ONE_BY_ONE
        places = [storage or (stores[number] if number >= 0 else "") for number in store[mine].tolist()]
        is_local = np.array([*(one.startswith(_LOCAL) for one in stores), False], bool)[store[mine]]
        operations = np.where(is_local, _of_kernel(trace, requests, mine), ranges[mine]).tolist()
        sizes = requests.got[mine].tolist()
        blocks = zip(places, sizes, computed.tolist(), operations, strict=True)
        prepare_s = float(requests.sent[mine].min()) / 1e9
        plans.append(BlockPlan(tuple(Block(*block) for block in blocks), reading, prepare_s))
    if not plans:
        raise OptionError("the trace has no request that got bytes, so that there is nothing to simulate")
    return plans


def _ranges(trace: Trace, requests: Requests) -> npt.NDArray[np.int64]:
    """Of how many ranges that are apart each request is."""
    parts = trace.rows_of(PART)
    request, offset, size = (numbers(parts, name, 0) for name in ("request", "offset", "size_bytes"))
    order = np.lexsort((offset, request))
    request, offset, size = request[order], offset[order], size[order]
    begins = np.ones(len(request), bool)
    begins[1:] = (request[1:] != request[:-1]) | (offset[1:] > offset[:-1] + size[:-1])
    counts = np.bincount(request[begins], minlength=int(requests.number.max(initial=0)) + 1)
    return np.maximum(counts[requests.number], 1)


def _of_kernel(trace: Trace, requests: Requests, mine: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """What the kernel requests of a disk for each of these, if they are of files of the machine."""
    rows = trace.rows_of(FILE)
    known = dict(zip(rows["file"].to_pylist(), numbers(rows, "size_bytes", 0).tolist(), strict=True))
    made = np.zeros(len(mine), "i8")
    file, offset, got = requests.file[mine], requests.offset[mine], requests.got[mine]
    for one in np.unique(file):
        own = np.nonzero((file == one) & (offset >= 0))[0]
        if not len(own):
            continue
        size_bytes = max(known.get(requests.files[one], 0), int((offset[own] + got[own]).max()))
        reads = [Read(*place) for place in zip(offset[own].tolist(), got[own].tolist(), strict=True)]
        made[own] = [len(sent) for sent in kernel_requests(reads, size_bytes)]
        made[own[0]] += OPENING_REQUESTS
    return made


def _computed(trace: Trace, requests: Requests, mine: npt.NDArray[np.int64], process: int) -> _Seconds | None:
    """Seconds of a core for each of these requests; None if the trace has no times of computing."""
    spans = trace.rows_of(SPAN)
    what, words = codes(spans, "what")
    is_work = np.array([word not in _WAITS for word in words] + [False], bool)[what]
    is_work &= numbers(spans, "process", 0) == process
    if not is_work.any():
        return None
    took = (numbers(spans, "last_byte_ns", 0) - numbers(spans, "sent_ns", 0)) / 1e9
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


def _pauses(requests: Requests, mine: npt.NDArray[np.int64]) -> _Seconds:
    """The time from the end of each request to the begin of the next: what a program does that reads one by one."""
    sent, last = requests.sent[mine], np.maximum.accumulate(requests.last[mine])
    pauses = np.zeros(len(mine))
    pauses[:-1] = np.maximum(sent[1:] - last[:-1], 0) / 1e9
    return pauses
