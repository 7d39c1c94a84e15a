"""A model of the time of a job: it simulates the pipeline of each reader in the engine.

`Unexplained` is the measured time of reading a sample minus the modelled time. The difference is distributed over
chunks and baskets so that it can be forecast for another layout.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from branchline import _core
from branchline.lab.forecast.laid_file import LaidFile
from branchline.lab.forecast.pipeline import STAGE_THREADS, FileCosts, ReadingConditions, timing
from branchline.lab.forecast.planned_requests import FilePiece, PlannedReads, PlanRequest
from branchline.lab.forecast.rates import Rates
from branchline.lab.forecast.subject import Subject

#: Number of round trips to establish a connection on which a file is open: one for TCP, and one for login and open
#: together, which XRootD servers allow.
CONNECT_TRIPS = 2.0
#: Round trip in seconds that the engine assumes before it has measured the link (`EXPECTED_ROUND_TRIP`).
EXPECTED_ROUND_TRIP_S = 0.063
#: Typical overhead in seconds per chunk (passing it between threads and to Python) and per basket or page (lookup,
#: slicing, passing on), in addition to opening, decompressing and decoding. Measured on 1500 files with one chunk each,
#: and on files with 150 000 baskets and pages.
CHUNK_S, BASKET_S = 1e-4, 3.5e-6
#: Maximum factor by which other load is assumed to slow down the machine.
SLOWEST = 5.0
#: Round trip in seconds below which waiting indicates that the machine is busy.
FAR_S = 1e-3


@dataclass(frozen=True)
class JobWork:
    """The work of a job: the pieces of the planned files, with their requests.

    The whole job is ``scale`` times as large. Its ``workers`` share the work evenly; each worker has its own link and
    ``threads`` decoding threads. ``cores`` is the number of cores that all workers share; 0 means one core per thread.
    ``fixed_s`` is the time for starting and for writing results.
    """

    files: tuple[LaidFile, ...]
    pieces: tuple[FilePiece, ...]
    plans: tuple[PlannedReads, ...]
    request: PlanRequest
    scale: float = 1.0
    workers: int = 1
    threads: int = 1
    cores: int = 0
    fixed_s: float = 0.0

    @property
    def bytes_read(self) -> int:
        """Total number of bytes received."""
        return round(self.scale * sum(one.bytes_read for one in self.plans))

    @property
    def requests(self) -> int:
        """Total number of ranges requested."""
        return round(self.scale * sum(one.requests for one in self.plans))


@dataclass(frozen=True)
class Costs:
    """The costs of a job in seconds: CPU time on all cores (``cpu_s``) and wall time (``wall_s``)."""

    cpu_s: float
    wall_s: float
    workers: int

    @property
    def cpu_efficiency(self) -> float:
        """Ratio of CPU time to the wall time of all workers."""
        return min(1.0, self.cpu_s / max(1e-9, self.wall_s * self.workers))


def costs(work: JobWork, rates: Rates) -> Costs:
    """Return the modelled costs of some work. A codec that was not measured is assumed to be as slow as the slowest
    measured one.
    """
    files = [file_costs(*one, rates) for one in zip(work.pieces, work.plans, strict=True)]
    cpu_s = work.scale * sum(one.open_s + one.decode_s + one.wagons_s for one in files)
    workers = max(1, work.workers)
    # Simulate the files of worker 0, then scale to an equal share of the events and by `scale`.
    own = [cost for piece, cost in zip(work.pieces, files, strict=True) if piece.worker == 0]
    events, of_worker = (
        sum(one.events for one in work.pieces if one.worker in chosen) for chosen in (range(workers), (0,))
    )
    share = events / workers / max(1, of_worker)
    wall_s = timing(own, conditions_of(work, rates)).wall_s * share * work.scale if own else 0.0
    return Costs(cpu_s, work.fixed_s + wall_s, workers)


def file_costs(piece: FilePiece, plan: PlannedReads, rates: Rates) -> FileCosts:
    """Return the costs of a file, or of a part of a file, without the calls."""
    file = piece.file
    decompress = rates.decompress_of(file.codec)
    if decompress is None:
        decompress = max(rates.decompress_s_per_byte.values(), default=0.0)
    return FileCosts(
        plan=plan,
        size_bytes=file.size_bytes,
        open_s=0.0 if piece.opening == "before" else rates.open_s,
        # Data that is requested repeatedly is also decompressed repeatedly.
        decode_s=file.plain_per_entry * piece.events * plan.times * (rates.decode_s_per_byte + decompress),
        wagons_s=piece.events * rates.wagons_s_per_entry,
        path=file.path,
    )


def conditions_of(work: JobWork, rates: Rates) -> ReadingConditions:
    """Return the conditions under which the files of some work are read."""
    access = work.request.access
    mode = access.mode
    is_remote = any(one.is_at_a_server for one in work.files)
    # Number of files that are opened concurrently before the link is known.
    first_in_flight = 0
    if is_remote and mode not in ("plain", "cache"):
        first_in_flight = _core.link_chosen(access, EXPECTED_ROUND_TRIP_S, 0.0, 0).requests_in_flight
    return ReadingConditions(
        round_trip_s=rates.round_trip_s,
        bytes_per_s=rates.bytes_per_second,
        call_s=rates.call_s,
        threads=work.threads,
        memory_limit_bytes=work.request.memory_limit_bytes,
        is_remote=is_remote,
        prefetches_chunks=mode == "planned",
        connect_trips=CONNECT_TRIPS,
        first_in_flight=first_in_flight,
        cores=max(1, work.cores // max(1, work.workers)) if work.cores else 0,
        # The maximum number of requests in flight also limits the staging threads.
        staging_threads=min(STAGE_THREADS, access.requests_in_flight or STAGE_THREADS),
    )


# --- time that the model does not explain -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Unexplained:
    """Measured minus modelled time of reading, in seconds: once per process, per chunk (a file has at least one), and
    per basket or page.
    """

    once_s: float = 0.0
    chunk_s: float = 0.0
    basket_s: float = 0.0

    def of(self, work: JobWork) -> float:
        """Return the unexplained time of some work in seconds."""
        return self.once_s + work.scale * (self.chunk_s * chunks_of(work) + self.basket_s * baskets_of(work))


def unexplained(subject: Subject, model: Callable[[Subject], tuple[Costs, JobWork]]) -> Unexplained:
    """Return the unexplained time of a dataset's sample; zero unless the whole sample was read. ``model`` returns the
    modelled costs of a subject.
    """
    rates = subject.rates
    laid = [one for one in subject.laid if one.path in rates.sample_paths]
    if not laid or rates.sample_s <= 0 or len(laid) < len(rates.sample_paths):
        return Unexplained()

    def more(some: Sequence[LaidFile], took_s: float) -> _More:
        own = replace(subject, files=subject.files[: len(some)], laid=tuple(some), threads=1)
        modelled, work = model(own)
        return _More(took_s - modelled.wall_s, max(1, chunks_of(work)), baskets_of(work), modelled.cpu_s)

    all_of_it = more(laid, rates.sample_s - rates.first_s)
    if not rates.alone_s:
        # Distribute the time over chunks and baskets in proportion to their usual costs, increased by at most the
        # factor SLOWEST. The remainder counts once per process.
        usual_s = CHUNK_S * all_of_it.chunks + BASKET_S * all_of_it.baskets
        seconds = max(0.0, all_of_it.seconds)
        slower = min(SLOWEST, seconds / usual_s)
        return Unexplained(rates.first_s + seconds - slower * usual_s, slower * CHUNK_S, slower * BASKET_S)
    alone = more([one for one in laid if one.path == rates.sample_paths[0]], rates.alone_s)
    busy = 1.0
    if all(one.is_near for one in laid) and rates.round_trip_s < FAR_S:
        # The noise of other programs must not be multiplied by the number of files: use CPU times and the usual
        # slowdown instead.
        busy = min(SLOWEST, max(1.0, rates.again_s / max(1e-9, rates.again_cpu_s)))
        cpu_s = busy * (rates.again_cpu_s - rates.alone_cpu_s)
        later_s = max(0.0, cpu_s - (all_of_it.cpu_s - alone.cpu_s))
    else:
        # Compare the fastest reads.
        later_s = max(0.0, more(laid, rates.again_s).seconds - alone.seconds)
    # Assume usual costs for the baskets of the files after the first one.
    baskets = all_of_it.baskets - alone.baskets
    basket_s = min(busy * BASKET_S, later_s / max(1, baskets))
    chunk_s = (later_s - basket_s * baskets) / max(1, all_of_it.chunks - alone.chunks)
    # Time that only the first file needs, for example to start and stop threads.
    once_s = max(0.0, all_of_it.seconds - chunk_s * all_of_it.chunks - basket_s * all_of_it.baskets)
    return Unexplained(rates.first_s + once_s, chunk_s, basket_s)


@dataclass(frozen=True)
class _More:
    """Measured minus modelled time of reading some files in seconds, with their numbers of chunks and of baskets and
    their modelled CPU time.
    """

    seconds: float
    chunks: int
    baskets: int
    cpu_s: float


def chunks_of(work: JobWork) -> int:
    """Return the number of chunks of the planned files."""
    return sum(one.chunks for one in work.plans)


def baskets_of(work: JobWork) -> int:
    """Return the number of baskets and pages of the planned files."""
    return sum(len(branch) for file in work.files for branch in file.extents)


def usual_saving_s(before: JobWork, after: JobWork) -> float:
    """Return the time in seconds that fewer baskets usually save in each worker; negative if there are more baskets."""
    fewer = before.scale * baskets_of(before) - after.scale * baskets_of(after)
    return BASKET_S * fewer / max(1, after.workers)
