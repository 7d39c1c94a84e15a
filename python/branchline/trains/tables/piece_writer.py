"""Writes the tables of a sub-job, chunk by chunk. Each table is written to a separate file, called a piece."""

from __future__ import annotations

import hashlib
import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import awkward as ak

from branchline.base.imports import require
from branchline.base.limits import TABLE_CLUSTER_BYTES
from branchline.base.quantities import parse_bytes
from branchline.errors import BranchlineError, InternalError, StorageError, TableError
from branchline.trains.tables.table import UNKNOWN, Key, Piece, Table, TableForm, TablePieces, replaced
from branchline.trains.tables.table_folder import TableFolder
from branchline.writing.columns.fields import FieldPlan, Leaf
from branchline.writing.columns.output_file import PAGE_BYTES, Layout, Target, Writer
from branchline.writing.merging.convert import RootFile


@dataclass
class Taken:
    """A chunk's output, in which TablePieces replace the tables. ``write`` writes the rows of the tables. It is called
    once the whole output is known to be valid.
    """

    output: Any
    write: Callable[[], None]


@dataclass
class _OpenPiece:
    """The open file for the rows of a table in the current sub-job."""

    form: TableForm
    path: Path
    writer: Writer
    plan: FieldPlan
    rows: int = 0


@dataclass
class _OpenTable:
    """A table in the current sub-job: the form of its first rows, and the file if rows are written."""

    rows: TablePieces
    piece: _OpenPiece | None = None


@dataclass
class TableWriters:
    """Writes the tables of one worker. Rows are written only once the output of their chunk is known to be valid. Each
    attempt at a sub-job writes to files with different names.
    """

    folder: TableFolder = field(default_factory=TableFolder)
    _index: int = 0
    _counts_only: bool = True
    _open: dict[tuple[str, Key], _OpenTable] = field(default_factory=dict)
    #: Errors of wagons whose tables could not be written completely.
    _broken: dict[str, BranchlineError] = field(default_factory=dict)

    def begin(self, index: int, *, counts_only: bool = False) -> None:
        """Start a sub-job. With ``counts_only``, rows are counted but not written."""
        self.abandon()
        self._index = index
        self._counts_only = counts_only or not self.folder.path
        self._broken.clear()

    def take(self, wagon: str, output: object, place: str) -> Taken:
        """Replace the tables in a wagon's output for the chunk at ``place``. Raises TableError for a table that does
        not match the table's previous rows.
        """
        todo: list[tuple[_OpenTable, Table]] = []

        def take_one(key: Key, table: Table) -> TablePieces:
            if self.folder.refused:
                raise TableError(f"process() returned a table, and {self.folder.refused}")
            name = "/".join((wagon, *key))
            form = TableForm.of(table, key[-1] if key else wagon)
            unknown = [column for column, kind in form.columns if UNKNOWN in kind]
            if unknown and len(table):
                raise TableError(
                    f"table {name}: the type of column {unknown[0]!r} is unknown, because all its lists are empty",
                    hint="set it, for example with ak.values_astype(array, 'float32') or ak.enforce_type",
                )
            checksum = _checksum(table) if self._counts_only else 0
            rows = TablePieces(name, form, len(table), place, checksum=checksum)
            opened = self._open.get((wagon, key))
            if opened is None:
                opened = self._open[wagon, key] = _OpenTable(rows)
            else:
                opened.rows = opened.rows + rows
            todo.append((opened, table))
            return rows

        output = replaced(output, Table, take_one)

        def write() -> None:
            for opened, table in todo:
                if len(table) and not self._counts_only:
                    self._fill(wagon, opened, table)

        return Taken(output, write)

    def settle(self, wagon: str, total: object) -> Any:
        """Finish the files of a wagon's tables, and return the wagon's sum with these files.

        Raises the error of a failed write. In this case, no event of the sub-job counts for the wagon.
        """
        if self._counts_only:
            return total
        if wagon in self._broken:
            raise self._broken[wagon]
        return replaced(total, TablePieces, lambda key, rows: self._finish(wagon, key, rows))

    def abandon(self) -> None:
        """Remove incomplete files."""
        for opened in self._open.values():
            if opened.piece is not None:
                opened.piece.writer.abandon()
        self._open.clear()

    def _fill(self, wagon: str, opened: _OpenTable, table: Table) -> None:
        try:
            if opened.piece is None:
                opened.piece = self._begin(opened.rows, table)
            opened.piece.writer.fill(opened.piece.plan, table.chunk())
            opened.piece.rows += len(table)
        except InternalError:
            raise
        except Exception as error:
            failed = _of_table(error, opened.rows.name)
            self._broken[wagon] = failed
            raise failed from error

    def _begin(self, rows: TablePieces, table: Table) -> _OpenPiece:
        if not os.path.isdir(self.folder.path):
            raise StorageError(
                "this machine cannot access the output directory, where tables are written",
                path=self.folder.out,
                hint="use a directory that all workers can access",
            )
        folder = Path(self.folder.path, name_of_pieces(rows.name))
        folder.mkdir(exist_ok=True)
        suffix = ".parquet" if rows.form.format == "parquet" else ".root"
        path = folder / f"{self._index:08d}-{os.urandom(6).hex()}{suffix}"
        plan = plan_of(rows.form)
        return _OpenPiece(rows.form, path, begin_file(path, rows.form, table.chunk()), plan)

    def _finish(self, wagon: str, key: Key, rows: TablePieces) -> TablePieces:
        opened = self._open.pop((wagon, key), None)
        if opened is None or opened.piece is None:
            return rows
        piece = opened.piece
        try:
            size = piece.writer.finish().size_bytes
        except InternalError:
            raise
        except Exception as error:
            raise _of_table(error, rows.name) from error
        if piece.rows != rows.rows:
            raise TableError(f"table {rows.name}: {piece.rows} rows were written, but the wagon returned {rows.rows}")
        made = Piece(str(piece.path), self._index, piece.rows, size)
        return TablePieces(rows.name, rows.form, rows.rows, rows.place, (made,))


def name_of_pieces(table: str) -> str:
    """Return the name of the folder for the pieces of a table."""
    return hashlib.sha256(table.encode(errors="replace")).hexdigest()[:16]


def plan_of(form: TableForm) -> FieldPlan:
    """Return the fields of a file with rows of this form."""
    return FieldPlan(tuple(Leaf(name, name) for name, _ in form.columns), (), ())


def begin_file(path: Path, form: TableForm, sample: ak.Array) -> Writer:
    """Create a file for rows with the types of ``sample``. Raises BranchlineError."""
    layout = Layout(form.codec, None, TABLE_CLUSTER_BYTES, parse_bytes(PAGE_BYTES))
    target = Target(path, True, [], form.tree, "")
    if form.format == "parquet":
        require("pyarrow")
        # Imported late: workers start without Arrow, which takes half a second to import.
        from branchline.writing.columns.parquet_writer import ParquetFileWriter

        return ParquetFileWriter(target, layout, plan_of(form), sample)
    return RootFile(form.format, target, layout, plan_of(form), sample)


def _of_table(error: Exception, name: str) -> TableError:
    if not isinstance(error, BranchlineError):
        return TableError(f"table {name}: {type(error).__name__}: {error}")
    hint = "" if isinstance(error, StorageError) else "leave the column out, or convert it in process()"
    return TableError(f"table {name}: {error.what}", path=error.path, hint=hint or error.hint)


def _checksum(table: Table) -> int:
    form, _, buffers = ak.to_buffers(ak.to_packed(table.chunk()))
    checksum = zlib.crc32(form.to_json().encode())
    for name in sorted(buffers):
        checksum = zlib.crc32(memoryview(buffers[name]).cast("B") if buffers[name].size else b"", checksum)
    return checksum + 1
