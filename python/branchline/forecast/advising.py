"""Advice: changes whose gain the model forecasts, the largest first, and nothing where nothing is to be gained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from branchline.errors import OptionError
from branchline.forecast.conditions import MERGED_BYTES, Conditions
from branchline.forecast.forecasting import Interval, WhatIf, what_if
from branchline.forecast.other_codec import OtherCodec, try_codec
from branchline.forecast.subject import Subject
from branchline.quantities import count, counted, percent, size

#: A smaller part of the time is not worth a sentence.
GAIN_MIN = 0.03
#: Pieces of advice at most: more are not followed.
PIECES_MAX = 5
#: Files below this size are tried merged. The model decides whether it pays.
SMALL_FILE_BYTES = 50_000_000
#: Baskets below this median are tried larger, and so large.
SMALL_BASKET_BYTES, LARGER_BASKET_BYTES = 8_000, 64_000
#: Codecs that are tried against zstd: those that take longer to decompress.
SLOW_CODECS = ("lzma", "zlib", "old CS")
#: A codec is only tried, on one file, where decompression is this part of the CPU time of reading.
DECOMPRESSION_SHARE = 0.2
#: From this round trip on files are far away.
FAR_S = 1e-3
ZSTD = "zstd:5"

#: For whom advice is.
ANALYST, MANAGER = "analyst", "data manager"


@dataclass(frozen=True)
class Advice:
    """A piece of advice: ``id`` never changes its meaning. ``what`` is how it is, with its numbers; ``change`` is the
    command or option; ``gain`` the part of the time that is saved, with its interval; ``cost`` what it costs, and
    ``whom`` it is for.
    """

    id: str
    what: str
    change: str
    gain: Interval
    cost: str
    whom: str
    forecast: WhatIf


@dataclass(frozen=True)
class _Idea:
    """Something that may help."""

    id: str
    conditions: Conditions
    what: str
    change: str
    cost: str
    whom: str
    other: OtherCodec | None = None


def advise(subject: Subject) -> list[Advice]:
    """At most `PIECES_MAX` pieces of advice, the largest gain first. An idea whose gain is below `GAIN_MIN`, or whose
    interval reaches 0, is none. Files are tried with another codec where decompression takes much.
    """
    found: list[Advice] = []
    for idea in _ideas(subject):
        forecast = what_if(subject, idea.conditions, idea.other)
        if forecast.gain.value >= GAIN_MIN and forecast.gain.low > 0:
            found.append(Advice(idea.id, idea.what, idea.change, forecast.gain, idea.cost, idea.whom, forecast))
    found.sort(key=lambda one: -one.gain.value)
    return _without_doubles(found)[:PIECES_MAX]


def _without_doubles(found: Sequence[Advice]) -> list[Advice]:
    """The best of each kind: two access modes at once are impossible."""
    kept: list[Advice] = []
    for one in found:
        if not any(one.id.partition("-")[0] == other.id.partition("-")[0] for other in kept):
            kept.append(one)
    return kept


def _ideas(subject: Subject) -> Iterator[_Idea]:
    yield from _access(subject)
    yield from _workers(subject)
    yield from _small_files(subject)
    yield from _baskets(subject)
    yield from _codec(subject)


def _access(subject: Subject) -> Iterator[_Idea]:
    mode = subject.access.mode
    for other in ("planned", "prefetch"):
        if mode != other and (mode in ("plain", "cache") or subject.rates.round_trip_s > FAR_S):
            what = f"files are read with --access {mode} over a round trip of {subject.rates.round_trip_s * 1e3:.2g} ms"
            cost = "nothing" if other == "planned" else "memory for whole files"
            yield _Idea(f"access-{other}", Conditions(mode=other), what, f"--access {other}", cost, ANALYST)


def _workers(subject: Subject) -> Iterator[_Idea]:
    job = subject.job
    wanted = min(subject.cores, len(subject.files))
    if job is None or wanted <= subject.workers:
        return
    others_cores = ((job.machine_cpu_s or 0.0) - job.cpu_s) / max(1e-9, job.wall_s)
    # Half a core of other programs is nothing.
    if round(subject.cores - max(0.0, others_cores)) < wanted:
        return
    what = f"{counted(subject.workers, 'worker')} on {count(subject.cores)} cores"
    yield _Idea("workers", Conditions(cores=wanted), what, f"--workers {wanted}", f"{wanted} cores", ANALYST)


def _small_files(subject: Subject) -> Iterator[_Idea]:
    mean = float(np.mean([one.size_bytes for one in subject.laid]))
    if len(subject.files) < 2 or mean >= SMALL_FILE_BYTES:
        return
    into = max(1, round(mean * len(subject.files) / MERGED_BYTES))
    what = f"{counted(len(subject.files), 'file')} of {size(mean)}, each opened for itself"
    change = f"branchline merge FILES... -o merged.root, into {counted(into, 'file')}"
    cost = f"{size(mean * len(subject.files))} are read and written once"
    yield _Idea("merge", Conditions(merged_bytes=MERGED_BYTES), what, change, cost, MANAGER)


def _baskets(subject: Subject) -> Iterator[_Idea]:
    sizes = np.array([row[1] for one in subject.laid for branch in one.extents for row in branch])
    if not len(sizes) or any(one.is_ntuple for one in subject.laid):
        return
    total = size(subject.scale * sum(one.size_bytes for one in subject.laid))
    cost = f"{total} are read and written once"
    median = float(np.median(sizes))
    if median < SMALL_BASKET_BYTES:
        what = f"half of the {count(len(sizes))} baskets have less than {size(median)}"
        change = "branchline merge FILE -o OUT --basket-size 256kB"
        conditions = Conditions(basket_bytes=LARGER_BASKET_BYTES)
        yield _Idea("layout-baskets", conditions, what, change, f"{cost}, with CPU to compress", MANAGER)
    back = sum(_jumps_back(branches.extents) for branches in subject.laid)
    if back:
        what = f"a reader turns back at {percent(back, len(sizes))} of the baskets"
        change = "branchline reorder FILE -o OUT --order entry"
        yield _Idea("layout-order", Conditions(by_entry=True), what, change, cost, MANAGER)


def _jumps_back(extents: list[list[tuple[int, int, int, int]]]) -> int:
    rows = sorted((row[2], number, row[0]) for number, branch in enumerate(extents) for row in branch)
    return sum(after[2] < before[2] for before, after in pairwise(rows))


def _codec(subject: Subject) -> Iterator[_Idea]:
    codec = subject.laid[0].codec
    spent = subject.rates.decompress_of(codec)
    if codec not in SLOW_CODECS or spent is None:
        return
    share = spent / max(1e-18, spent + subject.rates.decode_s_per_byte)
    if share < DECOMPRESSION_SHARE:
        return
    try:
        other = try_codec(ZSTD, subject.files, subject.laid, subject.branches)
    except OptionError:
        return
    larger = f"files {other.size_factor:.2f} times as large; CPU to compress once"
    what = f"decompressing {codec} takes {spent * 1e9:.2g} s for a GB, {percent(share, 1)} of the CPU time of reading"
    change = f"branchline recompress FILE -o OUT --codec {ZSTD}"
    yield _Idea("codec", Conditions(codec=ZSTD), what, change, larger, MANAGER, other=other)
