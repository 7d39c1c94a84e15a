"""Tables that wagons return: columns of equal length, and the format of the file to write.

During a run, rows are represented by the files that contain them (`TablePieces`). ``found`` and ``replaced`` find
tables by key in the output of a wagon: in dicts and tuples at any depth.
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

from branchline.base.codecs import DEFAULT_CODEC
from branchline.base.quantities import counted
from branchline.errors import TableError

#: File formats of tables.
Format = Literal["ttree", "rntuple", "parquet"]
# Matches characters that ROOT does not allow in the names of branches and fields.
_NOT_IN_NAMES = re.compile(r"[./\\\s\x00-\x1f\x7f]")
UNKNOWN = "unknown"


class Table:
    """Rows that a wagon returns from ``process``. The rows of all chunks are written to one file, in the order of the
    input.

    ``columns`` are arrays of equal length by name, or an awkward array of records, with one row per event or per
    object. Columns may be numbers, strings, lists of these (jagged), arrays of a fixed shape, and records. ``format``
    is ``"ttree"``, ``"rntuple"`` or ``"parquet"``. ``tree`` is the name of the tree; by default, the key under which
    the wagon returns the table, or the name of the wagon. ``codec`` is as for ``branchline convert``.

    In a TTree, records become branches ``NAME_MEMBER``, and lists are ``std::vector``. All chunks must have the same
    columns with the same types. The file is ``OUT/tables/WAGON/KEY.root``; for Parquet, a folder with the suffix
    ``.parquet``. In the result of the train, the table is replaced by a ``TableFile``.

    Raises TableError for columns of different lengths, and for values that cannot be columns.

        def process(self, events):
            good = events[events.MET_pt > 30]
            return {"skim": branchline.Table({"met": good.MET_pt, "muon": good.Muon}), "events": len(events)}
    """

    def __init__(
        self,
        columns: object,
        *,
        format: Format = "ttree",  # noqa: A002 - the usual name for this option
        tree: str | None = None,
        codec: str = DEFAULT_CODEC,
    ) -> None:
        if format not in get_args(Format):
            raise TableError(f"unknown table format {format!r}", hint=f"choose one of {', '.join(get_args(Format))}")
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
                    f"invalid column name {wrong[0]!r} for a ROOT file", hint="remove dots, slashes and spaces"
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
        """Return the rows as one array of records."""
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
                f"column {name!r} may have missing values, which a TTree cannot store",
                hint="fill them with ak.fill_none, or write an RNTuple or Parquet",
            )
        self.columns[name] = layout


def _by_name(columns: object) -> dict[str, object]:
    if isinstance(columns, ak.Array):
        if not columns.fields:
            raise TableError("an array without fields is not a table", hint="give it a name: Table({'pt': array})")
        return {name: columns[name] for name in columns.fields}
    if not isinstance(columns, Mapping):
        raise TableError(f"a table needs arrays by name, got {type(columns).__name__}")
    if not columns:
        raise TableError("a table needs at least one column")
    return {str(name): value for name, value in columns.items()}


def _array(name: str, value: object) -> ak.Array:
    """Return a column as an awkward array with plain buffers."""
    try:
        if isinstance(value, np.ndarray):
            array = ak.from_numpy(value, regulararray=True) if value.ndim else None
        else:
            array = ak.materialize(value) if isinstance(value, ak.Array) else ak.Array(value)
    except (TypeError, ValueError) as error:
        raise TableError(f"column {name!r} cannot be made from {type(value).__name__}: {error}") from None
    if not isinstance(array, ak.Array):
        raise TableError(f"column {name!r} is a single value, but a column needs one per row")
    return array


def _holds_records(layout: ak.contents.Content) -> bool:
    return bool(layout.is_record or ((layout.is_list or layout.is_option) and _holds_records(layout.content)))


def type_text(layout: ak.contents.Content) -> str:
    """Return the type of a column as text, without parameters that only affect behaviour.

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
    """The location of a table in the result of a train.

    - ``path`` is a ROOT file with ``tree``, or a folder of Parquet files whose names sort in the order of the rows.
    - ``rows`` is the total number of rows.
    - ``size_bytes`` is the size on disk.
    - ``columns`` are the types of the columns by name.
    - ``is_merged`` is False if merging failed, for example on a full disk. ``path`` is then a folder of files whose
      names sort in the order of the rows.

    Opening ``path`` raises MissingFileError if the file has been removed.

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
    """A file with rows of a table. The first rows are from sub-job ``first``."""

    path: str
    first: int
    rows: int
    size_bytes: int


@dataclass(frozen=True)
class TablePieces:
    """The rows of a table in one or more neighbouring sub-jobs. The sum of two such objects has the pieces of both.

    ``name`` is for messages. ``place`` is the file and entries of the first rows, which determined the ``form``. Rows
    that were only counted have no pieces; ``checksum`` is the checksum of their values.
    """

    name: str
    form: TableForm
    rows: int
    place: str
    pieces: tuple[Piece, ...] = ()
    checksum: int = 0

    def __add__(self, other: object) -> TablePieces:
        if not isinstance(other, TablePieces):
            raise TableError(f"table {self.name}: a {type(other).__name__} was returned instead of its rows")
        # Compare types only if both tables have rows, since a table without rows may contain only lists of unknown
        # type.
        different = other.form.difference_from(self.form, with_types=bool(self.rows and other.rows))
        if different:
            raise TableError(f"table {self.name}, in {other.place}: {different} (in {self.place})")
        first = self if self.rows or not other.rows else other
        # The checksum of the sum depends on the order of the two tables, since the order of rows matters.
        joined = (self.checksum * 1_000_003 + other.checksum) % 2**61 if other.checksum else self.checksum
        return replace(
            first,
            rows=self.rows + other.rows,
            pieces=(*self.pieces, *other.pieces),
            checksum=joined,
        )

    def __repr__(self) -> str:
        return f"<rows of table {self.name}: {self.rows} in {counted(len(self.pieces), 'piece')}>"


@dataclass(frozen=True)
class TableForm:
    """The properties that all rows of a table share: the file format, and the columns with their types, in order."""

    format: Format
    tree: str
    codec: str
    columns: tuple[tuple[str, str], ...]
    #: The awkward form as JSON, for creating an empty table.
    form: str

    @classmethod
    def of(cls, table: Table, default_tree: str) -> TableForm:
        """Return the form of a table. ``default_tree`` is used if the table does not name a tree."""
        form = table.chunk().layout.form.to_json()
        return cls(table.format, table.tree or default_tree, table.codec, tuple(table.types.items()), form)

    def empty(self) -> ak.Array:
        """Return an array with these columns but without rows."""
        return ak.Array(ak.forms.from_dict(json.loads(self.form)).length_zero_array(highlevel=False))

    def difference_from(self, before: TableForm, *, with_types: bool) -> str:
        """Describe the first difference from earlier rows; empty if there is no difference."""
        for what in ("format", "tree", "codec"):
            mine, theirs = getattr(self, what), getattr(before, what)
            if mine != theirs:
                return f"its {what} is {mine!r}, in earlier rows {theirs!r}"
        own, others = dict(self.columns), dict(before.columns)
        for name in others:
            if name not in own:
                return f"it lacks column {name!r}"
        for name, kind in own.items():
            if name not in others:
                return f"it has a column {name!r}, which earlier rows lack"
            if with_types and kind != others[name]:
                return f"column {name!r} is {kind}, in earlier rows {others[name]}"
        if list(own) != list(others):
            return f"its columns are in another order ({', '.join(own)}; in earlier rows {', '.join(others)})"
        return ""


# The dict keys and tuple indices that lead to a table in an output.
Key = tuple[str, ...]


def replaced(output: object, kind: type, by: Callable[[Key, Any], object], key: Key = ()) -> Any:
    """Replace all objects of a class in an output. Returns the output itself if no object is replaced.

    Raises TableError for an object in a list, because lists are concatenated.
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


def found(output: object, kind: type) -> list[tuple[Key, Any]]:
    """Return the objects of a class in an output, with their keys."""
    every: list[tuple[Key, Any]] = []

    def note(key: Key, value: object) -> Any:
        every.append((key, value))
        return value

    replaced(output, kind, note)
    return every
