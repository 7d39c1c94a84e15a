"""A model of the time of a job: CPU, bytes over the link, round trips, and how far they overlap."""

from __future__ import annotations

from dataclasses import dataclass

from branchline.forecast.rates import Rates

#: How far work and transfer overlap: the exponent of the p-norm. 1 is not at all, a large one completely. The curves
#: of readers over added latency that ROOT's team published at CHEP 2019 are met best by 2.
OVERLAP = 2.0


@dataclass(frozen=True)
class Work:
    """What a job does, in all its workers: entries, bytes after decompression, bytes and requests that are read, round
    trips that a reader waits for one after the other, and the codec of the baskets.

    ``fixed_s`` is the time for starting and for writing results. ``jobs`` work at once: more than 1 is for a
    simulation of what they share, and no model of one job.
    """

    entries: int
    plain_bytes: float
    bytes_read: int
    requests: int
    trips: float
    codec: str
    workers: int = 1
    threads: int = 1
    fixed_s: float = 0.0
    jobs: int = 1


@dataclass(frozen=True)
class Costs:
    """Seconds of a job: of all cores together (``cpu_s``), and of one worker for the transfer and for round trips;
    ``wall_s`` is the whole.
    """

    cpu_s: float
    stream_s: float
    trips_s: float
    wall_s: float
    workers: int

    @property
    def cpu_efficiency(self) -> float:
        """CPU time over the wall time of all workers."""
        return min(1.0, self.cpu_s / max(1e-9, self.wall_s * self.workers))


def costs(work: Work, rates: Rates, overlap: float = OVERLAP) -> Costs:
    """The time of some work: T = (stream^p + (cpu + trips * round trip)^p)^(1/p) for each worker, plus what is fixed.

    Workers share the work evenly, and each has the link to itself. A codec that was not measured decompresses as the
    slowest that was.
    """
    decompress = rates.decompress_of(work.codec)
    if decompress is None:
        decompress = max(rates.decompress_s_per_byte.values(), default=0.0)
    reading_s = work.plain_bytes * (rates.decode_s_per_byte + decompress)
    wagons_s = work.entries * rates.wagons_s_per_entry
    workers = max(1, work.workers)
    # Threads of a worker decode side by side; its wagons run in one.
    cpu_each_s = (reading_s / max(1, work.threads) + wagons_s) / workers
    stream_s = work.bytes_read / rates.bytes_per_second / workers if rates.bytes_per_second > 0 else 0.0
    trips_s = work.trips * rates.round_trip_s / workers
    whole_s: float = (stream_s**overlap + (cpu_each_s + trips_s) ** overlap) ** (1 / overlap)
    return Costs(reading_s + wagons_s, stream_s, trips_s, work.fixed_s + whole_s, workers)
