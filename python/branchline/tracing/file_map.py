"""Maps ROOT files: header, directories, tree records, every basket and page, and free space.

`with_parts` applies these maps to the requests of a trace. For each byte of a request, it finds the branch and basket,
or the kind of piece if the byte is outside baskets.
"""

from __future__ import annotations

import bisect
import mmap
import re
import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from branchline.errors import BranchlineError
from branchline.reading.layout.file_layout import extents_of
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree
from branchline.tracing.trace import FILE, PART, REQUEST, Codes, Numbers, RowGroup, Trace, codes, numbers

#: Kinds of pieces that a file map distinguishes.
HEADER, DIRECTORY, KEYS, STREAMER_INFOS, FREE_LIST = "header", "directory", "keys", "streamer infos", "free list"
TREE, BASKET, PAGE, OBJECT, FREE, GAP = "tree", "basket", "page", "object", "free", "gap"
METADATA = "RNTuple metadata"
#: Kind of the parts of a request that are beyond the end of the map, or at an unknown offset.
UNKNOWN = "unknown"
MAGIC = b"root"
#: Size of the header that ROOT writes, in bytes.
HEADER_BYTES = 100
#: Maximum valid offset of the first record in bytes; in ROOT's own files, the offset is 100.
BEGIN_MAX = 1 << 16
#: Maximum number of records that are scanned; for a file with more, only the trees are mapped.
RECORDS_MAX = 5_000_000
#: MINIMUM: minimum size of a record in bytes. KEY_SIZE: minimum number of bytes needed to parse a key.
MINIMUM, KEY_SIZE = 18, 38
_NOT_ZERO = re.compile(rb"[^\0]")
_DIRECTORIES = frozenset({"TDirectory", "TDirectoryFile"})
_NTUPLES = frozenset({"ROOT::RNTuple", "ROOT::Experimental::RNTuple"})


@dataclass
class FileMap:
    """Pieces of a file, sorted by offset, without overlaps.

    ``tree`` and ``branch`` are indices into ``names``; -1 if the piece has none. ``what`` is an index into ``whats``,
    the kinds of pieces. If the piece is an object, ``tree`` is the index of a string with the object's name and class.
    """

    path: str
    size_bytes: int
    names: list[str] = field(default_factory=list)
    whats: list[str] = field(default_factory=list)
    offset: Numbers = field(default_factory=lambda: np.empty(0, "i8"))
    size: Numbers = field(default_factory=lambda: np.empty(0, "i8"))
    what: Numbers = field(default_factory=lambda: np.empty(0, "i8"))
    tree: Numbers = field(default_factory=lambda: np.empty(0, "i8"))
    branch: Numbers = field(default_factory=lambda: np.empty(0, "i8"))
    basket: Numbers = field(default_factory=lambda: np.empty(0, "i8"))
    entry_start: Numbers = field(default_factory=lambda: np.empty(0, "i8"))
    entry_stop: Numbers = field(default_factory=lambda: np.empty(0, "i8"))

    def __len__(self) -> int:
        return len(self.offset)

    def rows_of(self, what: str) -> Numbers:
        """Return the indices of the pieces of one kind."""
        return np.nonzero(self.what == self.whats.index(what))[0] if what in self.whats else np.empty(0, "i8")


def map_file(path: str) -> FileMap:
    """Return the map of a file, in which bytes that cannot be interpreted are gaps.

    A local file is scanned record by record; for a remote file, only the baskets and pages of its trees are mapped.
    """
    size, pieces = _of_trees(path)
    if "://" not in path:
        size = Path(path).stat().st_size
        found = list(records(Path(path), sorted(piece.offset for piece in pieces)))
        # Pieces found through a tree take precedence over the scanned records.
        special = _special(Path(path))
        by_offset = {piece.offset: piece for piece in pieces}
        starts = np.array(sorted(by_offset), "i8")
        # Paths of directories, by the offset of the directory's record.
        folders: dict[int, str] = {}
        for one in found:
            if one.class_name in _DIRECTORIES and one.offset not in folders:
                parent = folders.get(one.directory, "")
                folders[one.offset] = f"{parent}{one.name}/"
        whole = list(pieces)
        for number, record in enumerate(found):
            own = by_offset.get(record.offset)
            if own is not None and own.size == record.size:
                continue
            named = _named(record, special, folders, is_first=number == 1)
            low, high = np.searchsorted(starts, (record.offset, record.offset + record.size))
            at = record.offset
            for start in starts[low:high].tolist():
                whole.append(_cut_piece(named, at, start))
                at = max(at, start + by_offset[start].size)
            whole.append(_cut_piece(named, at, record.offset + record.size))
        pieces = [piece for piece in whole if piece.size > 0]
    elif pieces:
        pieces.append(_Piece(0, HEADER_BYTES, HEADER))
    return _assembled(path, size, pieces)


def _of_trees(path: str) -> tuple[int, list[_Piece]]:
    """Return the file size and the baskets and pages of all trees; (0, []) if the file cannot be opened."""
    try:
        file = File(path)
    except BranchlineError:
        return 0, []
    return file.size_bytes, [piece for name in file.trees() for piece in _of_tree(file, name)]


def _of_tree(file: File, name: str) -> list[_Piece]:
    """Return the baskets or pages of a tree; empty if the tree cannot be read."""
    try:
        tree: Tree = file.tree(name)
        found = extents_of(tree)
    except BranchlineError:
        return []
    what = PAGE if tree.outline.nests else BASKET
    seen: dict[int, int] = {}
    pieces = []
    extents, paths = found.extents, found.paths
    columns = (extents.branch, extents.offset, extents.size, extents.entry_start, extents.entry_stop)
    for branch, offset, size, start, stop in zip(*(column.tolist() for column in columns), strict=True):
        number = seen[branch] = seen.get(branch, -1) + 1
        pieces.append(_Piece(offset, size, what, tree.path, paths[branch], number, start, stop))
    return pieces


def _special(path: Path) -> dict[int, str]:
    """Return the offsets of the free list and the streamer infos from the file header, with their kinds."""
    with path.open("rb") as file:
        head = file.read(64)
    if len(head) < 61:
        return {}
    is_big = struct.unpack_from(">i", head, 4)[0] >= 1_000_000
    free, infos = struct.unpack_from(">q", head, 20)[0], struct.unpack_from(">q", head, 45)[0]
    if not is_big:
        free, infos = struct.unpack_from(">i", head, 16)[0], struct.unpack_from(">i", head, 37)[0]
    return {free: FREE_LIST, infos: STREAMER_INFOS}


def _cut_piece(piece: _Piece, start: int, stop: int) -> _Piece:
    return _Piece(start, stop - start, piece.what, piece.tree, piece.branch)


def _named(record: KeyRecord, special: dict[int, str], folders: dict[int, str], *, is_first: bool) -> _Piece:
    """Return the piece for a record that is not a basket of a known tree."""
    at, size = record.offset, record.size
    path = folders.get(record.directory, "") + record.name
    if at == 0:
        return _Piece(at, size, HEADER)
    if not record.class_name and not record.name:
        return _Piece(at, size, FREE)
    if at in special:
        return _Piece(at, size, special[at])
    if is_first:
        return _Piece(at, size, DIRECTORY)
    if record.class_name == "TBasket":
        # The basket belongs to an older version of a tree, or to a branch whose baskets are unknown.
        return _Piece(at, size, BASKET, record.title, record.name)
    if record.class_name == "TFile":
        return _Piece(at, size, KEYS)
    if record.class_name in _DIRECTORIES:
        return _Piece(at, size, DIRECTORY, folders.get(at, path).rstrip("/"))
    if record.class_name == "RBlob":
        return _Piece(at, size, METADATA)
    if record.class_name in _NTUPLES or record.class_name in ("TTree", "TNtuple", "TNtupleD", "TChain"):
        return _Piece(at, size, TREE, path)
    return _Piece(at, size, OBJECT, f"{path} ({record.class_name})")


def map_of(path: str, size: int, baskets: Sequence[TracedBasket]) -> FileMap:
    """Return a map of the header and of ``baskets`` without opening the file; all other bytes are gaps."""
    pieces = [
        _Piece(one.offset, one.size, one.what, one.tree, one.branch, one.basket, one.entry_start, one.entry_stop)
        for one in {one.offset: one for one in baskets}.values()
    ]
    return _assembled(path, size, [_Piece(0, min(HEADER_BYTES, size), HEADER), *pieces])


@dataclass(frozen=True)
class TracedBasket:
    """A basket or page whose position is known from a trace."""

    tree: str
    branch: str
    basket: int
    entry_start: int
    entry_stop: int
    offset: int
    size: int
    what: str = BASKET


def is_root_file(path: str) -> bool:
    """Return whether a local file starts with a valid ROOT header."""
    try:
        with Path(path).open("rb") as file:
            head = file.read(12)
    except OSError:
        return False
    # A text file may also start with the letters "root", for example a list of users.
    begin = struct.unpack(">i", head[8:])[0] if len(head) == 12 else 0
    return head[:4] == MAGIC and head[4] == 0 and 0 < begin <= BEGIN_MAX


@dataclass(frozen=True)
class _Piece:
    offset: int
    size: int
    what: str
    tree: str = ""
    branch: str = ""
    basket: int = -1
    entry_start: int = -1
    entry_stop: int = -1


def _assembled(path: str, size: int, pieces: list[_Piece]) -> FileMap:
    """Sort the pieces by offset and fill the gaps. Drop pieces that overlap an earlier piece or exceed the file."""
    laid: list[_Piece] = []
    at = 0
    for piece in sorted(pieces, key=lambda piece: piece.offset):
        if piece.offset < at or piece.size <= 0 or piece.offset + piece.size > size:
            continue
        if piece.offset > at:
            laid.append(_Piece(at, piece.offset - at, GAP))
        laid.append(piece)
        at = piece.offset + piece.size
    if at < size:
        laid.append(_Piece(at, size - at, GAP))
    names: dict[str, int] = {}
    whats: dict[str, int] = {}

    def number(text: str) -> int:
        return names.setdefault(text, len(names)) if text else -1

    rows = [
        (one.offset, one.size, whats.setdefault(one.what, len(whats)), number(one.tree), number(one.branch), one.basket,
         one.entry_start, one.entry_stop)
        for one in laid
    ]  # fmt: skip
    columns = np.array(rows, "i8").reshape(-1, 8).T
    return FileMap(path, size, list(names), list(whats), *columns)


# --- records ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class KeyRecord:
    """A record of a file as described by its key. ROOT's TFile::Map prints the same fields."""

    offset: int
    size: int
    class_name: str
    name: str
    title: str
    directory: int


def records(path: Path, marks: Sequence[int] = ()) -> Iterator[KeyRecord]:
    """Yield the records of a local file in order of offset; free space is a record without a class.

    Some writers leave zeros between records: the scan then continues at the next record after the zeros. After any
    other invalid record, the scan continues at the next of ``marks``, the sorted offsets of known records.
    """
    with path.open("rb") as file:
        try:
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except ValueError:
            return
        with content:
            yield from _records(content, marks)


def _records(content: mmap.mmap, marks: Sequence[int]) -> Iterator[KeyRecord]:
    begin = struct.unpack_from(">i", content, 8)[0] if len(content) > MINIMUM and content[:4] == MAGIC else 0
    if not 0 < begin <= BEGIN_MAX:
        return
    yield KeyRecord(0, begin, HEADER, "", "", -1)
    at, count = begin, 0
    while at <= len(content) - MINIMUM and count < RECORDS_MAX:
        count += 1
        size = struct.unpack_from(">i", content, at)[0]
        if size < 0:
            yield KeyRecord(at, -size, "", "", "", -1)
            at -= size
            continue
        record = _record(content, at, size) if MINIMUM <= size <= len(content) - at else None
        if record is not None:
            yield record
            at += size
            continue
        behind = _behind_zeros(content, at) if size == 0 else None
        if behind is None:
            number = bisect.bisect_right(marks, at)
            behind = marks[number] if number < len(marks) else None
        if behind is None:
            return
        at = behind


def _behind_zeros(content: mmap.mmap, at: int) -> int | None:
    """Return the offset of the next record after zeros, or None.

    The last zeros may already belong to the record, since the leading bytes of its size may be zero.
    """
    found = _NOT_ZERO.search(content, at)
    if found is None:
        return None
    for start in range(max(found.start() - 3, at), found.start() + 1):
        version = struct.unpack_from(">h", content, start + 4)[0] if start + 34 <= len(content) else 0
        if version > 0:
            own = struct.unpack_from(*((">q", content, start + 18) if version > 1000 else (">i", content, start + 18)))
            if own[0] == start:
                return start
    return None


def _record(content: mmap.mmap, at: int, size: int) -> KeyRecord | None:
    """Return the record at offset ``at``; None if its key is longer than the record."""
    if at + KEY_SIZE > len(content):
        return None
    version = struct.unpack_from(">h", content, at + 4)[0]
    is_big = version > 1000
    directory = struct.unpack_from(">q" if is_big else ">i", content, at + (26 if is_big else 22))[0]
    texts, begin = [], at + (34 if is_big else 26)
    stop = min(at + size, len(content))
    for _ in range(3):
        length = content[begin] if begin < stop else -1
        begin += 1
        if length == 255 and begin + 4 <= stop:
            length = struct.unpack_from(">i", content, begin)[0]
            begin += 4
        if length < 0 or begin + length > stop:
            return None
        texts.append(content[begin : begin + length].decode("utf-8", "replace"))
        begin += length
    return KeyRecord(at, size, texts[0], texts[1], texts[2], directory)


# --- request parts ----------------------------------------------------------------------------------------------------


def with_parts(trace: Trace, maps: Iterable[FileMap], ranges: Numbers | None = None) -> Trace:
    """Return the trace with a row for each file, and a row (part) for each piece of a file that a request hit.

    ``ranges`` has a row for each range of a multi-range request: request ID, offset and length. The parts of a request
    add up to the bytes that the request received. Calls that mapped a file into memory have no parts, since the call
    itself reads nothing.
    """
    requests = trace.rows_of(REQUEST)
    file_codes, paths = codes(requests, "file")
    offset, got = numbers(requests, "offset"), numbers(requests, "got_bytes", 0)
    number = numbers(requests, "request")
    groups: list[RowGroup] = []
    for one in maps:
        if one.path not in paths:
            continue
        groups.append(RowGroup(kind=FILE, file=[one.path], size_bytes=[one.size_bytes]))
        rows = np.nonzero((file_codes == paths.index(one.path)) & (got > 0))[0]
        pieces = np.stack([number[rows], offset[rows], got[rows]])
        if ranges is not None and len(ranges):
            several = ranges[np.isin(ranges[:, 0], number[rows])]
            pieces = np.concatenate([pieces[:, ~np.isin(pieces[0], several[:, 0])], several.T], axis=1)
            pieces = pieces[:, np.argsort(pieces[0], kind="stable")]
        groups += _parts(one, *pieces)
    return trace.with_rows(*groups) if groups else trace


def _parts(one: FileMap, number: Numbers, offset: Numbers, got: Numbers) -> list[RowGroup]:
    """Return the parts of the given requests, which all read the file of the map ``one``."""
    groups = []
    known = offset >= 0
    if not known.all():
        lost = number[~known]
        groups.append(
            RowGroup(
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
        RowGroup(
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
            RowGroup(
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
    """Return all pairs of a range and an overlapping piece, as an array of range indices and one of piece indices."""
    low = np.searchsorted(one.offset + one.size, offset, side="right")
    high = np.searchsorted(one.offset, offset + size, side="left")
    counts = np.maximum(high - low, 0)
    which = np.repeat(np.arange(len(offset)), counts)
    before = np.repeat(np.cumsum(counts) - counts, counts)
    return which, np.repeat(low, counts) + np.arange(int(counts.sum())) - before


def _same(text: str, count: int) -> Codes:
    return Codes(np.zeros(count, "i8"), [text])
