"""A model of the time of a job: its readers, each by the pipeline of the engine in simulated time.

`Unexplained` is the time that reading a sample took beyond the model, shared out among chunks and baskets so that it
can be forecast for another layout.
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
from branchline.reading.access import Access

#: Round trips until a connection to a server is made with a file open on it: one for TCP, and one for login and open
#: together, as XRootD servers allow it.
CONNECT_TRIPS = 2.0
#: The link that the engine expects before it has measured one (`EXPECTED_ROUND_TRIP`).
EXPECTED_ROUND_TRIP_S = 0.063
#: Seconds, besides the times of opening, decompressing and decoding, that a core usually takes for a chunk
#: (it is handed from thread to thread, and to Python), and for a basket or page (it is looked up, cut out of what was
#: read, and handed on): measured on 1500 files of a chunk each, and on files of 150 000 baskets and pages.
CHUNK_S, BASKET_S = 1e-4, 3.5e-6
#: Largest factor by which a machine, with all that it does, is taken to be slower than usual.
SLOWEST = 5.0
#: Round trip in seconds below which waiting shows that the machine is busy.
FAR_S = 1e-3


@dataclass(frozen=True)
class Work:
    """What a job does: the pieces of the files that were planned, with their requests, as it reads them; ``scale``
    times as many are there. ``workers`` share them evenly, each with the link to itself and so many decoding
    ``threads``.

    ``cores`` are those of all workers; 0 where each thread has one. ``fixed_s`` is the time for starting and for
    writing results.
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
        """Bytes that come."""
        return round(self.scale * sum(one.bytes_read for one in self.plans))

    @property
    def requests(self) -> int:
        """Ranges that are requested."""
        return round(self.scale * sum(one.requests for one in self.plans))


@dataclass(frozen=True)
class Costs:
    """Seconds of a job: of all cores together (``cpu_s``), and the whole (``wall_s``)."""

    cpu_s: float
    wall_s: float
    workers: int

    @property
    def cpu_efficiency(self) -> float:
        """CPU time over the wall time of all workers."""
        return min(1.0, self.cpu_s / max(1e-9, self.wall_s * self.workers))


def costs(work: Work, rates: Rates) -> Costs:
    """The time of some work. A codec that was not measured decompresses as the slowest that was."""
    files = [file_costs(*one, rates) for one in zip(work.pieces, work.plans, strict=True)]
    cpu_s = work.scale * sum(one.open_s + one.decode_s + one.wagons_s for one in files)
    workers = max(1, work.workers)
    # What one worker reads, which has as many events as the others. There are `scale` times as many files.
    own = [cost for piece, cost in zip(work.pieces, files, strict=True) if piece.worker == 0]
    events, of_worker = (
        sum(one.events for one in work.pieces if one.worker in chosen) for chosen in (range(workers), (0,))
    )
    share = events / workers / max(1, of_worker)
    wall_s = timing(own, conditions_of(work, rates)).wall_s * share * work.scale if own else 0.0
    return Costs(cpu_s, work.fixed_s + wall_s, workers)


def file_costs(piece: FilePiece, plan: PlannedReads, rates: Rates) -> FileCosts:
    """What a file, or a part of it, takes besides its calls."""
    file = piece.file
    decompress = rates.decompress_of(file.codec)
    if decompress is None:
        decompress = max(rates.decompress_s_per_byte.values(), default=0.0)
    return FileCosts(
        plan=plan,
        size_bytes=file.size_bytes,
        open_s=0.0 if piece.opening == "before" else rates.open_s,
        # What is requested again is decompressed again, and rates are those of all that was decompressed.
        decode_s=file.plain_per_entry * piece.events * plan.times * (rates.decode_s_per_byte + decompress),
        wagons_s=piece.events * rates.wagons_s_per_entry,
        path=file.path,
    )


def conditions_of(work: Work, rates: Rates) -> ReadingConditions:
    """How the files of some work are read."""
    mode = work.request.access.mode
    is_remote = any(one.is_at_a_server for one in work.files)
    return ReadingConditions(
        round_trip_s=rates.round_trip_s,
        bytes_per_s=rates.bytes_per_second,
        call_s=rates.call_s,
        threads=work.threads,
        memory_limit_bytes=work.request.memory_limit_bytes,
        is_remote=is_remote,
        prefetches_chunks=mode == "planned",
        connect_trips=CONNECT_TRIPS,
        first_in_flight=_files_at_first(work.request) if is_remote else 0,
        cores=max(1, work.cores // max(1, work.workers)) if work.cores else 0,
        staging_threads=_staging_threads(work.request.access),
    )


def _staging_threads(access: Access) -> int:
    """Threads that copy a file: no more than requests may be in flight."""
    return min(STAGE_THREADS, access.requests_in_flight or STAGE_THREADS)


def _files_at_first(request: PlanRequest) -> int:
    """Files that are opened at a time before the link is known; 0 for a way of reading that opens none ahead."""
    if request.access.mode in ("plain", "cache"):
        return 0
    return _core.link_chosen(request.access, EXPECTED_ROUND_TRIP_S, 0.0, 0).requests_in_flight


# --- what the model leaves unexplained --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Unexplained:
    """Seconds of reading that the model does not know of: once in each process, for a chunk, of which each file has one
    at least, and for a basket or page.
    """

    once_s: float = 0.0
    chunk_s: float = 0.0
    basket_s: float = 0.0

    def of(self, work: Work) -> float:
        """For all files of some work."""
        return self.once_s + work.scale * (self.chunk_s * chunks_of(work) + self.basket_s * baskets_of(work))


def unexplained(subject: Subject, model: Callable[[Subject], tuple[Costs, Work]]) -> Unexplained:
    """What the sample of a dataset shows; nothing where not all of it was read. ``model`` has what one costs."""
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
        return _by_usual_parts(rates.first_s, all_of_it)
    alone = more([one for one in laid if one.path == rates.sample_paths[0]], rates.alone_s)
    busy = 1.0
    if all(one.is_near for one in laid) and rates.round_trip_s < FAR_S:
        # What other programs make of a millisecond would be multiplied by all files: they are as slow as other work is.
        busy = min(SLOWEST, max(1.0, rates.again_s / max(1e-9, rates.again_cpu_s)))
        cpu_s = busy * (rates.again_cpu_s - rates.alone_cpu_s)
        later_s = max(0.0, cpu_s - (all_of_it.cpu_s - alone.cpu_s))
    else:
        # The quickest of each.
        later_s = max(0.0, more(laid, rates.again_s).seconds - alone.seconds)
    # Of what later files take, their baskets take what they usually do.
    baskets = all_of_it.baskets - alone.baskets
    basket_s = min(busy * BASKET_S, later_s / max(1, baskets))
    chunk_s = (later_s - basket_s * baskets) / max(1, all_of_it.chunks - alone.chunks)
    # What the first file takes alone, all take once: threads are started and ended.
    once_s = max(0.0, all_of_it.seconds - chunk_s * all_of_it.chunks - basket_s * all_of_it.baskets)
    return Unexplained(rates.first_s + once_s, chunk_s, basket_s)


@dataclass(frozen=True)
class _More:
    """Seconds of reading some files beyond the model, with the chunks and baskets in them and the CPU time they took
    in the model.
    """

    seconds: float
    chunks: int
    baskets: int
    cpu_s: float


def _by_usual_parts(first_s: float, more: _More) -> Unexplained:
    """Shared out among chunks and baskets as they usually cost; what is much more than that comes once."""
    usual_s = CHUNK_S * more.chunks + BASKET_S * more.baskets
    seconds = max(0.0, more.seconds)
    slower = min(SLOWEST, seconds / usual_s)
    return Unexplained(first_s + seconds - slower * usual_s, slower * CHUNK_S, slower * BASKET_S)


def chunks_of(work: Work) -> int:
    """Chunks of the files that were planned."""
    return sum(one.chunks for one in work.plans)


def baskets_of(work: Work) -> int:
    """Baskets and pages of the files that were planned."""
    return sum(len(branch) for file in work.files for branch in file.extents)


def usual_saving_s(before: Work, after: Work) -> float:
    """The seconds of each worker of a job that fewer baskets save, or more of them take, as usual."""
    fewer = before.scale * baskets_of(before) - after.scale * baskets_of(after)
    return BASKET_S * fewer / max(1, after.workers)
