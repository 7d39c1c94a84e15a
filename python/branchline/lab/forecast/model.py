"""A model of the time of a job: its readers, each by the pipeline of the engine in simulated time."""

from __future__ import annotations

from dataclasses import dataclass

from branchline import _core
from branchline.lab.forecast.laid_file import LaidFile
from branchline.lab.forecast.pieces import FilePiece
from branchline.lab.forecast.pipeline import STAGE_THREADS, FileCosts, ReadingConditions, timing
from branchline.lab.forecast.planned_requests import PlannedReads, PlanRequest
from branchline.lab.forecast.rates import Rates
from branchline.reading.access import Access

#: Round trips until a connection to a server is made with a file open on it: that of TCP, and one for login and open
#: together, as XRootD servers allow it.
CONNECT_TRIPS = 2.0
#: The link that the engine expects before it has measured one (`EXPECTED_ROUND_TRIP`).
EXPECTED_ROUND_TRIP_S = 0.063


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
