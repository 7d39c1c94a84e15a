"""The speed of a job's machine and storage, taken from the job's record or measured on a sample of a dataset.

`try_codec` and `try_clusters` measure the effect of another codec or of other clusters by rewriting the smallest file.
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

#: Maximum number of files in the sample of a dataset, and the time limit for reading the sample in seconds.
SAMPLE_FILES, SAMPLE_S = 8, 20.0
#: Maximum number of times that a sample is read, and the time in seconds after which no further round starts.
ROUNDS, ROUNDS_S = 5, 4.0
#: Time in seconds for which sequential calls are measured, and the size of their chunks in bytes.
CALLS_S, CALLS_STEP_BYTES = 0.5, 100_000
#: Maximum time per call in seconds, in addition to the round trip. Longer times have other causes.
CALL_S_MAX = 0.01
#: Relative spread between the times of files, used if the spread is unknown.
SPREAD_UNKNOWN = 0.1
#: Maximum size of a file that is rewritten to measure a codec or clusters. A larger file would take minutes.
TRIED_BYTES_MAX = 300_000_000
#: Number of times that the original and the rewritten file are read to measure a codec or clusters.
CODEC_ROUNDS = 3


@dataclass(frozen=True)
class Rates:
    """Rates of a machine and a storage element.

    ``decode_s_per_byte`` is the CPU time for decoding a decompressed byte, ``decompress_s_per_byte`` that for
    decompression, by codec. ``wagons_s_per_entry`` is the time of all wagons.

    ``round_trip_s`` and ``bytes_per_second`` (0 if unknown) describe the link of one worker to the storage. ``call_s``
    is the time of a call in addition to the round trip. ``open_s`` is the time for opening a file in addition to its
    calls. ``file_s`` is the calibrated total overhead of a file, 0 without a calibration.

    ``sample_s`` is the time for reading the whole sample, 0 if it was not completed, and ``sample_paths`` are its
    files. ``first_s`` is the additional time of the first read in a process. ``again_s`` is the fastest later read of
    the sample, ``alone_s`` the fastest read of only its first file; 0 if reads take too long to be repeated or there is
    only one file. ``again_cpu_s`` and ``alone_cpu_s`` are minimum CPU times, which other load hardly affects.
    ``spread`` is the standard deviation of the logarithms of the files' costs, divided by the square root of the number
    of files.
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
        """Return the decompression time of a codec in seconds per byte; None if the codec was not measured."""
        return self.decompress_s_per_byte.get(codec)


def rates_of_job(job: JobRecord) -> Rates:
    """Return the rates in a job's record."""
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
    """Measure the rates of this machine and of the storage of some files.

    Reads up to `SAMPLE_FILES` files for up to `SAMPLE_S` seconds, repeatedly if reading is fast. Raises the errors of
    reading.
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
    """Combine the rates of several rounds by their medians, which include the usual effect of other load."""

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
        # A job reads its files once, in a new process, so its time is that of the first, slower read.
        sample_s=found[0].sample_s,
        first_s=max(0.0, found[0].sample_s - statistics.median(later)) if all(later) else 0.0,
        again_s=min(later) if all(later) else 0.0,
        again_cpu_s=min(one.again_cpu_s for one in found),
        spread=median("spread"),
    )


def _call_s(file: DataFile, branches: Sequence[str] | None, access: Access) -> float:
    """Return the mean time of sequential calls in addition to the round trip."""
    one = Source(file.opens, file.tree)
    # Read only one branch: with tiny pages, a chunk with all branches takes thousands of calls.
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
    # Measured after the threads have ended, so that their CPU time is included.
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
    """Return the standard error of the mean of the costs' logarithms; `SPREAD_UNKNOWN` for fewer than three costs."""
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
    """The effect of another codec or of other clusters, as ratios of new to present values: size of the wanted baskets,
    and times to decompress and to decode a byte. Ratios cancel the effect of other load during the measurement.
    """

    codec: str
    size_factor: float
    decompress_factor: float
    decode_factor: float = 1.0


def try_codec(
    codec: str, files: Sequence[DataFile], laid: Sequence[LaidFile], branches: Sequence[str] | None
) -> OtherCodec:
    """Measure the effect of another codec: recompress the smallest file in a temporary folder, and read both files.

    Raises OptionError if all files are too large, and the errors of writing and reading.
    """
    found = _tried(files, laid, branches, "another codec", codec=codec)
    # Decoding is equal work for any codec, so differences are noise.
    return OtherCodec(codec.partition(":")[0], found.size_factor, found.decompress_factor)


def try_clusters(
    cluster_bytes: int, files: Sequence[DataFile], laid: Sequence[LaidFile], branches: Sequence[str] | None
) -> OtherCodec:
    """Measure the effect of clusters of ``cluster_bytes`` bytes with the present codec: small baskets compress less,
    and each basket has a fixed overhead. Raises the same errors as `try_codec`.
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
        raise OptionError(f"all files are too large to test {what}", hint="give a dataset that has a smaller file")
    file = by_path[least.path]
    with tempfile.TemporaryDirectory(prefix="branchline-codec-") as folder:
        path = Path(folder) / "tried.root"
        merge([file.opens], path, codec=codec, cluster_bytes=cluster_bytes, sync=False)
        tried = DataFile(str(path), file.tree)
        written = laid_file(tried, branches)
        # Read both files alternately, and use the fastest read of each, since other load only slows down.
        pairs = [(_spent(file, branches), _spent(tried, branches)) for _ in range(CODEC_ROUNDS)]
    now, then = ([min(each) for each in zip(*own, strict=True)] for own in zip(*pairs, strict=True))
    return OtherCodec(
        written.codec,
        written.wanted_bytes / max(1, least.wanted_bytes),
        *(after / max(1e-15, before) for before, after in zip(now, then, strict=True)),
    )


def _spent(file: DataFile, branches: Sequence[str] | None) -> tuple[float, float]:
    """Return the time to decompress a byte of a file with its slowest codec, and the time to decode a byte, in
    seconds.
    """
    rates = measured([file], branches, Access())
    return max(rates.decompress_s_per_byte.values(), default=0.0), rates.decode_s_per_byte
