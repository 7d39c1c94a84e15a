"""What a wagon returns for the rows of a table: columns of one length, and what kind of file they go to.

While a train runs, rows are represented by the files that they are in (`TablePieces`). ``found`` and ``replaced`` look
for tables in the output of a wagon: in dicts and tuples, under their keys.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import awkward as ak
import numpy as np

from branchline.base.quantities import counted
from branchline.errors import TableError

#: What the rows of a table become.
Format = Literal["ttree", "rntuple", "parquet"]
# What ROOT does not take in the names of branches and fields.
_NOT_IN_NAMES = re.compile(r"[./\\\s\x00-\x1f\x7f]")
UNKNOWN = "unknown"


class Table:
    """Rows that a wagon returns from ``process``: of all chunks they become one file, in the order of the input.

    ``columns`` are arrays of one length by name, or an awkward array of records: a row for each event, or for each
    object. Columns may be numbers, texts, lists of them (jagged), arrays of a fixed shape, and records. ``format`` is
    ``"ttree"``, ``"rntuple"`` or ``"parquet"``, ``tree`` the name of the tree (by default the key under which the wagon
    returns the table, or the name of the wagon), ``codec`` as for ``branchline convert``.

    In a TTree records become branches ``NAME_MEMBER``, and lists are ``std::vector``. All chunks must give the same
    columns with the same types. The file is ``OUT/tables/WAGON/KEY.root``; for Parquet a folder of that name that ends
    with ``.parquet``. The result of the train has a ``TableFile`` instead of the table.

    Raises TableError for columns of different lengths, and for values that cannot be columns.

        def process(self, events):
            good = events[events.MET_pt > 30]
            return {"skim": branchline.Table({"met": good.MET_pt, "muon": good.Muon}), "events": len(events)}
    """

    def __init__(
        self,
        columns: Any,
        *,
        format: Format = "ttree",  # noqa: A002 - what a physicist calls it
        tree: str | None = None,
        codec: str = "zstd:5",
    ) -> None:
        if format not in get_args(Format):
            raise TableError(f"{format!r} is no format of a table", hint=f"one of {', '.join(get_args(Format))}")
        given = _by_name(columns)
        arrays = {name: _array(name, value) for name, value in given.items()}
        lengths = {name: len(array) for name, array in arrays.items()}
        if len(set(lengths.values())) > 1:
            shown = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise TableError(f"the columns of a table have different lengths: {shown}")
        self.format: Format = format
        self.tree = tree
        self.codec = codec
        self.columns: dict[str, ak.contents.Content] = {}
        for name, array in arrays.items():
            self._add(name, array.layout)
        if format != "parquet":
            wrong = [name for name in self.columns if not name or _NOT_IN_NAMES.search(name)]
            if wrong:
                raise TableError(
                    f"a column of a ROOT file cannot be called {wrong[0]!r}", hint="without points, slashes and spaces"
                )
        self._length = next(iter(lengths.values()))

    def __len__(self) -> int:
        return self._length

    def __repr__(self) -> str:
        return f"<Table of {self._length} rows, {len(self.columns)} columns>"

    @property
    def types(self) -> dict[str, str]:
        """The types of the columns by name, such as ``float32`` and ``var * int64``."""
        return {name: type_text(layout) for name, layout in self.columns.items()}

    def chunk(self) -> ak.Array:
        """The rows as one array of records."""
        return ak.Array(ak.contents.RecordArray(list(self.columns.values()), list(self.columns), self._length))

    def _add(self, name: str, layout: ak.contents.Content) -> None:
        while layout.is_indexed and not layout.is_option:
            layout = layout.project()
        if self.format == "ttree" and _holds_records(layout):
            array = ak.Array(layout)
            for member in array.fields:
                self._add(f"{name}_{member}", array[member].layout)
            return
        if name in self.columns:
            raise TableError(f"two columns are called {name!r}")
        if self.format == "ttree" and layout.is_option:
            raise TableError(
                f"column {name!r} may have missing values, which a TTree cannot hold",
                hint="fill them with ak.fill_none, or write an RNTuple or Parquet",
            )
        self.columns[name] = layout


def _by_name(columns: Any) -> dict[str, Any]:
    if isinstance(columns, ak.Array):
        if not columns.fields:
            raise TableError("an array without fields is no table", hint="give it a name: Table({'pt': array})")
        return {name: columns[name] for name in columns.fields}
    if not isinstance(columns, Mapping):
        raise TableError(f"a table is made of arrays by name, not of {type(columns).__name__}")
    if not columns:
        raise TableError("a table needs at least one column")
    return {str(name): value for name, value in columns.items()}


def _array(name: str, value: Any) -> ak.Array:
    """A column as an awkward array with plain buffers."""
    try:
        if isinstance(value, np.ndarray):
            array = ak.from_numpy(value, regulararray=True) if value.ndim else None
        else:
            array = ak.materialize(value) if isinstance(value, ak.Array) else ak.Array(value)
    except (TypeError, ValueError) as error:
        raise TableError(f"column {name!r} cannot be made from {type(value).__name__}: {error}") from None
    if not isinstance(array, ak.Array):
        raise TableError(f"column {name!r} is one value, where a column has one for each row")
    return array


def _holds_records(layout: ak.contents.Content) -> bool:
    return bool(layout.is_record or ((layout.is_list or layout.is_option) and _holds_records(layout.content)))


def type_text(layout: ak.contents.Content) -> str:
    """The type of a column in words, without what only matters for behaviour.

    >>> type_text(ak.Array([[1.5], []]).layout)
    'var * float64'
    """
    if layout.is_option:
        return f"?{type_text(layout.content)}"
    if layout.is_indexed:
        return type_text(layout.content)
    if layout.is_unknown:
        return "unknown"
    if layout.is_union:
        return f"union[{', '.join(type_text(one) for one in layout.contents)}]"
    if layout.is_record:
        fields = layout.fields if not layout.is_tuple else [f"_{number}" for number in range(len(layout.contents))]
        members = [f"{name}: {type_text(one)}" for name, one in zip(fields, layout.contents, strict=True)]
        return "{" + ", ".join(members) + "}"
    if layout.is_list and layout.parameter("__array__") in ("string", "bytestring"):
        return "string"
    if layout.is_regular:
        return f"{layout.size} * {type_text(layout.content)}"
    if layout.is_list:
        return f"var * {type_text(layout.content)}"
    inner = "".join(f"{size} * " for size in layout.inner_shape)
    return f"{inner}{layout.dtype.name}"


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


def _joined(first: int, second: int) -> int:
    """A checksum of two, of which the order counts."""
    return (first * 1_000_003 + second) % 2**61 if second else first


# The keys of dicts and the positions in tuples that lead to a table in an output.
Key = tuple[str, ...]


def replaced(output: Any, kind: type, by: Callable[[Key, Any], Any], key: Key = ()) -> Any:
    """The output with each object of a class in it replaced; the output itself where there is none.

    Raises TableError for one in a list: lists are put one behind the other, which has no place for a table.
    """
    if isinstance(output, kind):
        return by(key, output)
    if isinstance(output, Mapping):
        changed = {}
        for name, value in output.items():
            new = replaced(value, kind, by, (*key, str(name)))
            if new is not value:
                changed[name] = new
        if not changed:
            return output
        made = copy.copy(output) if isinstance(output, MutableMapping) else dict(output)
        for name, value in changed.items():
            made[name] = value
        return made
    if isinstance(output, tuple):
        values = [replaced(value, kind, by, (*key, str(index))) for index, value in enumerate(output)]
        if all(new is old for new, old in zip(values, output, strict=True)):
            return output
        return type(output)(*values) if hasattr(output, "_fields") else tuple(values)
    if isinstance(output, list) and any(isinstance(one, kind) for one in output):
        raise TableError("a table is in a list", hint="return it under a key of a dict")
    return output


def found(output: Any, kind: type) -> list[tuple[Key, Any]]:
    """The objects of a class in an output, with their keys."""
    every: list[tuple[Key, Any]] = []

    def note(key: Key, value: Any) -> Any:
        every.append((key, value))
        return value

    replaced(output, kind, note)
    return every
