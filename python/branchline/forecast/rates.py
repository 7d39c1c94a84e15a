"""How fast a job's machine and storage are: measured in a job, or on a sample of a dataset."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from branchline import _core
from branchline.access import Access
from branchline.dataset import DataFile
from branchline.sensors.record import JobRecord
from branchline.tree import ChunkStream, Source

#: Seconds of reading, at most, from which the rates of a dataset are taken.
SAMPLE_S = 20.0
#: Files of such a sample.
SAMPLE_FILES = 8
#: A part of the time that files may differ by where nothing is known of it.
SPREAD_UNKNOWN = 0.1


@dataclass(frozen=True)
class Rates:
    """``decode_s_per_byte`` is the time of one core for a byte after decompression, without decompressing it;
    ``decompress_s_per_byte`` the same of decompression alone, by codec. ``wagons_s_per_entry`` is what wagons take.

    ``round_trip_s`` and ``bytes_per_second`` are the link of one worker to the storage; 0 bytes per second are none
    known. ``call_s`` is what a request costs where there is no round trip. ``spread`` is the standard deviation of the
    logarithm of what files take, divided by the root of their number.
    """

    decode_s_per_byte: float
    decompress_s_per_byte: dict[str, float] = field(default_factory=dict)
    wagons_s_per_entry: float = 0.0
    round_trip_s: float = 0.0
    bytes_per_second: float = 0.0
    spread: float = SPREAD_UNKNOWN

    def decompress_of(self, codec: str) -> float | None:
        """Seconds for a byte of a codec; None where it was not measured."""
        return self.decompress_s_per_byte.get(codec)


def rates_of_job(job: JobRecord) -> Rates:
    """The rates in the record of a job."""
    totals = job.totals
    plain = max(1, totals.plain_bytes)
    link = max(job.links, key=lambda one: one.round_trip_s, default=None)
    round_trip_s, speed = (link.round_trip_s, link.bytes_per_second) if link else (0.0, 0.0)
    by_codec: dict[str, list[float]] = {}
    for branch in job.branches:
        sums = by_codec.setdefault(branch.codec, [0.0, 0.0])
        sums[0] += branch.decompress_s
        sums[1] += branch.plain_bytes
    wagons_s = sum(row.wagons + row.plan + row.merge + row.other for row in job.worker_phases)
    return Rates(
        decode_s_per_byte=totals.decode_s / plain,
        decompress_s_per_byte={codec: spent / size for codec, (spent, size) in by_codec.items() if size},
        wagons_s_per_entry=wagons_s / max(1, job.events),
        round_trip_s=round_trip_s,
        bytes_per_second=speed or _speed(totals.bytes_read, totals.fetch_s - totals.read_calls * round_trip_s),
        spread=spread_of(one.wall_s / one.plain_bytes for one in job.files if one.plain_bytes and one.wall_s),
    )


def measured(files: Sequence[DataFile], branches: Sequence[str] | None, access: Access) -> Rates:
    """The rates of this machine and the storage of some files: reads up to `SAMPLE_FILES` of them for up to
    `SAMPLE_S` seconds. Raises what reading raises.
    """
    step = max(1, len(files) // SAMPLE_FILES)
    chosen = files[::step][:SAMPLE_FILES]
    sources = [Source(one.opens, one.tree) for one in chosen]
    with ChunkStream(sources, branches, access=access) as stream:
        begin_s = _clock()
        for chunk in stream:
            del chunk
            if _clock() - begin_s > SAMPLE_S:
                break
        records = stream.records()
    plain = max(1, sum(one.plain_bytes for one in records.branches))
    by_codec: dict[str, list[float]] = {}
    for branch in records.branches:
        sums = by_codec.setdefault(branch.codec or "", [0.0, 0.0])
        sums[0] += branch.decompress_s
        sums[1] += branch.plain_bytes
    stores = {one.store for one in records.files}
    link = next((one for one in _core.links_chosen(access) if one.name in stores), None)
    read, fetch_s = sum(one.bytes_read for one in records.files), sum(one.fetch_s for one in records.files)
    round_trip_s = link.round_trip_s if link else 0.0
    calls = sum(one.read_calls for one in records.files)
    return Rates(
        decode_s_per_byte=sum(one.decode_s for one in records.branches) / plain,
        decompress_s_per_byte={codec: spent / size for codec, (spent, size) in by_codec.items() if size},
        round_trip_s=round_trip_s,
        bytes_per_second=(link.bytes_per_second if link else 0.0) or _speed(read, fetch_s - calls * round_trip_s),
        spread=spread_of(
            (one.fetch_s + one.decompress_s + one.decode_s) / one.plain_bytes
            for one in records.files
            if one.plain_bytes
        ),
    )


def spread_of(costs: Iterable[float]) -> float:
    """The standard error of the mean of the logarithms of costs of files; `SPREAD_UNKNOWN` for fewer than three."""
    logs = [math.log(cost) for cost in costs if cost > 0]
    return statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 2 else SPREAD_UNKNOWN


def _speed(size_bytes: float, seconds: float) -> float:
    return size_bytes / seconds if size_bytes > 0 and seconds > 1e-6 else 0.0


def _clock() -> float:
    import time

    return time.monotonic()
