"""File layouts after a change: merged, reordered, or with other baskets, clusters or codecs.

No files are read or written: the changes apply to the baskets of a `LaidFile`, which are moved, joined or split.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from branchline import _core
from branchline.base.quantities import MIB
from branchline.lab.forecast.laid_file import Basket, LaidFile
from branchline.lab.limits import REMOTE_GAP_BYTES

#: Compressed size of the metadata of a basket in the record of its tree: position, size and first entry.
BASKET_RECORD_BYTES = 8
#: Maximum size of a basket or page after a rewrite, before compression.
BASKET_BYTES_MAX = MIB
#: Fraction of the record of a tree that does not depend on its number of baskets.
RECORD_KEPT = 0.02


def merged(files: Sequence[LaidFile], file_bytes: int) -> list[LaidFile]:
    """Return the files merged into files of at most ``file_bytes`` bytes. Baskets are copied unchanged."""
    groups: list[list[LaidFile]] = []
    for file in files:
        if groups and sum(one.size_bytes for one in groups[-1]) + file.size_bytes <= file_bytes:
            groups[-1].append(file)
        else:
            groups.append([file])
    return [_one_of(group) for group in groups]


def _one_of(files: Sequence[LaidFile]) -> LaidFile:
    first = files[0]
    if len(files) == 1:
        return first
    branches: list[list[Basket]] = [[] for _ in first.extents]
    borders: list[int] = []
    offset_base = entry_base = 0
    for file in files:
        borders += [border + entry_base for border in file.borders]
        for branch, own in zip(branches, file.extents, strict=True):
            branch += [(at + offset_base, size, start + entry_base, stop + entry_base) for at, size, start, stop in own]
        offset_base += max(0, file.size_bytes - file.metadata_bytes)
        entry_base += file.entries
    baskets = sum(len(branch) for branch in branches)
    stored = sum(file.stored_per_entry * file.entries for file in files)
    plain = sum(file.plain_bytes for file in files)
    metadata = first.metadata_bytes + BASKET_RECORD_BYTES * baskets
    return replace(
        first,
        path=f"{first.path} and {len(files) - 1} more",
        size_bytes=offset_base + metadata,
        metadata=[[(offset_base, metadata)]],
        entries=entry_base,
        extents=branches,
        stored_per_entry=stored / max(1, entry_base),
        plain_per_entry=plain / max(1, entry_base),
        borders=tuple(borders),
        subjobs=sum(file.subjobs for file in files),
    )


def in_order_of_entries(file: LaidFile) -> LaidFile:
    """Return the file with its wanted baskets ordered by first entry. The bytes of other branches are spread evenly
    between them.
    """
    wanted = sorted(
        (row[2], branch, number) for branch, own in enumerate(file.extents) for number, row in enumerate(own)
    )
    others = data_bytes(file) - file.wanted_bytes
    between = others // max(1, len({start for start, _, _ in wanted}))
    branches = [list(own) for own in file.extents]
    at, last = _core.HEAD_BYTES, None
    for start, branch, number in wanted:
        if last is not None and start != last:
            at += between
        last = start
        _, size, _, stop = branches[branch][number]
        branches[branch][number] = (at, size, start, stop)
        at += size
    return replace(file, extents=branches)


def in_order_of_branches(file: LaidFile) -> LaidFile:
    """Return the file with the baskets of each wanted branch contiguous. The bytes of other branches are spread evenly
    between the wanted branches.
    """
    others = data_bytes(file) - file.wanted_bytes
    between = others // max(1, len(file.extents))
    branches, at = [], _core.HEAD_BYTES
    for own in file.extents:
        placed: list[Basket] = []
        for _, size, start, stop in own:
            placed.append((at, size, start, stop))
            at += size
        branches.append(placed)
        at += between
    return replace(file, extents=branches)


def with_larger_baskets(file: LaidFile, basket_bytes: int) -> LaidFile:
    """Return the file with neighbouring baskets of each branch joined to baskets of at most ``basket_bytes`` compressed
    bytes.
    """
    branches = []
    for own in file.extents:
        joined: list[Basket] = []
        for at, size, start, stop in own:
            if joined and joined[-1][1] + size <= basket_bytes:
                before = joined[-1]
                joined[-1] = (before[0], before[1] + size, before[2], stop)
            else:
                joined.append((at, size, start, stop))
        branches.append(joined)
    return in_order_of_entries(replace(file, extents=branches, borders=borders_of(branches)))


def borders_of(branches: Sequence[Sequence[Basket]]) -> tuple[int, ...]:
    """Return the entries at which parts of a file may begin: the first entries of the baskets of its largest branch."""
    largest = max(branches, key=lambda own: sum(size for _, size, _, _ in own), default=())
    return tuple(dict.fromkeys(start for _, _, start, _ in largest))


def with_clusters_of(file: LaidFile, cluster_bytes: int) -> LaidFile:
    """Return the file with clusters of about ``cluster_bytes`` bytes. Each cluster has at least one basket per
    branch.
    """
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


def _cut(own: Sequence[Basket], starts: Sequence[int], entries: int, stored_max: int) -> list[Basket]:
    """Return the new baskets of a branch, without positions: at least one per cluster, each within the maximum size
    ``stored_max``.
    """
    stops = np.array([stop for _, _, _, stop in own], float)
    sizes = np.cumsum([size for _, size, _, _ in own])
    # Number of bytes before each entry, assuming that all entries of a basket have the same size.
    up_to = np.concatenate([[0.0], stops]), np.concatenate([[0.0], sizes])
    found: list[Basket] = []
    for start, stop in zip(starts, [*starts[1:], entries], strict=True):
        stored = float(np.diff(np.interp([start, stop], *up_to))[0])
        pieces = min(stop - start, max(1, -(-int(stored) // stored_max)))
        borders = [start + (stop - start) * number // pieces for number in range(pieces + 1)]
        held = np.interp(borders, *up_to).astype(int).tolist()
        for number in range(pieces):
            size = max(1, held[number + 1] - held[number])
            found.append((0, size, borders[number], borders[number + 1]))
    return found


def _placed(file: LaidFile, branches: list[list[Basket]], cluster_entries: int) -> tuple[list[list[Basket]], int]:
    """Return the baskets with new positions, and the end of the last basket.

    Clusters are in order. Within a cluster, baskets of a TTree are ordered by entry and pages of an RNTuple by branch.
    The bytes of unwanted branches are at the end of each cluster.
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


def with_other_sizes(file: LaidFile, factor: float, codec: str) -> LaidFile:
    """Return the file with the size of each basket multiplied by ``factor``, as if compressed with another codec."""

    def scaled(number: int) -> int:
        return int(number * factor)

    branches = [
        [(scaled(at), max(1, scaled(size)), start, stop) for at, size, start, stop in own] for own in file.extents
    ]
    data = data_bytes(file)
    shift = scaled(data) - data

    def moved(record_at: int) -> int:
        """Return the new position of a record, which remains at the same position relative to the baskets."""
        return record_at + shift * record_at // max(1, file.size_bytes)

    return replace(
        file,
        size_bytes=file.size_bytes + shift,
        metadata=[[(moved(at), size) for at, size in request] for request in file.metadata],
        extents=branches,
        unwanted_first=[(scaled(at), scaled(size)) for at, size in file.unwanted_first],
        stored_per_entry=file.stored_per_entry * factor,
        codec=codec,
    )


def at_a_server(file: LaidFile) -> LaidFile:
    """Return the file as if it were read from a server, for which a larger gap is used to coalesce ranges."""
    return replace(file, is_at_a_server=True, is_near=False, store_gap_bytes=REMOTE_GAP_BYTES)


def clusters_of(file: LaidFile) -> int:
    """Return the number of clusters, assuming that each has a basket of every branch: the smallest number of baskets of
    a branch.
    """
    return min((len(own) for own in file.extents if own), default=1)


def data_bytes(file: LaidFile) -> int:
    """Return the approximate total size of the baskets of all branches."""
    return max(file.wanted_bytes, file.size_bytes - file.metadata_bytes - _core.HEAD_BYTES)
