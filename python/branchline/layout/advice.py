"""Advice on the layout of a file: sentences with the figures that are the reason."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from branchline.layout.files import FileLayout
from branchline.quantities import count, counted, percent, significant, size

#: Below this a basket pays more for its request, its header and its call of the codec than for its bytes.
SMALL_BASKET_BYTES = 4_000
#: A reader that travels farther than this many times what it reads waits for the disk's head, or wastes readahead.
FAR_TRAVEL = 2.0
#: ... if it jumps back more often than this share of its baskets.
JUMPS_BACK_SHARE = 0.02
#: Below this a file costs more to open, over a network, than to read.
SMALL_FILE_BYTES = 20_000_000
#: Codecs that take long to decompress, and how long.
SLOW_CODECS = {"lzma": "ten times as long as zstd", "old CS": "longer than zstd"}
#: The least share of the bytes for which a codec is mentioned.
MUCH_OF_IT = 0.2


def advice(layout: FileLayout) -> list[str]:
    """Advice on a file, the most useful first; one sentence that all is well if there is none."""
    sentences = [*_small_baskets(layout), *_travel(layout), *_codecs(layout), *_clusters(layout), *_small(layout)]
    return sentences or [
        "The layout is good: baskets are large and follow each other in the order in which a reader needs them."
    ]


def _small_baskets(layout: FileLayout) -> Iterator[str]:
    extents = layout.extents
    if len(extents) < 2 or layout.is_ntuple:
        return
    small = extents.size < SMALL_BASKET_BYTES
    share = float(small.mean())
    if share > 0.5:
        median = size(float(np.median(extents.size)))
        yield (
            f"{percent(share, 1)} of the {count(len(extents))} baskets are smaller than {size(SMALL_BASKET_BYTES)} "
            f"(the median is {median}): each costs a header and a call of the codec; more entries per basket make the "
            "file smaller and faster to read."
        )


def _travel(layout: FileLayout) -> Iterator[str]:
    travel = layout.travel
    if not travel.wanted_bytes or travel.jumps_back < JUMPS_BACK_SHARE * travel.baskets:
        return
    times = travel.distance_bytes / travel.wanted_bytes
    if times > FAR_TRAVEL:
        yield (
            f"A reader of entry after entry travels {significant(times, 2)} times the {size(travel.wanted_bytes)} that "
            f"it reads and turns back {counted(travel.jumps_back, 'time')}: the baskets do not lie in the order of "
            "entries; laid down in that order they are read in one go."
        )


def _codecs(layout: FileLayout) -> Iterator[str]:
    for name, how_long in SLOW_CODECS.items():
        share = layout.codecs.get(name, 0) / max(1, layout.compressed_bytes)
        if share > MUCH_OF_IT:
            yield (
                f"{percent(share, 1)} of the bytes are compressed with {name}, which takes {how_long} to decompress; "
                "recompressed with zstd they take a little more room."
            )
    if layout.codecs.get("none", 0) > MUCH_OF_IT * max(1, layout.compressed_bytes):
        share = layout.codecs["none"] / layout.compressed_bytes
        yield f"{percent(share, 1)} of the bytes are not compressed: zstd or LZ4 would make fewer of them."


def _clusters(layout: FileLayout) -> Iterator[str]:
    clusters = layout.clusters
    if clusters.count == 1 and layout.entries > 1 and len(layout.wanted) > 1 and clusters.stored_bytes.most > 3e8:
        yield (
            f"All {count(layout.entries)} entries are one cluster of {size(clusters.stored_bytes.most)}: no part of it "
            "can be read without reaching into the baskets of another."
        )


def _small(layout: FileLayout) -> Iterator[str]:
    if layout.size_bytes < SMALL_FILE_BYTES:
        yield (
            f"The file has {size(layout.size_bytes)}: if it is one of many, opening them takes longer than reading "
            "them, over a network above all; merged to some hundred MB each they are read faster."
        )
