"""Reads the request journals of all processes of a job as a trace."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from branchline.errors import BadFileError, MissingFileError
from branchline.tracing.file_map import (
    BASKET,
    PAGE,
    FileMap,
    TracedBasket,
    is_root_file,
    map_file,
    map_of,
    with_parts,
)
from branchline.tracing.trace import EXTENT, REQUEST, SPAN, Codes, Numbers, RowGroup, Trace, TracedJob, files_read

JOB_FILE = "about.json"
#: Suffix of the file that says why a journal is incomplete; see crates/trace/src/journal/writer.rs.
INCOMPLETE = ".incomplete"
#: Journal format. _HEAD is the journal header: magic, process ID, time. _BLOCK is the block header: record letter,
#: thread ID, size of the records in bytes.
_MAGIC, _HEAD, _BLOCK = b"BLJOURN2", struct.Struct("<8sIQ"), struct.Struct("<B3xII")
#: Record layout by letter: number of 4-byte integers, and number of the 8-byte integers after them; see
#: crates/trace/src/journal/records.rs.
_RECORDS = {"R": (8, 7), "P": (1, 2), "U": (4, 7), "G": (5, 5), "W": (2, 2)}
#: Columns that contain string IDs, by record letter.
_TEXTS = {"R": slice(1, 6), "P": slice(0), "U": slice(0, 3), "G": slice(0, 3), "W": slice(0, 2)}
#: Index of the column with the last time of a record, by the letter that begins the record.
_LATEST = {"R": 14, "U": 8, "G": 9, "W": 3}


@dataclass
class _Names:
    """The distinct strings of all journals. A string has the same ID in every journal."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def codes(self, column: Numbers) -> Codes:
        """Convert a column of string IDs; empty strings become missing values."""
        texts = list(self.numbers)
        empty = self.numbers.get("", -2)
        return Codes(np.where(column == empty, -1, column), texts)

    def find(self, text: str) -> int:
        return self.numbers.get(text, -2)


@dataclass
class _Read:
    """The records of all journals by letter.

    Each record is a row: the record's integers, then the thread and the process. Strings are stored as IDs in
    ``names``.
    """

    names: _Names = field(default_factory=_Names)
    tables: dict[str, list[Numbers]] = field(default_factory=lambda: {letter: [] for letter in _RECORDS})
    last: int = 0

    def table(self, letter: str) -> Numbers:
        """Return all records with this letter."""
        return np.concatenate([np.empty((0, sum(_RECORDS[letter]) + 2), "i8"), *self.tables[letter]])


def read_journals(folder: Path) -> Trace:
    """Read the journals in a folder; the job may have been killed. Raises MissingFileError, BadFileError."""
    journals = sorted(folder.glob("*.journal"))
    job_path = folder / JOB_FILE
    if not job_path.is_file():
        raise MissingFileError(f"no trace found in {folder}", path=str(folder))
    try:
        job = TracedJob.from_json(json.loads(job_path.read_text(encoding="utf-8")))
    except (ValueError, TypeError, AttributeError) as error:
        # The file is truncated if the disk was full, or if the job was killed while writing the file.
        what = f"{job_path} is damaged: it does not describe the traced job ({error})"
        raise BadFileError(what, path=str(job_path), hint="the trace cannot be recovered; record it again") from None
    read = _Read()
    for path in journals:
        _read_one(path, read)
    start = job.started_unix_ns
    notes = (*job.notes, *(_lost(path) for path in sorted(folder.glob(f"*{INCOMPLETE}"))))
    wall_ns = job.wall_ns or max(read.last - start, 0)
    job = replace(job, wall_ns=wall_ns, processes=len(journals), notes=notes)
    trace = Trace.of(
        [*_requests(read, start, job), *_uses(read, start), *_pages(read, start), *_waits(read, start)], job
    )
    return with_parts(trace, _maps(trace, read), read.table("P")[:, :3])


def _lost(path: Path) -> str:
    """Return a note that tells the user that a process could not write all records."""
    process = path.name.split(".")[0]
    reason = path.read_text(errors="replace") or "the disk was full"
    return f"Process {process} could not record all of its requests: {reason}."


def _read_one(path: Path, read: _Read) -> None:
    """Add the records of one journal to ``read``. The journal's last block may be truncated."""
    content = path.read_bytes()
    if len(content) < _HEAD.size and _MAGIC.startswith(content[: len(_MAGIC)]):
        return  # The process was killed while writing the header.
    if content[: len(_MAGIC)] != _MAGIC:
        raise BadFileError(f"{path} is not a request journal", path=str(path))
    _, process, _ = _HEAD.unpack_from(content)
    own: dict[int, int] = {}
    found: dict[str, list[Numbers]] = {letter: [] for letter in _RECORDS}
    for letter, thread, block in _blocks(content, path):
        if letter == "N":
            own.update((number, read.names.number(text)) for number, text in _texts(block))
        else:
            found[letter].append(_rows(letter, block, thread, process))
    tables = {letter: np.concatenate(rows) for letter, rows in found.items() if rows}
    renumbered = np.array([own.get(number, -1) for number in range(max(own, default=0) + 1)], "i8")
    for letter, table in tables.items():
        texts = table[:, _TEXTS[letter]]
        if texts.size and texts.max() >= len(renumbered):
            raise BadFileError(f"{path} is damaged: it refers to texts that it does not contain", path=str(path))
        table[:, _TEXTS[letter]] = renumbered[texts]
    # Number the requests of this journal after the requests of previous journals.
    base = sum(len(one) for one in read.tables["R"])
    if "R" in tables:
        requests = tables["R"] = tables["R"][np.argsort(tables["R"][:, 0], kind="stable")]
        if "P" in tables:
            # Ranges are written before their request, so a killed process may leave ranges without a request.
            place = np.searchsorted(requests[:, 0], tables["P"][:, 0])
            known = requests[np.minimum(place, len(requests) - 1), 0] == tables["P"][:, 0]
            tables["P"] = tables["P"][known]
            tables["P"][:, 0] = base + place[known]
        requests[:, 0] = base + np.arange(len(requests))
    else:
        tables.pop("P", None)
    for letter, table in tables.items():
        if letter in _LATEST:
            read.last = max(read.last, int(table[:, _LATEST[letter]].max(initial=0)))
        read.tables[letter].append(table)


def _blocks(content: bytes, path: Path) -> Iterator[tuple[str, int, memoryview]]:
    """Yield the letter, thread and records of each block."""
    at, whole = _HEAD.size, memoryview(content)
    while at + _BLOCK.size <= len(content):
        number, thread, length = _BLOCK.unpack_from(content, at)
        letter = chr(number)
        if letter not in _RECORDS and letter != "N":
            raise BadFileError(f"{path} is damaged: invalid block at byte {at}", path=str(path))
        at += _BLOCK.size
        yield letter, thread, whole[at : at + length]
        at += length


def _texts(block: memoryview) -> Iterator[tuple[int, str]]:
    """Yield the ID and text of each string in a block."""
    at = 0
    while at + 8 <= len(block):
        number, length = struct.unpack_from("<II", block, at)
        at += 8
        if at + length > len(block):
            return
        yield number, bytes(block[at : at + length]).decode("utf-8", "replace")
        at += length


def _rows(letter: str, block: memoryview, thread: int, process: int) -> Numbers:
    """Return the records of a block, without a truncated last record."""
    small, large = _RECORDS[letter]
    form = np.dtype([("small", "<u4", (small,)), ("large", "<u8", (large,))])
    records = np.frombuffer(block, form, len(block) // form.itemsize)
    rows = np.empty((len(records), small + large + 2), "i8")
    rows[:, :small], rows[:, small:-2] = records["small"], records["large"]
    rows[:, -2:] = thread, process
    return rows


def _requests(read: _Read, start: int, job: TracedJob) -> list[RowGroup]:
    table = read.table("R")
    if not len(table):
        return []
    (number, file, store, what, outcome, wagon, connection, attempt, offset, requested, got,
     queued, sent, first, last, thread, process) = table.T  # fmt: skip
    return [
        RowGroup(
            kind=REQUEST,
            request=number,
            job=Codes(np.zeros(len(number), "i8"), [job.command]),
            wagon=read.names.codes(wagon),
            process=process,
            thread=thread,
            what=read.names.codes(what),
            file=read.names.codes(file),
            offset=offset,
            size_bytes=requested,
            got_bytes=got,
            queued_ns=np.maximum(queued - start, 0),
            sent_ns=np.maximum(sent - start, 0),
            first_byte_ns=np.where(first > 0, np.maximum(first - start, 0), -1),
            last_byte_ns=np.maximum(last - start, 0),
            store=read.names.codes(store),
            connection=np.where(connection > 0, connection, -1),
            attempt=attempt,
            outcome=read.names.codes(outcome),
        )
    ]


def _uses(read: _Read, start: int) -> list[RowGroup]:
    """Return the used baskets, and the time spent decompressing and decoding them."""
    table = read.table("U")
    if not len(table):
        return []
    file, tree, branch, basket, first, behind, offset, size, end, decompress, decode, thread, process = table.T
    # Records of RNTuples have no offset here; the offsets of their pages are in the records of `_pages`.
    offset, size = np.where(size > 0, offset, -1), np.where(size > 0, size, -1)
    used = RowGroup(
        kind=EXTENT,
        file=read.names.codes(file),
        tree=read.names.codes(tree),
        branch=read.names.codes(branch),
        basket=basket,
        entry_start=first,
        entry_stop=behind,
        process=process,
        thread=thread,
    )
    end = np.maximum(end - start, 0)
    begin = np.maximum(end - decode - decompress, 0)
    middle = np.maximum(end - decode, 0)
    times = (("decompress", begin, middle), ("decode", middle, end))
    return [
        replace(used, offset=offset, size_bytes=size, sent_ns=begin, last_byte_ns=end),
        *(
            replace(used, kind=SPAN, what=Codes(np.zeros(len(end), "i8"), [word]), sent_ns=one, last_byte_ns=other)
            for word, one, other in times
        ),
    ]


def _pages(read: _Read, start: int) -> list[RowGroup]:
    """Return the used pages of RNTuples. Pages have no duration: the time is recorded for the whole cluster."""
    table = read.table("G")
    if not len(table):
        return []
    file, tree, branch, column, cluster, first, behind, offset, size, end, thread, process = table.T
    end = np.maximum(end - start, 0)
    return [
        RowGroup(
            kind=EXTENT,
            what=Codes(np.zeros(len(file), "i8"), [PAGE]),
            file=read.names.codes(file),
            tree=read.names.codes(tree),
            branch=read.names.codes(branch),
            column=column,
            basket=cluster,
            entry_start=first,
            entry_stop=behind,
            offset=offset,
            size_bytes=size,
            sent_ns=end,
            last_byte_ns=end,
            process=process,
            thread=thread,
        )
    ]


def _waits(read: _Read, start: int) -> list[RowGroup]:
    table = read.table("W")
    if not len(table):
        return []
    what, wagon, begin, end, thread, process = table.T
    return [
        RowGroup(
            kind=SPAN,
            what=read.names.codes(what),
            wagon=read.names.codes(wagon),
            process=process,
            thread=thread,
            sent_ns=np.maximum(begin - start, 0),
            last_byte_ns=np.maximum(end - start, 0),
        )
    ]


def _maps(trace: Trace, read: _Read) -> Iterable[FileMap]:
    """Return the maps of the files that were read.

    Local files are scanned; the map of a remote file contains only the baskets in the trace.
    """
    uses = trace.rows_of(EXTENT)
    named: dict[str, list[TracedBasket]] = {}
    columns = ("file", "tree", "branch", "basket", "entry_start", "entry_stop", "offset", "size_bytes", "what")
    if uses.num_rows:
        for file, *place, what in zip(*(uses[name].to_pylist() for name in columns), strict=True):
            if place[-2] is not None:
                named.setdefault(file, []).append(replace(TracedBasket(*place), what=what or BASKET))
    # For each file, the largest end offset of its requests.
    table, texts = read.table("R"), list(read.names.numbers)
    ends: dict[str, int] = {}
    for number, offset, requested in table[:, (1, 8, 9)].tolist():
        ends[texts[number]] = max(ends.get(texts[number], 0), offset + requested)
    for path in files_read(trace):
        local = path.removeprefix("file://")
        if is_root_file(local):
            found = map_file(local)
            yield FileMap(path, *(getattr(found, name) for name in list(found.__dataclass_fields__)[1:]))
        else:
            yield map_of(path, ends.get(path, 0), named.get(path, []))
