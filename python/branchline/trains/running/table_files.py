"""Finishes the tables of a train: merges their pieces, and replaces them in the wagons' sums by the paths of the merged
files.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from branchline.errors import StorageError, TableError
from branchline.jobs.interruption import Interruption
from branchline.jobs.local import InThisProcess
from branchline.jobs.subjob import AfterLoss, Place
from branchline.records.sensors.record import WagonFault
from branchline.records.sensors.record_parts import TableRecord
from branchline.trains.subjobs.folding import FoldedResult
from branchline.trains.tables.piece_merging import INTERRUPTED, MergedTable, TableMerging
from branchline.trains.tables.publishing import TableNames, publish, record_of
from branchline.trains.tables.table import Key, TableFile, TablePieces, found, replaced
from branchline.trains.tables.table_folder import TABLES, TableFolder

#: The table folder of a run without an output directory, which keeps its results in memory.
NO_DIRECTORY = TableFolder(refused="there is no output directory for its file; set one with out=, or with -o")

#: A function that creates the place where tables are merged. Its arguments are a callback for lost workers, the maximum
#: number of concurrent tasks, and the interruption.
MakePlace = Callable[[AfterLoss, int, Interruption], Place]


def merge_tables(
    merged: FoldedResult, folder: TableFolder, memory_limit_bytes: int, make_place: MakePlace
) -> list[TableRecord]:
    """Merge the tables in the sums of all wagons, and replace the tables by the paths of their files.

    If a table cannot be merged, its wagon gets an error, and the pieces are kept. Ctrl-C stops merging.
    """
    every = [
        (wagon, key, rows) for wagon, share in merged.wagons.items() for key, rows in found(share.total, TablePieces)
    ]
    if not every:
        return []
    tables = [rows for _, _, rows in every]
    interruption = Interruption()

    def listen(place: Place) -> None:
        interruption.when_asked = place.stop
        if interruption.asked:
            place.stop()

    with interruption.installed():
        merging = TableMerging(tables, memory_limit_bytes, folder.keeps)
        done = merging.run(lambda after_loss, count: make_place(after_loss, count, interruption), listen)
    # Remove tables that an earlier attempt to finish this train has written.
    shutil.rmtree(Path(folder.out, TABLES), ignore_errors=True)
    records: list[TableRecord] = []
    files: dict[tuple[str, Key], TableFile | None] = {}
    names = TableNames()
    for (wagon, key, rows), table in zip(every, done, strict=True):
        path = names.path_of(wagon, key)
        files[wagon, key] = made = _published(merged, folder, path, wagon, table, records, key)
        if made is not None and not made.is_merged:
            what = f"table {rows.name} was not merged: {table.failed}; its rows are in {made.path}, in order"
            _blame(merged, wagon, what, KeyboardInterrupt if table.failed == INTERRUPTED else TableError)
    for wagon, share in merged.wagons.items():
        share.total = _with_files(wagon, share.total, files)
    return records


def merge_neighbours(folded: FoldedResult, folder: TableFolder, memory_limit_bytes: int) -> None:
    """Merge, in this process, the pieces of each table in the combined result of neighbouring sub-jobs. Pieces that
    cannot be merged, for example because the disk is full, stay separate.
    """

    def merged(_key: Key, rows: TablePieces) -> TablePieces:
        merging = TableMerging([rows], memory_limit_bytes, folder.keeps)
        [table] = merging.run(lambda _after_loss, _count: InThisProcess(), lambda _place: None)
        return replace(rows, pieces=tuple(table.pieces))

    for share in folded.wagons.values():
        share.total = replaced(share.total, TablePieces, merged)


def _published(
    merged: FoldedResult,
    folder: TableFolder,
    path: Path,
    wagon: str,
    table: MergedTable,
    records: list[TableRecord],
    key: Key,
) -> TableFile | None:
    try:
        made, names = publish(folder, path, table)
    except StorageError as error:
        _blame(merged, wagon, f"table {table.rows.name}: {error}")
        return None
    records.append(record_of(wagon, key, table, made, names))
    return made


def _with_files(wagon: str, total: object, files: Mapping[tuple[str, Key], TableFile | None]) -> object:
    return replaced(total, TablePieces, lambda key, _rows: files[wagon, key])


def _blame(merged: FoldedResult, wagon: str, what: str, kind: type[BaseException] = TableError) -> None:
    share = merged.wagons[wagon]
    share.error = share.error or WagonFault(kind.__name__, what)
