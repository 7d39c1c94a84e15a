"""What a wagon returns for the rows of a table: columns of one length, and what kind of file they go to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, get_args

import awkward as ak
import numpy as np

from branchline.errors import TableError

#: What the rows of a table become.
Format = Literal["ttree", "rntuple", "parquet"]
# What ROOT does not take in the names of branches and fields.
_NOT_IN_NAMES = re.compile(r"[./\\\s\x00-\x1f\x7f]")


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
