"""The speed of a job's machine and storage: measured in a job, or on a sample of a dataset.

`try_codec` and `try_clusters` measure what another codec, or other clusters, would make of some files, on the smallest
of them.
"""

from __future__ import annotations

import math
import statistics
import tempfile
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from branchline import _core
from branchline.errors import OptionError
from branchline.lab.forecast.laid_file import LaidFile, laid_file, names_of
from branchline.reading.access import Access
from branchline.reading.datasets.data_file import DataFile
from branchline.reading.sources import Source
from branchline.reading.trees.stream import ChunkStream
from branchline.records.sensors.record import JobRecord
from branchline.writing.merging.merge import merge

#: The sample from which the rates of a dataset are taken: its files, and seconds of reading at most.
SAMPLE_FILES, SAMPLE_S = 8, 20.0
#: Number of readings of a sample, and seconds after which no further one begins.
ROUNDS, ROUNDS_S = 5, 4.0
#: Calls one after the other are measured for this many seconds, by chunks of this many bytes.
CALLS_S, CALLS_STEP_BYTES = 0.5, 100_000
#: A call that takes longer than this besides the round trip was held up by something else.
CALL_S_MAX = 0.01
#: Relative spread of the times of files where nothing is known of it.
SPREAD_UNKNOWN = 0.1
#: Largest file that is rewritten to measure a codec: a larger one would take minutes.
TRIED_BYTES_MAX = 300_000_000
#: Number of readings of both files when a codec or clusters are tried.
CODEC_ROUNDS = 3


@dataclass(frozen=True)
class Rates:
    """``decode_s_per_byte`` is the time of one core for a byte after decompression, without decompressing it;
    ``decompress_s_per_byte`` the same of decompression alone, by codec. ``wagons_s_per_entry`` is what wagons take.

    ``round_trip_s`` and ``bytes_per_second`` are the link of one worker to the storage; 0 bytes per second are none
    known. ``call_s`` is what a call costs besides the round trip, ``open_s`` what opening a file costs besides its
    calls; ``file_s`` is that and all else that a file makes a reader do, as it was calibrated, 0 where it was not.
    ``sample_s`` is what it took to read the sample files that the rates come from, if all of it was read, and
    ``sample_paths`` are these. ``first_s`` is what the first reading of a process takes longer than others. ``again_s``
    is the quickest later reading of the sample, ``alone_s`` that of its first file alone; 0 where it took too long to
    be read again, or has no other file. ``again_cpu_s`` and ``alone_cpu_s`` are the least CPU time of these, which
    other programs hardly change. ``spread`` is the standard deviation of the logarithm of what files take, divided by
    the root of their number.
    """

    decode_s_per_byte: float
    decompress_s_per_byte: dict[str, float] = field(default_factory=dict)
    wagons_s_per_entry: float = 0.0
    round_trip_s: float = 0.0
    bytes_per_second: float = 0.0
    spread: float = SPREAD_UNKNOWN
    call_s: float = 0.0
    open_s: float = 0.0
    file_s: float = 0.0
    sample_s: float = 0.0
    first_s: float = 0.0
    again_s: float = 0.0
    alone_s: float = 0.0
    again_cpu_s: float = 0.0
    alone_cpu_s: float = 0.0
    sample_paths: tuple[str, ...] = ()

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
        open_s=_mean(one.open_s for one in job.files if one.open_s is not None),
    )


def measured(files: Sequence[DataFile], branches: Sequence[str] | None, access: Access) -> Rates:
    """The rates of this machine and the storage of some files: reads up to `SAMPLE_FILES` of them for up to
    `SAMPLE_S` seconds, several times while that is short. Raises what reading raises.
    """
    step = max(1, len(files) // SAMPLE_FILES)
    chosen = files[::step][:SAMPLE_FILES]
    begin_s = time.monotonic()
    found: list[Rates] = []
    while len(found) < ROUNDS and (not found or time.monotonic() - begin_s < ROUNDS_S):
        found.append(_measured_once(chosen, branches, access))
    rates = replace(_medians(found), call_s=_call_s(chosen[0], branches, access))
    if len(chosen) == 1 or not 0 < rates.again_s * ROUNDS < ROUNDS_S:
        return rates
    alone = [_measured_once(chosen[:1], branches, access) for _ in range(ROUNDS)]
    return replace(rates, alone_s=min(one.sample_s for one in alone), alone_cpu_s=min(one.again_cpu_s for one in alone))


def _medians(found: Sequence[Rates]) -> Rates:
    """Of each rate the median: a machine that does other things is to be forecast as it is."""

    def median(name: str) -> float:
        values: list[float] = [getattr(one, name) for one in found]
        return statistics.median(values)

    later = [one.sample_s for one in found[1:]] or [0.0]
    return replace(
        found[0],
        decode_s_per_byte=median("decode_s_per_byte"),
        decompress_s_per_byte={
            codec: statistics.median(one.decompress_s_per_byte[codec] for one in found)
            for codec in found[0].decompress_s_per_byte
        },
        round_trip_s=min(one.round_trip_s for one in found),
        bytes_per_second=median("bytes_per_second"),
        open_s=median("open_s"),
        # A job reads its files once, in a new process: the first time takes longer.
        sample_s=found[0].sample_s,
        first_s=max(0.0, found[0].sample_s - statistics.median(later)) if all(later) else 0.0,
        again_s=min(later) if all(later) else 0.0,
        again_cpu_s=min(one.again_cpu_s for one in found),
        spread=median("spread"),
    )


def _call_s(file: DataFile, branches: Sequence[str] | None, access: Access) -> float:
    """What a call takes besides the round trip: the mean of some that come one after the other."""
    one = Source(file.opens, file.tree)
    # Of one branch: where pages are tiny, a chunk of all of them takes thousands of calls.
    names = list(branches or names_of(file))[:1]
    with ChunkStream([one], names, access=replace(access, mode="plain"), step_size=CALLS_STEP_BYTES) as stream:
        begin_s = time.monotonic()
        for chunk in stream:
            del chunk
            if time.monotonic() - begin_s > CALLS_S:
                break
        records = stream.records().files
    calls, fetch_s = sum(one.read_calls for one in records), sum(one.fetch_s for one in records)
    stores = {one.store for one in records}
    link = next((one for one in _core.links_chosen(access) if one.name in stores), None)
    if link is None or not calls:
        return 0.0
    moved_s = sum(one.bytes_read for one in records) / link.bytes_per_second if link.bytes_per_second > 0 else 0.0
    return min(CALL_S_MAX, max(0.0, (fetch_s - moved_s) / calls - link.round_trip_s))


def _measured_once(chosen: Sequence[DataFile], branches: Sequence[str] | None, access: Access) -> Rates:
    sources = [Source(one.opens, one.tree) for one in chosen]
    begin_s, begin_cpu_s, is_whole = time.monotonic(), time.process_time(), True
    with ChunkStream(sources, branches, access=access, threads=1) as stream:
        for chunk in stream:
            chunk.release()
            if time.monotonic() - begin_s > SAMPLE_S:
                is_whole = False
                break
        records = stream.records()
        took_s = time.monotonic() - begin_s
    # Threads that end count what they took.
    took_cpu_s = time.process_time() - begin_cpu_s
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
        open_s=_mean(one.open_s for one in records.files),
        sample_s=took_s if is_whole else 0.0,
        again_cpu_s=took_cpu_s,
        sample_paths=tuple(one.path for one in chosen) if is_whole else (),
    )


def spread_of(costs: Iterable[float]) -> float:
    """The standard error of the mean of the logarithms of costs of files; `SPREAD_UNKNOWN` for fewer than three."""
    logs = [math.log(cost) for cost in costs if cost > 0]
    return statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 2 else SPREAD_UNKNOWN


def _mean(values: Iterable[float]) -> float:
    known = list(values)
    return statistics.fmean(known) if known else 0.0


def _speed(size_bytes: float, seconds: float) -> float:
    return size_bytes / seconds if size_bytes > 0 and seconds > 1e-6 else 0.0


# --- another codec, other clusters ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OtherCodec:
    """A codec: bytes of the wanted baskets over those of now, and the time to decompress and to decode a byte of what
    comes out over that of now. All are factors: a machine that is busy while they are measured is as busy for both.
    """

    codec: str
    size_factor: float
    decompress_factor: float
    decode_factor: float = 1.0


def try_codec(
    codec: str, files: Sequence[DataFile], laid: Sequence[LaidFile], branches: Sequence[str] | None
) -> OtherCodec:
    """Recompresses the smallest of some files in a temporary folder, and reads both.

    Raises OptionError if all are too large for that, and what writing and reading raise.
    """
    found = _tried(files, laid, branches, "another codec", codec=codec)
    # Decoding is the same work for any codec: what differs is noise.
    return OtherCodec(codec.partition(":")[0], found.size_factor, found.decompress_factor)


def try_clusters(
    cluster_bytes: int, files: Sequence[DataFile], laid: Sequence[LaidFile], branches: Sequence[str] | None
) -> OtherCodec:
    """The same for clusters of so many bytes, in the codec that is there: small baskets compress less, and each has a
    cost of its own. Raises as `try_codec` does.
    """
    return _tried(files, laid, branches, "other clusters", cluster_bytes=cluster_bytes)


def _tried(
    files: Sequence[DataFile],
    laid: Sequence[LaidFile],
    branches: Sequence[str] | None,
    what: str,
    *,
    codec: str | None = None,
    cluster_bytes: int | None = None,
) -> OtherCodec:
    by_path = {one.path: one for one in files}
    least = min(laid, key=lambda one: one.size_bytes)
    if least.size_bytes > TRIED_BYTES_MAX:
        raise OptionError(f"all files are too large to try {what} on one", hint="name a part of the dataset")
    file = by_path[least.path]
    with tempfile.TemporaryDirectory(prefix="branchline-codec-") as folder:
        path = Path(folder) / "tried.root"
        merge([file.opens], path, codec=codec, cluster_bytes=cluster_bytes, sync=False)
        tried = DataFile(str(path), file.tree)
        written = laid_file(tried, branches)
        # In turns, and the quickest of each: what else the machine does only makes it slower.
        pairs = [(_spent(file, branches), _spent(tried, branches)) for _ in range(CODEC_ROUNDS)]
    now, then = ([min(each) for each in zip(*own, strict=True)] for own in zip(*pairs, strict=True))
    return OtherCodec(
        written.codec,
        written.wanted_bytes / max(1, least.wanted_bytes),
        *(after / max(1e-15, before) for before, after in zip(now, then, strict=True)),
    )


def _spent(file: DataFile, branches: Sequence[str] | None) -> tuple[float, float]:
    """Seconds to decompress a byte of a file, over all its codecs, and to decode it."""
    rates = measured([file], branches, Access())
    return max(rates.decompress_s_per_byte.values(), default=0.0), rates.decode_s_per_byte
