"""Joined trees: rows of other trees of a folder that refer to the entries of a main tree by an index column."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import awkward as ak
import numpy as np
from numpy.typing import NDArray

from branchline.base.quantities import counted
from branchline.errors import BadFileError, DatasetError
from branchline.reading.arrays.lazy import LazyRecord
from branchline.reading.arrays.nesting import Group
from branchline.reading.datasets.joins import Join, folder_of
from branchline.reading.expressions.name_filters import with_near_names
from branchline.reading.trees.companion_trees import read_columns
from branchline.reading.trees.file import File
from branchline.reading.trees.tree import Tree


@dataclass(frozen=True)
class JoinedRows:
    """The rows that refer to an entry of the main tree, in the order of the entries.

    - ``entries`` has the entry of each of these rows.
    - ``rows`` are the numbers of the rows; None if they are consecutive, from ``first``.
    - ``is_ascending`` means that later entries have later rows.
    - ``negative_count`` is the number of rows with a negative index, which refer to no entry.
    """

    entries: NDArray[Any]
    rows: NDArray[np.int64] | None
    first: int
    is_ascending: bool
    negative_count: int

    @classmethod
    def of(cls, index: NDArray[Any]) -> JoinedRows:
        """Return the rows for an index column. Sorts only if it is not sorted."""
        entries, first = index, 0
        rows: NDArray[np.int64] | None = None
        if len(index) and index.min() < 0:
            rows = np.flatnonzero(index >= 0)
            if len(rows) and int(rows[-1] - rows[0]) == len(rows) - 1:
                # Rows without an entry are before or after all others: the column is not copied.
                first, entries = int(rows[0]), index[rows[0] : rows[-1] + 1]
                rows = None
            else:
                entries = index[rows]
        is_ascending = bool((entries[1:] >= entries[:-1]).all())
        if not is_ascending:
            order = np.argsort(entries, kind="stable")
            entries = entries[order]
            rows, first = (order + first if rows is None else rows[order]), 0
        return cls(entries, rows, first, is_ascending, len(index) - len(entries))

    def offsets(self, start: int, stop: int) -> NDArray[np.int64]:
        """Return the position of the first row of each entry in a range, and the position after the last row."""
        # Numbers of the same type as the column spare a copy of it.
        is_wide = stop <= np.iinfo(self.entries.dtype).max
        wanted = np.arange(start, stop + 1, dtype=self.entries.dtype if is_wide else np.int64)
        return np.searchsorted(self.entries, wanted).astype(np.int64, copy=False)

    def limits(self, start: int, stop: int) -> tuple[int, int]:
        """Return the first row of a range of entries, and one past the last row."""
        begin, end = self.offsets(start, stop)[[0, -1]].tolist()
        if begin == end:
            return 0, 0
        if self.rows is None:
            return self.first + begin, self.first + end
        rows = self.rows[begin:end]
        return int(rows.min()), int(rows.max()) + 1


class JoinedTrees:
    """The trees of a join in the folder of a main tree."""

    def __init__(self, join: Join, file: File, main_tree: str, entries_count: int) -> None:
        self.join = join
        self._main = main_tree
        self._entries_count = entries_count
        self._trees = [file.tree(path) for path in join.trees_in(folder_of(main_tree))]
        first, *others = self._trees
        for one in others:
            if one.entries_count != first.entries_count:
                what = f"{one.path} has {one.entries_count} rows, but {first.path} has {first.entries_count}"
                raise BadFileError(f"{what}, so they cannot be joined row by row", path=file.path)
        with with_near_names(join.index, lambda: first.shape.readable):
            self._index = first.shape.find(join.index)
        self._owners: dict[str, Tree] = {}
        for one in self._trees:
            for path in one.shape.readable:
                if path in self._owners:
                    what = f"the branch {path} is in {self._owners[path].path} and in {one.path}"
                    raise DatasetError(what, path=file.path, hint=f"join the trees of {join.name} separately")
                self._owners[path] = one
        self._whole = (0, first.entries_count)
        self._rows: JoinedRows | None = None
        # Branches of which all rows were read.
        self._columns: dict[str, ak.contents.Content] = {}

    def record(self) -> LazyRecord:
        """The record of a row: the branches and groups of all trees by name. It may be used for all folders with the
        same branches.
        """
        fields: dict[str, str | Group] = {}
        for tree in self._trees:
            for name, group in tree.shape.groups.items():
                fields.setdefault(name, group)
        # Do not refer to the trees, so that the file can be closed.
        empty = {path: tree.shape.empty(path) for path, tree in self._owners.items()}
        return LazyRecord({**fields, **{path: path for path in self._owners}}, empty.__getitem__)

    @property
    def readable(self) -> list[str]:
        """Paths of the branches that can be read."""
        return list(self._owners)

    @property
    def rows(self) -> JoinedRows:
        """The rows that refer to each entry. Reads the index column on first use. Raises BadFileError for an index
        beyond the last entry, and DatasetError for a column that does not contain integers.
        """
        if self._rows is None:
            column = self._columns.get(self._index)
            self._rows = self._rows_of(
                self.read([self._index], *self._whole)[self._index] if column is None else column
            )
        return self._rows

    def _rows_of(self, column: ak.contents.Content) -> JoinedRows:
        tree = self._trees[0]
        index = np.asarray(column.data) if isinstance(column, ak.contents.NumpyArray) else np.zeros(0)
        if index.ndim != 1 or index.dtype.kind not in "iu":
            what = f"{self.join.index} of {tree.path} does not hold one integer for each row"
            raise DatasetError(what, path=tree.file_path, hint="join by a column of row numbers")
        if len(index) and index.max() >= self._entries_count:
            beyond = np.flatnonzero(index >= self._entries_count)
            row = int(beyond[0])
            what = (
                f"{counted(len(beyond), 'index', 'indices')} in {self.join.index} of {tree.path} beyond the "
                f"{counted(self._entries_count, 'row')} of {self._main}, the first in row {row}: {int(index[row])}"
            )
            raise BadFileError(what, path=tree.file_path, hint="join by a column with row numbers of the main tree")
        return JoinedRows.of(index)

    def range(self, start: int, stop: int, wanted: Sequence[str]) -> JoinedRange:
        """Return the rows of a range of entries. If it has all entries of the main tree, the branches ``wanted`` are
        read together with the index column.

        If later entries have earlier rows, all rows are read and kept, since each range may need any of them.
        """
        if self._rows is None and (start, stop) == (0, self._entries_count):
            new = dict.fromkeys([self._index, *(path for path in wanted if path in self._owners)])
            self._columns |= self.read(list(new), *self._whole)
        limits = self.rows.limits(start, stop) if self.rows.is_ascending and not self._columns else self._whole
        return JoinedRange(self, (start, stop), limits, self._columns if limits == self._whole else {})

    def read(self, paths: Sequence[str], start: int, stop: int) -> dict[str, ak.contents.Content]:
        """Read a range of rows of some branches, in one pass over the trees. Unknown branches are left out."""
        own = [path for path in paths if path in self._owners]
        sources = [tree.source(start, stop) for tree in dict.fromkeys(self._owners[path] for path in own)]
        # Each branch is in one of the trees.
        optional = own if len(sources) > 1 else ()
        return read_columns(sources, own, lambda path: self._owners[path].shape.empty(path), optional)


class JoinedRange:
    """The joined rows of a range of entries. ``columns`` are the branches that were read for the rows in ``limits``."""

    def __init__(
        self,
        trees: JoinedTrees,
        entries: tuple[int, int],
        limits: tuple[int, int],
        columns: dict[str, ak.contents.Content],
    ) -> None:
        self._trees = trees
        self._entries = entries
        self._limits = limits
        self._columns = columns
        self._selected: dict[str, ak.contents.Content] = {}

    def read(self, wanted: Sequence[str]) -> None:
        """Read branches, unless they were read before."""
        new = [path for path in wanted if path not in self._columns]
        if new:
            self._columns |= self._trees.read(new, *self._limits)

    def array(self, record: LazyRecord, read: Callable[[str], None]) -> ak.Array:
        """Return one list of records for each entry. ``read`` is called with the path of a branch when it is first
        used, and has to read it.
        """
        offsets = self._trees.rows.offsets(*self._entries)
        begin, end = int(offsets[0]), int(offsets[-1])

        def column(path: str) -> ak.contents.Content:
            read(path)
            if path not in self._selected:
                self._selected[path] = self._rows_between(self._columns[path], begin, end)
            return self._selected[path]

        flat = record.array(end - begin, column)
        return ak.Array(ak.contents.ListOffsetArray(ak.index.Index64(offsets - begin), flat.layout))

    @property
    def size_bytes(self) -> int:
        """Size in memory of the branches that were used."""
        return sum(int(ak.Array(layout).nbytes) for layout in self._selected.values())

    def _rows_between(self, column: ak.contents.Content, begin: int, end: int) -> ak.contents.Content:
        rows, before = self._trees.rows, self._limits[0]
        if rows.rows is None:
            first = rows.first - before
            return column[first + begin : first + end]
        return ak.Array(column)[rows.rows[begin:end] - before].layout
