"""What is known of a table while the train runs: its rows so far, the files that they are in, their columns."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import Any

import awkward as ak

from branchline.base.quantities import counted
from branchline.errors import TableError
from branchline.trains.tables.table import Format, Table

UNKNOWN = "unknown"


@dataclass(frozen=True)
class TableForm:
    """What is the same in all rows of a table: the kind of file, and the columns with their types, in order."""

    format: Format
    tree: str
    codec: str
    columns: tuple[tuple[str, str], ...]
    #: The awkward form, as JSON: an empty table is made of it.
    form: str

    @classmethod
    def of(cls, table: Table, default_tree: str) -> TableForm:
        """That of a table; ``default_tree`` is the name of one that names no tree."""
        form = table.chunk().layout.form.to_json()
        return cls(table.format, table.tree or default_tree, table.codec, tuple(table.types.items()), form)

    def empty(self) -> ak.Array:
        """A table of these columns without rows."""
        return ak.Array(ak.forms.from_dict(json.loads(self.form)).length_zero_array(highlevel=False))

    def difference_from(self, before: TableForm, *, with_types: bool) -> str:
        """What differs from the rows before, in words; empty if nothing does."""
        for what in ("format", "tree", "codec"):
            mine, theirs = getattr(self, what), getattr(before, what)
            if mine != theirs:
                return f"its {what} is {mine!r}, before it was {theirs!r}"
        own, others = dict(self.columns), dict(before.columns)
        for name in others:
            if name not in own:
                return f"it lacks column {name!r}"
        for name, kind in own.items():
            if name not in others:
                return f"it has a column {name!r}, which the rows before lack"
            if with_types and kind != others[name]:
                return f"column {name!r} is {kind}, before it was {others[name]}"
        if list(own) != list(others):
            return f"its columns are in another order ({', '.join(own)}; before {', '.join(others)})"
        return ""


@dataclass(frozen=True)
class Piece:
    """A file with the rows of a table from the sub-job ``first`` on."""

    path: str
    first: int
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class TablePieces:
    """The rows of a table in one or more neighbouring sub-jobs. Two are added by putting their pieces in a row.

    ``name`` is for people, ``place`` where the rows begin that gave the ``form``. Rows that were only counted have no
    pieces; ``checksum`` is of their values.
    """

    name: str
    form: TableForm
    rows: int
    place: str
    pieces: tuple[Piece, ...] = ()
    checksum: int = 0

    def __add__(self, other: Any) -> TablePieces:
        if not isinstance(other, TablePieces):
            raise TableError(f"table {self.name}: a {type(other).__name__} came in the place of its rows")
        # The types of columns are those of the first rows: a table without any may have been made of empty lists.
        different = other.form.difference_from(self.form, with_types=bool(self.rows and other.rows))
        if different:
            raise TableError(f"table {self.name}, in {other.place}: {different} (in {self.place})")
        first = self if self.rows or not other.rows else other
        return replace(
            first,
            rows=self.rows + other.rows,
            pieces=(*self.pieces, *other.pieces),
            checksum=_joined(self.checksum, other.checksum),
        )

    def __repr__(self) -> str:
        return f"<rows of table {self.name}: {self.rows} in {counted(len(self.pieces), 'piece')}>"


@dataclass(frozen=True)
class TableFile:
    """A table of a train: in its result, the place of its rows.

    ``path`` is a ROOT file with ``tree``, or a folder of Parquet files, whose names are in the order of the rows.
    ``rows`` counts the rows of all files, ``size_bytes`` are their bytes on disk, ``columns`` are types by name. If
    ``is_merged`` is False, as after a full disk, ``path`` is a folder of files with names in the order of the rows.
    It is a value and raises nothing; opening ``path`` raises MissingFileError once somebody has removed it.

        skim = result.outputs["skimmer"]["skim"]
        branchline.open(skim.path)[skim.tree].arrays()
    """

    path: str
    format: Format
    tree: str
    rows: int
    size_bytes: int
    columns: dict[str, str] = field(default_factory=dict)
    is_merged: bool = True


def _joined(first: int, second: int) -> int:
    """A checksum of two, of which the order counts."""
    return (first * 1_000_003 + second) % 2**61 if second else first
