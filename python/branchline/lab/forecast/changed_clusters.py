"""Files as they would lie with clusters of another size: pages and baskets are cut anew. Nothing is read or written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from branchline import _core
from branchline.lab.forecast.changed_layout import BASKET_RECORD_BYTES
from branchline.lab.forecast.laid_file import Basket, LaidFile

#: The largest basket or page that a rewrite makes, before compression.
BASKET_BYTES_MAX = 1 << 20
#: A record of a tree keeps at least this part of its bytes, however few baskets it lists.
RECORD_KEPT = 0.02

_Bordered = list[tuple[int, int, int, int]]


def clusters_of(file: LaidFile) -> int:
    """How many clusters there are at most: each has a basket of every branch."""
    return min((len(own) for own in file.extents if own), default=1)


def data_bytes(file: LaidFile) -> int:
    """Bytes of the baskets of all branches, about."""
    return max(file.wanted_bytes, file.size_bytes - file.metadata_bytes - _core.HEAD_BYTES)


def with_clusters_of(file: LaidFile, cluster_bytes: int) -> LaidFile:
    """The file with clusters of about so many bytes of all branches, each with a basket of every branch or more."""
    if not file.entries or not any(file.extents):
        return file
    entries = max(1, round(cluster_bytes * file.entries / max(1, data_bytes(file))))
    stored_max = max(1, int(BASKET_BYTES_MAX * file.stored_per_entry / max(1e-9, file.plain_per_entry)))
    starts = list(range(0, file.entries, entries))
    new = [_cut(own, starts, file.entries, stored_max) for own in file.extents]
    before, after = (sum(len(own) for own in branches) for branches in (file.extents, new))
    placed, end = _placed(file, new, entries)
    record = file.metadata_bytes - BASKET_RECORD_BYTES * (before - after)
    metadata = max(int(RECORD_KEPT * file.metadata_bytes), record)
    layout = replace(file, size_bytes=end + metadata, metadata=[[(end, metadata)]], extents=placed)
    return replace(layout, borders=tuple(starts))


def _cut(own: Sequence[Basket], starts: Sequence[int], entries: int, stored_max: int) -> _Bordered:
    """A branch in new baskets (without places): of each cluster one, or several where that is too large."""
    stops = np.array([stop for _, _, _, stop in own], float)
    sizes = np.cumsum([size for _, size, _, _ in own])
    # Bytes up to an entry: those of a basket are spread evenly over its entries.
    up_to = np.concatenate([[0.0], stops]), np.concatenate([[0.0], sizes])
    found: _Bordered = []
    for start, stop in zip(starts, [*starts[1:], entries], strict=True):
        stored = float(np.diff(np.interp([start, stop], *up_to))[0])
        pieces = min(stop - start, max(1, -(-int(stored) // stored_max)))
        borders = [start + (stop - start) * number // pieces for number in range(pieces + 1)]
        held = np.interp(borders, *up_to).astype(int).tolist()
        for number in range(pieces):
            size = max(1, held[number + 1] - held[number])
            found.append((0, size, borders[number], borders[number + 1]))
    return found


def _placed(file: LaidFile, branches: list[_Bordered], cluster_entries: int) -> tuple[list[list[Basket]], int]:
    """The baskets cluster by cluster: those of a TTree by their entries, the pages of an RNTuple branch after branch,
    and those of branches that are not wanted behind them. And where they end.
    """
    rows = sorted(
        (start // cluster_entries, branch if file.is_ntuple else start, branch, number)
        for branch, own in enumerate(branches)
        for number, (_, _, start, _) in enumerate(own)
    )
    others = data_bytes(file) - file.wanted_bytes
    clusters = -(-file.entries // cluster_entries)
    placed: list[list[Basket]] = [[] for _ in branches]
    at, last = _core.HEAD_BYTES, 0
    for cluster, _, branch, number in rows:
        at += others // clusters * (cluster - last)
        last = cluster
        _, size, start, stop = branches[branch][number]
        placed[branch].append((at, size, start, stop))
        at += size
    return placed, at + others // clusters
