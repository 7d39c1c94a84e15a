"""Gives the merged files of tables their names in the directory of results."""

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
    """Safe names for the files of tables, by wagon and key; two tables never get the same one."""

    _levels: dict[tuple[str, ...], SafeNames] = field(default_factory=dict)
    _given: dict[tuple[str, ...], str] = field(default_factory=dict)

    def path_of(self, wagon: str, key: Key) -> Path:
        """The path below the directory of results, without an ending."""
        words = (wagon, *key)
        safe = []
        for depth in range(len(words)):
            way = words[: depth + 1]
            if way not in self._given:
                self._given[way] = self._levels.setdefault(way[:-1], SafeNames()).give(way[-1])
            safe.append(self._given[way])
        return Path(TABLES, *safe)


def publish(folder: TableFolder, path: Path, table: MergedTable) -> tuple[TableFile, list[str]]:
    """The table at its place below the directory of results, with the files there. Raises StorageError.

    Pieces that could not be merged go to a folder of their own.
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
    """Gives a piece its name; one that is kept has both, or is copied."""
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
    """Moves pieces into a folder, with names in their order; an empty one for Parquet if there are none."""
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
    """Writes a file with the columns and no rows; returns its size."""
    form = table.rows.form
    try:
        return begin_file(path, form, form.empty()).finish().size_bytes
    except BranchlineError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"an empty table cannot be written: {error}", path=str(path)) from None


def record_of(wagon: str, key: Key, table: MergedTable, made: TableFile, files: Sequence[str]) -> TableRecord:
    """What the record of the job says of it."""
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
