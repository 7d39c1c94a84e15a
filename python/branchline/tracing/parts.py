"""The parts of requests: which branch and basket, or which other piece of its file, each byte of a request hit."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from branchline.tracing.file_map import FileMap
from branchline.tracing.trace import FILE, PART, REQUEST, Codes, Group, Numbers, Trace, codes, numbers

#: Parts of a request beyond the mapped end of a file, or at an unknown offset.
UNKNOWN = "unknown"


def with_parts(trace: Trace, maps: Iterable[FileMap], ranges: Numbers | None = None) -> Trace:
    """The same trace with a row for each piece of a file that a request hit, and a row for each file.

    ``ranges`` has the ranges of requests for several of them: a row of request, offset and length for each.
    The parts of a request have as many bytes as it got. Calls that mapped a file into memory read nothing themselves
    and have no parts.
    """
    requests = trace.rows_of(REQUEST)
    file_codes, paths = codes(requests, "file")
    offset, got = numbers(requests, "offset"), numbers(requests, "got_bytes", 0)
    number = numbers(requests, "request")
    groups: list[Group] = []
    for one in maps:
        if one.path not in paths:
            continue
        groups.append(Group(kind=FILE, file=[one.path], size_bytes=[one.size_bytes]))
        rows = np.nonzero((file_codes == paths.index(one.path)) & (got > 0))[0]
        pieces = np.stack([number[rows], offset[rows], got[rows]])
        if ranges is not None and len(ranges):
            several = ranges[np.isin(ranges[:, 0], number[rows])]
            pieces = np.concatenate([pieces[:, ~np.isin(pieces[0], several[:, 0])], several.T], axis=1)
            pieces = pieces[:, np.argsort(pieces[0], kind="stable")]
        groups += _parts(one, *pieces)
    return trace.with_rows(*groups) if groups else trace


def _parts(one: FileMap, number: Numbers, offset: Numbers, got: Numbers) -> list[Group]:
    """The parts of some requests of one file."""
    groups = []
    known = offset >= 0
    if not known.all():
        lost = number[~known]
        groups.append(
            Group(
                kind=PART,
                request=lost,
                file=_same(one.path, len(lost)),
                what=_same(UNKNOWN, len(lost)),
                size_bytes=got[~known],
            )
        )
    number, offset, got = number[known], offset[known], got[known]
    which, piece = overlaps(one, offset, got)
    begin = np.maximum(offset[which], one.offset[piece])
    stop = np.minimum((offset + got)[which], (one.offset + one.size)[piece])
    groups.append(
        Group(
            kind=PART,
            request=number[which],
            file=_same(one.path, len(which)),
            what=Codes(one.what[piece], one.whats),
            tree=Codes(one.tree[piece], one.names),
            branch=Codes(one.branch[piece], one.names),
            basket=one.basket[piece],
            entry_start=one.entry_start[piece],
            entry_stop=one.entry_stop[piece],
            offset=begin,
            size_bytes=stop - begin,
            extent_bytes=one.size[piece],
        )
    )
    behind = np.maximum(offset + got - np.maximum(offset, one.size_bytes), 0)
    late = behind > 0
    if late.any():
        count = int(late.sum())
        groups.append(
            Group(
                kind=PART,
                request=number[late],
                file=_same(one.path, count),
                what=_same(UNKNOWN, count),
                offset=np.maximum(offset, one.size_bytes)[late],
                size_bytes=behind[late],
            )
        )
    return groups


def overlaps(one: FileMap, offset: Numbers, size: Numbers) -> tuple[Numbers, Numbers]:
    """Pairs of a range and a piece of the file that it touches, by their numbers."""
    low = np.searchsorted(one.offset + one.size, offset, side="right")
    high = np.searchsorted(one.offset, offset + size, side="left")
    counts = np.maximum(high - low, 0)
    which = np.repeat(np.arange(len(offset)), counts)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    return which, np.repeat(low, counts) + np.arange(int(counts.sum())) - before


def _same(text: str, count: int) -> Codes:
    return Codes(np.zeros(count, "i8"), [text])


def files_read(trace: Trace) -> list[str]:
    """The files of requests, in the order of their first requests."""
    column = trace.rows_of(REQUEST)["file"]
    return [path for path in pc.unique(column.cast(pa.string())).to_pylist() if path is not None]
