"""Simulate the engine's pipeline to get the time of reading from its planned requests.

As in the engine, one thread (the fetcher) opens the files in order, requests the data of each chunk and passes the
chunk to the decoders. Prefetch threads open the next files and request data of later chunks, within the limits of
requests and bytes in flight that are chosen for the link. A connection serves one call at a time. Threads share the
cores of the machine.

This is a discrete-event simulation: processes are generators that wait for a time or a gate of the `Clock`.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Generator, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from branchline.lab.forecast.planned_requests import PlannedReads

#: A simulated process, a generator that yields the time at which it continues, or the gate that it waits for.
Process = Generator["float | Gate", None, None]
#: Maximum number of chunks that are fetched and decoded in advance, in addition to one per decoder (the engine's
#: `CHUNKS_AHEAD`).
CHUNKS_AHEAD = 2
#: Maximum number of files opened in advance while their memory needs are unknown (`UNKNOWN_FILES_PREFETCHED`).
UNKNOWN_FILES = 64
#: Divisor of the memory limit: prefetched data takes at most this part (`PREFETCH_MEMORY_DIVISOR`).
PREFETCH_SHARE = 8
#: Maximum number of threads that copy a file to the local disk (`STAGE_THREADS`).
STAGE_THREADS = 8
#: Round trip in seconds above which connections are established in advance (`FAR_ROUND_TRIP_MIN`).
FAR_S = 0.02
#: Number of bytes for which one connection is established in advance (`MAX_JOINED_BYTES`).
JOINED_BYTES = 8 << 20
#: Compressed size of a bundle of baskets that is passed to a decoder (`BUNDLE_BYTES`).
BUNDLE_BYTES = 128 << 10
#: Maximum number of bundles per chunk that are simulated individually.
BUNDLES_MAX = 64


@dataclass(frozen=True)
class FileCosts:
    """The costs of a file, or of a part of a file: its planned requests, and CPU times for decoding its metadata
    (``open_s``), for decompressing and decoding the wanted data (``decode_s``), and of wagons. Parts of the same file
    have the same ``path``.
    """

    plan: PlannedReads
    size_bytes: int
    open_s: float
    decode_s: float
    wagons_s: float = 0.0
    path: str = ""


@dataclass(frozen=True)
class ReadingConditions:
    """The conditions under which one reader reads files.

    ``round_trip_s`` and ``bytes_per_s`` (0 if unlimited) describe the link to the storage, ``call_s`` is the additional
    time per call. ``connect_trips`` is the number of round trips to establish a connection on which a file is open.

    ``first_in_flight`` is the number of files that are opened concurrently before the link is known.
    ``prefetches_chunks`` is true if chunks are prefetched, and files not only opened in advance. ``cores`` is the
    number of cores that all threads of the reader share; 0 means one core per thread. ``staging_threads`` is the number
    of threads that copy a file.
    """

    round_trip_s: float
    bytes_per_s: float
    call_s: float
    threads: int
    memory_limit_bytes: int
    is_remote: bool
    prefetches_chunks: bool
    connect_trips: float = 0.0
    first_in_flight: int = 0
    cores: int = 0
    staging_threads: int = STAGE_THREADS


@dataclass(frozen=True)
class Timing:
    """The wall time of reading, and the total busy time of the decoders, in seconds."""

    wall_s: float
    decoding_s: float


def timing(files: Sequence[FileCosts], conditions: ReadingConditions) -> Timing:
    """Return the time that one reader needs for these files, which it reads in order."""
    if not files:
        return Timing(0.0, 0.0)
    run = _Run(files, conditions)
    run.clock.start(run.fetch())
    run.clock.run()
    return Timing(run.end_s, run.decoders.worked_s)


@dataclass
class _Job:
    size_bytes: float
    work: Process


@dataclass
class _Chunk:
    """The sizes of a chunk's calls: ``serial`` calls are made when the chunk is read, ``ahead`` calls are
    prefetched.
    """

    serial: list[float] = field(default_factory=list)
    ahead: list[float] = field(default_factory=list)
    ahead_gates: list[Gate] = field(default_factory=list)
    decode_s: float = 0.0
    wagons_s: float = 0.0
    size_bytes: float = 0.0


class _Opened:
    """A file that is open or will be opened."""

    def __init__(self, costs: FileCosts) -> None:
        self.costs = costs
        self.gate = Gate()
        self.is_begun = False
        self.opening, self.staging, self.chunks = _calls_of(costs)


class _Run:
    def __init__(self, files: Sequence[FileCosts], conditions: ReadingConditions) -> None:
        self.clock = Clock()
        self.conditions = conditions
        self.files = [_Opened(one) for one in files]
        self.way = Way(conditions.round_trip_s + conditions.call_s, conditions.bytes_per_s)
        self.decoders = Servers(conditions.threads)
        self.wagons = Servers(1)
        self.cores = Servers(conditions.cores) if conditions.cores else None
        self.end_s = 0.0
        # State of the prefetch threads.
        self.jobs: deque[_Job] = deque()
        self.busy = 0
        self.in_flight_bytes = 0.0
        self.leased_bytes = 0.0
        self.changed = Gate()
        self.next_file = 0
        self.names = [one.path or str(number) for number, one in enumerate(files)]
        # Idle connections: each is the set of names of the files that are open on it.
        self.idle: list[set[str]] = []
        self.connections = 0
        self.expecting = 0
        self.waiting = 0
        self.is_link_known = False
        self.decoded: list[Gate] = []

    # Limits that depend on the link.

    def threads_max(self) -> int:
        plan = self.files[0].costs.plan
        if not plan.opens_ahead and not self.conditions.first_in_flight:
            return 0
        if not self.is_link_known and self.conditions.first_in_flight:
            return self.conditions.first_in_flight
        return plan.calls_in_flight if plan.opens_ahead else 0

    def bytes_max(self) -> float:
        return float(self.files[0].costs.plan.bytes_in_flight)

    def memory_max(self) -> float:
        return self.conditions.memory_limit_bytes / PREFETCH_SHARE

    # Fetcher thread.

    def fetch(self) -> Process:
        for number, file in enumerate(self.files):
            self.open_ahead(number)
            if not file.is_begun:
                file.is_begun = True
                yield from self.opened(number)
            while not file.gate.is_open:
                yield file.gate
            self.is_link_known = True
            self.open_ahead(number)
            self.clock.start(self.prefetch_chunks(file, number))
            for chunk in file.chunks:
                yield from self.chunk(number, chunk)
        yield from self.decoded
        self.end_s = self.clock.now_s

    def chunk(self, number: int, chunk: _Chunk) -> Process:
        ahead = self.conditions.threads + CHUNKS_AHEAD
        if len(self.decoded) >= ahead:
            yield self.decoded[-ahead]
        for size in chunk.serial:
            yield from self.call(number, size)
        for place in range(len(chunk.ahead)):
            while len(chunk.ahead_gates) <= place:
                yield self.wait_for_change()
            yield chunk.ahead_gates[place]
        self.leased_bytes -= sum(chunk.ahead)
        self.change()
        bundles = min(BUNDLES_MAX, max(1, round(chunk.size_bytes / BUNDLE_BYTES)))
        end_s = self.computed(self.decoders, [chunk.decode_s / bundles] * bundles)
        gate = Gate()
        self.decoded.append(gate)
        self.clock.start(self.used(chunk, end_s, gate))

    def used(self, chunk: _Chunk, decoded_s: float, gate: Gate) -> Process:
        """Run the wagons, which process one chunk at a time."""
        yield decoded_s
        yield self.computed(self.wagons, [chunk.wagons_s])
        self.clock.open(gate)

    def computed(self, threads: Servers | None, tasks_s: Sequence[float]) -> float:
        """Return the time at which all tasks are done. Each task needs one of the threads and one of the cores."""
        takers = [one for one in (threads, self.cores) if one is not None]
        return max((one.take(self.clock.now_s, tasks_s) for one in takers), default=self.clock.now_s + sum(tasks_s))

    def open_ahead(self, current: int) -> None:
        """Let the prefetch threads open the next files. They also open the first file if chunks are prefetched."""
        threads = self.threads_max()
        if threads <= 0:
            return
        plan = self.files[0].costs.plan
        starts_first = (
            self.next_file == 0 and current == 0 and not self.is_link_known and self.conditions.prefetches_chunks
        )
        self.next_file = max(self.next_file, current if starts_first else current + 1)
        whole = self.files[current].costs.size_bytes if plan.is_whole else 0
        most = max(1, int(self.memory_max() // whole)) if whole else UNKNOWN_FILES
        while self.next_file < len(self.files) and self.next_file - current <= min(threads, most):
            number = self.next_file
            if not self.files[number].is_begun:
                self.files[number].is_begun = True
                self.run_ahead(0.0, self.opened(number))
            self.next_file += 1

    # Prefetch threads.

    def run_ahead(self, size_bytes: float, work: Process) -> None:
        self.jobs.append(_Job(size_bytes, work))
        self.pump()

    def pump(self) -> None:
        while self.jobs and self.busy < max(1, self.threads_max()):
            job = self.jobs[0]
            if not self.has_room(job.size_bytes):
                return
            self.jobs.popleft()
            self.busy += 1
            self.in_flight_bytes += job.size_bytes
            self.clock.start(self.work(job))

    def has_room(self, size_bytes: float) -> bool:
        more = self.in_flight_bytes + size_bytes
        return size_bytes == 0 or self.in_flight_bytes == 0 or more <= self.bytes_max()

    def work(self, job: _Job) -> Process:
        yield from job.work
        self.busy -= 1
        self.in_flight_bytes -= job.size_bytes
        self.pump()
        self.change()

    def change(self) -> None:
        gate, self.changed = self.changed, Gate()
        self.clock.open(gate)

    def wait_for_change(self) -> Gate:
        return self.changed

    def prefetch_chunks(self, file: _Opened, number: int) -> Process:
        """Prefetch the data of the chunks in order, within the memory limit."""
        for chunk in file.chunks:
            for size in chunk.ahead[len(chunk.ahead_gates) :]:
                while self.leased_bytes + size > self.memory_max() and self.leased_bytes > 0:
                    yield self.wait_for_change()
                self.ask_ahead(chunk, number, size)

    def ask_ahead(self, chunk: _Chunk, number: int, size: float) -> None:
        gate = Gate()
        chunk.ahead_gates.append(gate)
        self.leased_bytes += size
        self.run_ahead(size, self.called(number, size, gate))
        self.change()

    def called(self, number: int, size: float, gate: Gate) -> Process:
        yield from self.call(number, size)
        self.clock.open(gate)

    # Calls.

    def opened(self, number: int) -> Process:
        """Open a file: send the open request, read the metadata, and decode them."""
        file = self.files[number]
        yield from self.connected(number, None)
        is_whole = file.costs.plan.is_whole
        if self.conditions.prefetches_chunks and not is_whole and self.conditions.round_trip_s >= FAR_S:
            self.expect(number)
        whole = file.costs.size_bytes if is_whole else 0
        while whole and not self.has_room(whole):
            yield self.wait_for_change()
        self.in_flight_bytes += whole
        for size in file.opening:
            yield from self.call(number, size)
        self.in_flight_bytes -= whole
        self.pump()
        self.change()
        if file.staging:
            yield from self.staged(number, file.staging)
        if file.costs.open_s:
            yield self.computed(None, [file.costs.open_s])
        if file.chunks and self.leased_bytes + sum(file.chunks[0].ahead) <= self.memory_max():
            for size in file.chunks[0].ahead:
                self.ask_ahead(file.chunks[0], number, size)
        self.clock.open(file.gate)

    def staged(self, number: int, sizes: Sequence[float]) -> Process:
        """Copy a file with several threads, each making one call at a time."""
        gates = []
        threads = self.conditions.staging_threads
        for first in range(threads):
            gate = Gate()
            gates.append(gate)
            self.clock.start(self.copied(number, sizes[first::threads], gate))
        for gate in gates:
            yield gate

    def copied(self, number: int, sizes: Sequence[float], gate: Gate) -> Process:
        for size in sizes:
            yield from self.call(number, size)
        self.clock.open(gate)

    def call(self, number: int, size: float) -> Process:
        yield from self.connected(number, size)

    def connected(self, number: int, size: float | None) -> Process:
        """Request bytes, or only open the file if ``size`` is None.

        Uses an idle connection on which the file is open, or else another idle connection, or else a new connection.
        """
        if not self.conditions.is_remote:
            if size is not None:
                yield self.way.answered(self.clock.now_s, size)
            return
        self.waiting += 1
        while not self.idle and self.expecting >= self.waiting:
            yield self.wait_for_change()
        self.waiting -= 1
        name = self.names[number]
        place = next((place for place, files in enumerate(self.idle) if name in files), len(self.idle) - 1)
        if place < 0:
            self.connections += 1
            connection: set[str] = set()
            yield (
                self.clock.now_s + self.conditions.connect_trips * self.conditions.round_trip_s + self.conditions.call_s
            )
        else:
            connection = self.idle.pop(place)
            if name not in connection:
                yield self.way.answered(self.clock.now_s, 0)
        connection.add(name)
        if size is not None:
            yield self.way.answered(self.clock.now_s, size)
        self.idle.append(connection)

    def expect(self, number: int) -> None:
        """Establish connections in advance for the reads of a file."""
        plan, file = self.files[0].costs.plan, self.files[number]
        size = min(self.bytes_max(), self.memory_max(), file.costs.size_bytes)
        wanted = min(plan.calls_in_flight, -(-int(size * 1.25) // JOINED_BYTES))
        for _ in range(max(0, wanted - self.connections)):
            self.connections += 1
            self.expecting += 1
            self.clock.start(self.expected(number))

    def expected(self, number: int) -> Process:
        yield self.clock.now_s + self.conditions.connect_trips * self.conditions.round_trip_s
        self.expecting -= 1
        self.idle.append({self.names[number]})
        self.change()


def _calls_of(costs: FileCosts) -> tuple[list[float], list[float], list[_Chunk]]:
    """Return the sizes of the calls that open a file, the sizes of the calls that copy it, and its chunks."""
    plan = costs.plan
    sizes = np.bincount(plan.call, weights=plan.size, minlength=plan.calls).tolist()
    opening, staging = [], []
    chunks = [_Chunk() for _ in range(max(1, plan.chunks))]
    for size, purpose, number in zip(sizes, plan.purposes, plan.chunk_of_call.tolist(), strict=True):
        chunk = chunks[min(number, len(chunks) - 1)]
        if purpose == "opening":
            opening.append(size)
        elif purpose == "staging":
            staging.append(size)
        else:
            (chunk.ahead if purpose == "prefetch" else chunk.serial).append(size)
            chunk.size_bytes += size
    asked = sum(chunk.size_bytes for chunk in chunks)
    for chunk in chunks:
        part = chunk.size_bytes / asked if asked else 1 / len(chunks)
        chunk.decode_s, chunk.wagons_s = costs.decode_s * part, costs.wagons_s * part
        chunk.size_bytes = chunk.size_bytes if asked else costs.size_bytes / len(chunks)
    return opening, staging, chunks


# --- simulated time ---------------------------------------------------------------------------------------------------


class Gate:
    """A gate for which processes can wait. It is closed until an event has happened."""

    def __init__(self) -> None:
        self.is_open = False
        self.waiting: list[Process] = []


class Clock:
    """Runs processes in the order of their times. Processes with the same time run in the order in which they were
    added.
    """

    def __init__(self) -> None:
        self.now_s = 0.0
        self._due: list[tuple[float, int, Process]] = []
        self._count = 0

    def start(self, process: Process) -> None:
        """Start a process now."""
        self._at(self.now_s, process)

    def open(self, gate: Gate) -> None:
        """Open a gate and resume the processes that wait for it."""
        gate.is_open = True
        for process in gate.waiting:
            self._at(self.now_s, process)
        gate.waiting = []

    def run(self) -> None:
        """Run until no process is left."""
        while self._due:
            moment, _, process = heapq.heappop(self._due)
            self.now_s = max(self.now_s, moment)
            self._step(process)

    def _step(self, process: Process) -> None:
        for wait in process:
            if isinstance(wait, Gate):
                if wait.is_open:
                    continue
                wait.waiting.append(process)
                return
            if wait > self.now_s:
                self._at(wait, process)
                return

    def _at(self, moment: float, process: Process) -> None:
        self._count += 1
        heapq.heappush(self._due, (moment, self._count, process))


class Servers:
    """Several servers, each processing one task at a time. The first free server takes the next task."""

    def __init__(self, count: int) -> None:
        self._free_s = [0.0] * max(1, count)
        self.worked_s = 0.0

    def take(self, now_s: float, tasks_s: Iterable[float]) -> float:
        """Return the time at which all of these tasks, which arrive now, are done."""
        end_s = now_s
        for task_s in tasks_s:
            begin_s = max(now_s, heapq.heappop(self._free_s))
            heapq.heappush(self._free_s, begin_s + task_s)
            end_s = max(end_s, begin_s + task_s)
            self.worked_s += task_s
        return end_s


class Way:
    """The link to a server, which transmits responses one after the other. A bandwidth of 0 stands for unlimited
    bandwidth.
    """

    def __init__(self, round_trip_s: float, bytes_per_s: float) -> None:
        self.round_trip_s = round_trip_s
        self._bytes_per_s = bytes_per_s
        self._free_s = 0.0

    def answered(self, now_s: float, size_bytes: float) -> float:
        """Return the time at which the last byte of the response to a request sent now arrives."""
        begin_s = max(now_s + self.round_trip_s, self._free_s)
        if self._bytes_per_s > 0:
            self._free_s = begin_s + size_bytes / self._bytes_per_s
            return self._free_s
        return begin_s
