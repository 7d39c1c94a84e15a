"""Moves the merged files of tables to their final names in the output directory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.whole_files import whole_file
from branchline.errors import BranchlineError, StorageError
from branchline.records.sensors.record_parts import TableRecord
from branchline.trains.tables.piece_merging import MergedTable
from branchline.trains.tables.piece_writer import begin_file
from branchline.trains.tables.table import Key, TableFile
from branchline.trains.tables.table_folder import TABLES, TableFolder
from branchline.writing.objects.root_names import SafeNames


@dataclass
class TableNames:
    """Safe names for the files of tables, by wagon and key. Two tables never get the same name."""

    _levels: dict[tuple[str, ...], SafeNames] = field(default_factory=dict)
    _given: dict[tuple[str, ...], str] = field(default_factory=dict)

    def path_of(self, wagon: str, key: Key) -> Path:
        """Return the path of a table relative to the output directory, without a suffix."""
        words = (wagon, *key)
        safe = []
        for depth in range(len(words)):
            way = words[: depth + 1]
            if way not in self._given:
                self._given[way] = self._levels.setdefault(way[:-1], SafeNames()).give(way[-1])
            safe.append(self._given[way])
        return Path(TABLES, *safe)


def publish(folder: TableFolder, path: Path, table: MergedTable) -> tuple[TableFile, list[str]]:
    """Move a table to its final path in the output directory. Returns the table and the paths of its files. Raises
    StorageError.

    If merging failed, the pieces are moved to a separate folder.
    """
    form, out = table.rows.form, Path(folder.out)
    size_bytes = sum(one.size_bytes for one in table.pieces)
    is_merged = not table.failed
    try:
        if form.format == "parquet" or not is_merged:
            suffix = ".parquet" if form.format == "parquet" else ".pieces"
            path = path.with_name(path.name + suffix)
            files = _numbered(out, path, table, keeps=folder.keeps)
        else:
            path = path.with_name(f"{path.name}.root")
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            if table.pieces:
                _place(table.pieces[0].path, out / path, keeps=folder.keeps and not table.made)
            else:
                size_bytes = _empty(out / path, table)
            files = [str(path)]
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"a table cannot be moved here: {error.strerror}", path=str(out / path)) from None
    columns = dict(form.columns)
    made = TableFile(str(out / path), form.format, form.tree, table.rows.rows, size_bytes, columns, is_merged)
    return made, files


def _place(piece: str, path: Path, *, keeps: bool) -> None:
    """Move a piece to its final path. With ``keeps``, the piece is linked or copied instead."""
    if not keeps:
        os.replace(piece, path)
        return
    path.unlink(missing_ok=True)
    try:
        os.link(piece, path)
    except OSError:
        with whole_file(path) as temporary:
            shutil.copyfile(piece, temporary)


def _numbered(out: Path, path: Path, table: MergedTable, *, keeps: bool) -> list[str]:
    """Move pieces into a folder, under names that sort in the order of the rows. If a Parquet table has no pieces, an
    empty file is written.
    """
    (out / path).mkdir(parents=True, exist_ok=True)
    digits = max(5, len(str(len(table.pieces))))
    files = []
    for number, piece in enumerate(table.pieces):
        name = path / f"part-{number:0{digits}d}{Path(piece.path).suffix}"
        _place(piece.path, out / name, keeps=keeps and piece.path not in table.made)
        files.append(str(name))
    if not files and table.rows.form.format == "parquet":
        files = [str(path / f"part-{0:0{digits}d}.parquet")]
        _empty(out / files[0], table)
    return files


def _empty(path: Path, table: MergedTable) -> int:
    """Write a file with the columns of a table but without rows, and return the size of the file."""
    form = table.rows.form
    try:
        return begin_file(path, form, form.empty()).finish().size_bytes
    except BranchlineError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"an empty table cannot be written: {error}", path=str(path)) from None


def record_of(wagon: str, key: Key, table: MergedTable, made: TableFile, files: Sequence[str]) -> TableRecord:
    """Return the table's entry in the job record."""
    return TableRecord(
        wagon=wagon,
        key="/".join(key),
        format=made.format,
        tree=made.tree,
        rows=made.rows,
        size_bytes=made.size_bytes,
        columns=made.columns,
        pieces=len(table.rows.pieces),
        merge_stages=table.stages,
        merge_bytes=table.copied_bytes,
        merge_s=table.seconds,
        is_merged=made.is_merged,
        files=list(files),
    )
