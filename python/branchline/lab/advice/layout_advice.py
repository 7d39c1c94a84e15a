"""Advice on the layout of files, based on their metadata and on typical rates. No baskets are read.

In contrast, `branchline advise DATASET` measures the rates of this machine and storage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from branchline.base.codecs import CODECS, DEFAULT_CODEC, codec_named
from branchline.base.quantities import GB, count, counted, percent, significant, size
from branchline.reading.layout.dataset_layout import DatasetLayout
from branchline.reading.layout.file_layout import FileLayout
from branchline.records.diagnosis.advice import MANAGER, Advice, Idea, chosen, inputs_words

DECODE_S = 3e-10
#: Overhead per basket in seconds (header, key, call of the codec), measured with baskets of 500 bytes.
BASKET_S = 8e-6
#: Time in seconds for opening a file on a local disk and reading the metadata of its tree. Remote files need additional
#: round trips.
OPEN_S = 4e-3
#: Rates of a hard disk, on which data is usually stored: bytes per second, and seconds per seek.
DISK_BYTES_PER_S, TURN_S = 200e6, 8e-3
#: Relative error of a time that was computed from typical rates, for a change by a factor of e.
USUAL_ERROR = 0.4
#: Compressed size of baskets after rewriting, and size of merged files.
BASKET_BYTES, MERGED_BYTES = 64_000, GB
ZSTD_GROWTH = 1.35
#: Typical size after compression with zstd, as a fraction of the uncompressed size.
ZSTD_KEEPS = 0.6
#: Thresholds: larger baskets are proposed for baskets below the first size, merging for files below the second size,
#: and smaller clusters for clusters above the third size.
SMALL_BASKET_BYTES, SMALL_FILE_BYTES, LARGE_CLUSTER_BYTES = 8_000, 20_000_000, 300_000_000
#: Minimum fraction of the bytes that must have a slow codec for recompression to be proposed.
MUCH_OF_IT = 0.2


@dataclass(frozen=True)
class _Reading:
    """Total costs of reading files entry by entry.

    ``codecs`` maps each codec to bytes in the files, ``plain_bytes`` is their uncompressed size. ``baskets``, ``files``
    and ``turns`` are the numbers of baskets, of opened files and of disk seeks.
    """

    codecs: Mapping[str, int]
    plain_bytes: float
    baskets: float
    files: float = 1
    turns: float = 0

    def seconds(self) -> float:
        """Return the time that a reader needs at typical rates if it alternates between computing and reading from the
        disk.
        """
        stored = sum(self.codecs.values())
        factor = self.plain_bytes / max(1, stored)
        unpack_s = sum(factor * held * codec_named(name).decompress_s_per_byte for name, held in self.codecs.items())
        cpu_s = unpack_s + self.plain_bytes * DECODE_S + self.baskets * BASKET_S
        return cpu_s + stored / DISK_BYTES_PER_S + self.turns * TURN_S + self.files * OPEN_S


def advise_file(layout: FileLayout) -> list[Advice]:
    """Return advice on reading the wanted branches of a file faster; empty if no change would help."""
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
    """Return advice on reading all branches of some files faster; empty if no change would help."""
    codecs: dict[str, int] = {}
    for one in layout.files:
        # Baskets that cannot be compressed are stored uncompressed, so "none" is ignored if there are other codecs.
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
    change = f"branchline recompress {words} -o zstd.root --codec {DEFAULT_CODEC}"
    cost = f"{size(size_bytes)} are read and written, once, with CPU to compress"
    for codec in CODECS:
        name = codec.name
        held = reading.codecs.get(name, 0)
        if not codec.is_slow or not stored or held < MUCH_OF_IT * stored:
            continue
        growth = ZSTD_GROWTH if name == "lzma" else 1.0
        others = {one: size for one, size in reading.codecs.items() if one != name}
        others["zstd"] = others.get("zstd", 0) + round(held * growth)
        then = _Reading(others, reading.plain_bytes, reading.baskets, reading.files, reading.turns)
        slower = codec.decompress_s_per_byte / codec_named("zstd").decompress_s_per_byte
        what = f"{percent(held, stored)} of the bytes are compressed with {name}, which takes {significant(slower, 2)} "
        what += "times as long to decompress as zstd"
        grown = f"{cost}; the files get up to {percent(growth - 1, 1)} larger" if growth > 1 else cost
        yield Idea("codec", what, change, then.seconds(), grown, MANAGER, USUAL_ERROR)


def _cluster(layout: FileLayout, reading: _Reading) -> Iterator[Idea]:
    """Propose smaller clusters if all entries are in one cluster, since sub-jobs that share the file would then read
    baskets of their neighbours.
    """
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
