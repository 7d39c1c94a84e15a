"""What processes of ours told of their requests, one file each, as a trace."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from branchline.errors import BadFileError, MissingFileError
from branchline.tracing.file_map import FileMap, Named, is_root_file, map_file, map_of
from branchline.tracing.form import EXTENT, REQUEST, SPAN, Codes, Numbers, Trace
from branchline.tracing.mapping import files_read, with_parts

ABOUT = "about.json"
#: Numbers on a line of each letter, behind the letter; see crates/trace/src/journal.rs.
_LENGTHS = {"H": 3, "R": 16, "P": 3, "U": 12, "W": 5}


@dataclass
class _Names:
    """Texts of all journals, each with one number."""

    numbers: dict[str, int] = field(default_factory=dict)

    def number(self, text: str) -> int:
        return self.numbers.setdefault(text, len(self.numbers))

    def codes(self, column: Numbers) -> Codes:
        """A column with these numbers; an empty text is none."""
        texts = list(self.numbers)
        empty = self.numbers.get("", -2)
        return Codes(np.where(column == empty, -1, column), texts)

    def find(self, text: str) -> int:
        return self.numbers.get(text, -2)


@dataclass
class _Read:
    """The lines of all journals by their letter; texts have the numbers of `names`, threads are told apart."""

    names: _Names = field(default_factory=_Names)
    tables: dict[str, list[Numbers]] = field(default_factory=lambda: {letter: [] for letter in _LENGTHS})
    processes: dict[str, list[Numbers]] = field(default_factory=lambda: {letter: [] for letter in "RUW"})
    last: int = 0

    def table(self, letter: str) -> Numbers:
        """All lines of a letter, a row each."""
        found = self.tables[letter]
        return np.concatenate(found) if found else np.empty((0, _LENGTHS[letter]), "i8")

    def process(self, letter: str) -> Numbers:
        """The process of each line of a letter."""
        found = self.processes[letter]
        return np.concatenate(found) if found else np.empty(0, "i8")


def read_journals(folder: Path) -> Trace:
    """The trace that is told in a folder, also that of a job that was killed. Raises MissingFileError, BadFileError."""
    journals = sorted(folder.glob("*.journal"))
    about_path = folder / ABOUT
    if not about_path.is_file():
        raise MissingFileError(f"there is no trace in {folder}", path=str(folder))
    about = json.loads(about_path.read_text(encoding="utf-8"))
    read = _Read()
    for path in journals:
        _read_one(path, read)
    start = int(about["started_unix_ns"])
    about.setdefault("wall_ns", max(read.last - start, 0))
    about["processes"] = len(journals)
    trace = Trace.of([*_requests(read, start, about), *_uses(read, start), *_waits(read, start)], about)
    return with_parts(trace, _maps(trace, read), read.table("P"))


def _read_one(path: Path, read: _Read) -> None:
    """Adds the lines of one journal; the last one may be cut."""
    text = path.read_text(encoding="utf-8", errors="replace")
    lines = text[: text.rfind("\n") + 1].splitlines()
    by_letter: dict[str, list[str]] = {letter: [] for letter in _LENGTHS}
    own: list[int] = []
    for line in lines:
        letter, rest = line[0], line[2:]
        if letter == "N":
            own.append(read.names.number(rest.split("\t", 1)[1]))
        else:
            by_letter[letter].append(rest)
    renumbered = np.array(own or [0], "i8")
    tables = {letter: _numbers(rows, _LENGTHS[letter], path) for letter, rows in by_letter.items()}
    process = int(tables["H"][0, 1]) if len(tables["H"]) else 0
    for letter, columns in (("R", slice(1, 6)), ("U", slice(0, 3)), ("W", slice(0, 2))):
        tables[letter][:, columns] = renumbered[tables[letter][:, columns]]
        read.processes[letter].append(np.full(len(tables[letter]), process))
    # Requests of all journals get numbers of their own.
    base = sum(len(one) for one in read.tables["R"])
    order = np.argsort(tables["R"][:, 0], kind="stable")
    tables["P"][:, 0] = base + order[np.searchsorted(tables["R"][order, 0], tables["P"][:, 0])]
    tables["R"][:, 0] = base + np.arange(len(tables["R"]))
    for letter, last in (("R", 15), ("U", 9), ("W", 4)):
        read.last = max(read.last, int(tables[letter][:, last].max(initial=0)))
    for letter, table in tables.items():
        read.tables[letter].append(table)


def _numbers(rows: list[str], length: int, path: Path) -> Numbers:
    values = np.array("\t".join(rows).split("\t"), "i8") if rows else np.empty(0, "i8")
    if len(values) != length * len(rows):
        raise BadFileError(f"{path} is no journal of requests", path=str(path))
    return values.reshape(-1, length)


def _requests(read: _Read, start: int, about: dict[str, Any]) -> list[dict[str, Any]]:
    table = read.table("R")
    if not len(table):
        return []
    (number, file, store, what, outcome, wagon, thread, connection, attempt, offset, asked, got,
     queued, sent, first, last) = table.T  # fmt: skip
    return [
        {
            "kind": REQUEST,
            "request": number,
            "job": Codes(np.zeros(len(number), "i8"), [str(about.get("command", ""))]),
            "wagon": read.names.codes(wagon),
            "process": read.process("R"),
            "thread": thread,
            "what": read.names.codes(what),
            "file": read.names.codes(file),
            "offset": offset,
            "size_bytes": asked,
            "got_bytes": got,
            "queued_ns": np.maximum(queued - start, 0),
            "sent_ns": np.maximum(sent - start, 0),
            "first_byte_ns": np.where(first > 0, np.maximum(first - start, 0), -1),
            "last_byte_ns": np.maximum(last - start, 0),
            "store": read.names.codes(store),
            "connection": np.where(connection > 0, connection, -1),
            "attempt": attempt,
            "outcome": read.names.codes(outcome),
        }
    ]


def _uses(read: _Read, start: int) -> list[dict[str, Any]]:
    """The baskets that were used, and the time that it took."""
    table, process = read.table("U"), read.process("U")
    if not len(table):
        return []
    file, tree, branch, basket, first, behind, offset, size, thread, end, decompress, decode = table.T
    names = {"file": read.names.codes(file), "tree": read.names.codes(tree), "branch": read.names.codes(branch)}
    # Of an RNTuple it is not told where its pages lie.
    offset, size = np.where(size > 0, offset, -1), np.where(size > 0, size, -1)
    common = {
        "basket": basket,
        "entry_start": first,
        "entry_stop": behind,
        "process": process,
        "thread": thread,
        **names,
    }
    end = np.maximum(end - start, 0)
    begin = np.maximum(end - decode - decompress, 0)
    middle = np.maximum(end - decode, 0)
    times = (("decompress", begin, middle), ("decode", middle, end))
    return [
        {"kind": EXTENT, "offset": offset, "size_bytes": size, "sent_ns": begin, "last_byte_ns": end, **common},
        *(
            {
                "kind": SPAN,
                "what": Codes(np.zeros(len(end), "i8"), [word]),
                "sent_ns": one,
                "last_byte_ns": other,
                **common,
            }
            for word, one, other in times
        ),
    ]


def _waits(read: _Read, start: int) -> list[dict[str, Any]]:
    table = read.table("W")
    if not len(table):
        return []
    what, wagon, thread, begin, end = table.T
    return [
        {
            "kind": SPAN,
            "what": read.names.codes(what),
            "wagon": read.names.codes(wagon),
            "process": read.process("W"),
            "thread": thread,
            "sent_ns": np.maximum(begin - start, 0),
            "last_byte_ns": np.maximum(end - start, 0),
        }
    ]


def _maps(trace: Trace, read: _Read) -> Iterable[FileMap]:
    """What lies where in the files that were read: local ones are walked, of others what was used is known."""
    uses = trace.rows_of(EXTENT)
    named: dict[str, list[Named]] = {}
    columns = ("file", "tree", "branch", "basket", "entry_start", "entry_stop", "offset", "size_bytes")
    if uses.num_rows:
        for file, *one in zip(*(uses[name].to_pylist() for name in columns), strict=True):
            if one[-2] is not None:
                named.setdefault(file, []).append(Named(*one))
    ends = _ends(read)
    for path in files_read(trace):
        local = path.removeprefix("file://")
        if is_root_file(local):
            found = map_file(local)
            yield FileMap(path, *(getattr(found, name) for name in list(found.__dataclass_fields__)[1:]))
        else:
            yield map_of(path, ends.get(path, 0), named.get(path, []))


def _ends(read: _Read) -> dict[str, int]:
    """How far each file was read."""
    table, texts = read.table("R"), list(read.names.numbers)
    ends: dict[str, int] = {}
    for file, offset, asked in table[:, (1, 9, 10)].tolist():
        ends[texts[file]] = max(ends.get(texts[file], 0), offset + asked)
    return ends
