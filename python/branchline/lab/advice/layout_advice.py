"""Advice on how files lie on disk, from their metadata alone: no basket is read, so times rest on usual rates.

`branchline advise DATASET` measures the rates of this machine and storage instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from branchline.base.quantities import count, counted, percent, significant, size
from branchline.reading.layout.dataset_layout import DatasetLayout
from branchline.reading.layout.file_layout import FileLayout
from branchline.records.diagnosis.advice import MANAGER, Advice, Idea, chosen, inputs_words

#: Seconds that a core takes for a byte after decompression, by codec: measured with columns of floats on a server of
#: 2023. Codecs of other names take as long as zlib.
DECOMPRESS_S = {"none": 0.0, "lz4": 1.3e-9, "zstd": 4.5e-9, "zlib": 6.5e-9, "old CS": 1.5e-8, "lzma": 4.0e-8}
DECODE_S = 3e-10
#: Seconds for a basket besides its bytes: its header, its key, a call of the codec. Measured with baskets of 500 bytes.
BASKET_S = 8e-6
#: Seconds to open a file on a local disk and to read the record of its tree; a server adds round trips.
OPEN_S = 4e-3
#: A rotating disk, as most storage of data has: bytes per second, and the time to turn to another place.
DISK_BYTES_PER_S, TURN_S = 200e6, 8e-3
#: The error of a time by usual rates, as a part, for a change by a factor of e.
USUAL_ERROR = 0.4
#: Size of baskets after writing them anew, of merged files, and the largest growth of a file from lzma to zstd.
BASKET_BYTES, MERGED_BYTES = 64_000, 1e9
ZSTD_GROWTH = 1.35
#: Of a file that is not compressed this part is left by zstd, usually.
ZSTD_KEEPS = 0.6
#: Baskets below this are tried larger, files below this merged, a cluster above this cut.
SMALL_BASKET_BYTES, SMALL_FILE_BYTES, LARGE_CLUSTER_BYTES = 8_000, 20_000_000, 300_000_000
#: A part of the bytes that is worth a sentence.
MUCH_OF_IT = 0.2
SLOW_CODECS = ("lzma", "old CS", "zlib")


@dataclass(frozen=True)
class _Reading:
    """What reading some files entry after entry takes, in all: bytes in the file by codec, those after decompression,
    baskets, files that are opened, turns of the disk.
    """

    codecs: Mapping[str, int]
    plain_bytes: float
    baskets: float
    files: float = 1
    turns: float = 0

    def seconds(self) -> float:
        """By the usual rates: a core and a disk take turns where a reader has no plan."""
        stored = sum(self.codecs.values())
        factor = self.plain_bytes / max(1, stored)
        unpack_s = sum(
            factor * held * DECOMPRESS_S.get(name, DECOMPRESS_S["zlib"]) for name, held in self.codecs.items()
        )
        cpu_s = unpack_s + self.plain_bytes * DECODE_S + self.baskets * BASKET_S
        return cpu_s + stored / DISK_BYTES_PER_S + self.turns * TURN_S + self.files * OPEN_S


def advise_file(layout: FileLayout) -> list[Advice]:
    """What would make reading the wanted branches of a file faster; empty where nothing would."""
    wanted = set(layout.wanted)
    rows = [one for one in layout.branches if one.path in wanted]
    codecs: dict[str, int] = {}
    for row in rows:
        codecs[row.codec] = codecs.get(row.codec, 0) + row.compressed_bytes
    reading = _Reading(
        codecs,
        sum(one.plain_bytes for one in rows),
        len(layout.extents),
        turns=0 if layout.is_ntuple else layout.travel.jumps_back,
    )
    ideas = [*_baskets(layout, reading), *_order(layout, reading), *_codecs(reading, layout.path, layout.size_bytes)]
    return chosen([*ideas, *_cluster(layout, reading)], reading.seconds())


def advise_dataset(layout: DatasetLayout) -> list[Advice]:
    """What would make reading all of some files faster; empty where nothing would."""
    codecs: dict[str, int] = {}
    for one in layout.files:
        # A basket that compression does not make smaller is stored as it is.
        named = [name for name in one.codecs if name != "none"] or list(one.codecs) or ["none"]
        codecs[named[0]] = codecs.get(named[0], 0) + one.compressed_bytes
    files = len(layout.files)
    reading = _Reading(codecs, sum(one.plain_bytes for one in layout.files), 0, files)
    paths = [one.path for one in layout.files]
    ideas = list(_codecs(reading, inputs_words(paths), layout.size_bytes, is_words=True))
    small = layout.small
    if len(small) > 1 and 2 * len(small) > files:
        into = max(1, round(layout.size_bytes / MERGED_BYTES))
        what = (
            f"{percent(len(small), files)} of the {counted(files, 'file')} are smaller than {size(SMALL_FILE_BYTES)}: "
        )
        what += "each is opened for itself"
        change = f"branchline merge {inputs_words(paths)} -o merged.root --max-size '1 GB' --verify"
        cost = f"{size(layout.size_bytes)} are read and written, once; then there is {counted(into, 'file')}"
        then_s = _Reading(codecs, reading.plain_bytes, 0, into).seconds()
        ideas.append(Idea("merge", what, change, then_s, cost, MANAGER, USUAL_ERROR))
    return chosen(ideas, reading.seconds())


def _baskets(layout: FileLayout, reading: _Reading) -> Iterator[Idea]:
    extents = layout.extents
    if len(extents) < 2 or layout.is_ntuple:
        return
    median = float(np.median(extents.size))
    if median >= SMALL_BASKET_BYTES:
        return
    share = float((extents.size < SMALL_BASKET_BYTES).mean())
    what = f"{percent(share, 1)} of the {count(len(extents))} baskets are smaller than {size(SMALL_BASKET_BYTES)} "
    what += f"(the median is {size(median)}): each costs a header and a call of the codec"
    change = f"branchline merge {inputs_words([layout.path])} -o larger.root --basket-size '256 kB' --verify"
    fewer = max(len(layout.wanted), sum(reading.codecs.values()) / BASKET_BYTES)
    then = _Reading(reading.codecs, reading.plain_bytes, min(reading.baskets, fewer))
    cost = f"{size(layout.size_bytes)} are read and written, once, with CPU to compress"
    yield Idea("layout-baskets", what, change, then.seconds(), cost, MANAGER, USUAL_ERROR)


def _order(layout: FileLayout, reading: _Reading) -> Iterator[Idea]:
    travel = layout.travel
    if not travel.jumps_back or not travel.wanted_bytes or layout.is_ntuple:
        return
    times = travel.distance_bytes / travel.wanted_bytes
    what = (
        f"a reader of entry after entry travels {significant(times, 2)} times the {size(travel.wanted_bytes)} that it "
    )
    what += f"reads and turns back {counted(travel.jumps_back, 'time')}"
    then = _Reading(reading.codecs, reading.plain_bytes, reading.baskets)
    change = f"branchline reorder {inputs_words([layout.path])} -o ordered.root --verify"
    cost = f"{size(layout.size_bytes)} are copied, once"
    yield Idea("layout-order", what, change, then.seconds(), cost, MANAGER, USUAL_ERROR)


def _codecs(reading: _Reading, inputs: str, size_bytes: int, *, is_words: bool = False) -> Iterator[Idea]:
    stored = sum(reading.codecs.values())
    words = inputs if is_words else inputs_words([inputs])
    change = f"branchline recompress {words} -o zstd.root --codec zstd:5"
    cost = f"{size(size_bytes)} are read and written, once, with CPU to compress"
    for name in SLOW_CODECS:
        held = reading.codecs.get(name, 0)
        if not stored or held < MUCH_OF_IT * stored:
            continue
        growth = ZSTD_GROWTH if name == "lzma" else 1.0
        others = {one: size for one, size in reading.codecs.items() if one != name}
        others["zstd"] = others.get("zstd", 0) + round(held * growth)
        then = _Reading(others, reading.plain_bytes, reading.baskets, reading.files, reading.turns)
        slower = DECOMPRESS_S[name] / DECOMPRESS_S["zstd"]
        what = f"{percent(held, stored)} of the bytes are compressed with {name}, which takes {significant(slower, 2)} "
        what += "times as long to decompress as zstd"
        grown = f"{cost}; the files get up to {percent(growth - 1, 1)} larger" if growth > 1 else cost
        yield Idea("codec", what, change, then.seconds(), grown, MANAGER, USUAL_ERROR)


def _cluster(layout: FileLayout, reading: _Reading) -> Iterator[Idea]:
    """One cluster for all entries: sub-jobs that share a file read the baskets of others."""
    clusters = layout.clusters
    if clusters.count != 1 or len(layout.wanted) < 2 or clusters.stored_bytes.most <= LARGE_CLUSTER_BYTES:
        return
    what = f"all {count(layout.entries)} entries are one cluster of {size(clusters.stored_bytes.most)}: two sub-jobs "
    what += "that share the file both read the baskets at their border"
    change = f"branchline merge {inputs_words([layout.path])} -o clusters.root --cluster-bytes '30 MB' --verify"
    cost = f"{size(layout.size_bytes)} are read and written, once, with CPU to compress"
    now_s = reading.seconds()
    border = max((one.bytes_per_basket.most for one in layout.branches), default=0) * len(layout.wanted)
    then_s = now_s * (1 - min(0.5, border / max(1, layout.compressed_bytes)))
    yield Idea("layout-clusters", what, change, then_s, cost, MANAGER, USUAL_ERROR)
