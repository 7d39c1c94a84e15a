"""Merges the pieces of tables on the workers of a train: fixed neighbours, in stages, by the fast merge.

The job's process hands out what is to be merged and renames files. Rows pass through workers only, as baskets and pages
that are copied, and never through Python. Merged files get their names in the directory of results.
"""

from __future__ import annotations

import os
import shutil
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from branchline.base.limits import TABLE_FAN_IN, TABLE_MERGE_ATTEMPTS_MAX
from branchline.base.quantities import counted
from branchline.base.whole_files import whole_file
from branchline.errors import BranchlineError, StorageError
from branchline.jobs.subjob import WAIT, AfterLoss, Context, Finished, Lost, Message, Place, SubJob, Wait
from branchline.records.sensors.record_parts import TableRecord
from branchline.trains.tables.piece_writer import begin_file
from branchline.trains.tables.table import Key, Piece, TableFile, TablePieces
from branchline.trains.tables.table_folder import TABLES, TableFolder
from branchline.writing.objects.root_names import SafeNames

# Why a table was not merged.
INTERRUPTED = "it was interrupted"


#: Makes the place where pieces are merged, for a number of tasks at a time.
MakePlace = Callable[[AfterLoss, int], Place]


@dataclass
class TableMerging:
    """The merging of some tables: up to ``TABLE_FAN_IN`` neighbours become one in each stage.

    A stage of a table begins when the one before it is done. Pieces that are merged are removed, unless it ``keeps``
    those that sub-jobs wrote.
    """

    tables: Sequence[TablePieces]
    memory_limit_bytes: int
    keeps: bool = False
    merged: list[MergedTable] = field(default_factory=list)
    _left: deque[SubJob] = field(default_factory=deque)
    _tasks: dict[int, PieceMerge] = field(default_factory=dict)
    _attempts: dict[int, int] = field(default_factory=dict)
    _done: set[int] = field(default_factory=set)

    def run(self, make_place: MakePlace, listening: Callable[[Place], None]) -> list[MergedTable]:
        """Merges; ``listening`` gets the place before it works. Workers are started only if there is anything to do."""
        self.merged = [MergedTable(one, list(one.pieces), _fault_in(one)) for one in self.tables]
        for number in range(len(self.merged)):
            self._plan(number)
        if not self._left:
            return self.merged
        place = make_place(self._lost, len(self._left))
        try:
            place.prepare()
            listening(place)
            for message in place.run(MergeWork(), self._draw):
                if isinstance(message, Finished):
                    self._finished(message.index, message.value)
        except KeyboardInterrupt:
            self._fail_open(INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - whatever it is, the other results of the train are kept
            self._fail_open(str(error) or type(error).__name__)
        finally:
            place.close()
        self._fail_open(INTERRUPTED)
        return self.merged

    def _plan(self, number: int) -> None:
        """Hands out the next stage of a table, unless one piece is left."""
        table = self.merged[number]
        if table.failed or table.rows.form.format == "parquet":
            return
        while len(table.pieces) > 1 and not table.open_count:
            table.level += 1
            groups: dict[int, list[Piece]] = {}
            for piece in table.pieces:
                groups.setdefault(piece.first // TABLE_FAN_IN**table.level, []).append(piece)
            table.stages += any(len(group) > 1 for group in groups.values())
            for group in groups.values():
                if len(group) > 1:
                    is_last = len(groups) == 1
                    name, limit = table.rows.name, self.memory_limit_bytes
                    task = PieceMerge(number, name, tuple(group), limit, is_last=is_last)
                    index = len(self._tasks)
                    self._tasks[index] = task
                    # Two at the same pieces would write everything twice.
                    self._left.append(SubJob(index, task.label, task, may_run_twice=False))
                    table.open_count += 1

    def _draw(self, _spot: Any = None, _spots: Collection[Any] = (), /) -> SubJob | Wait | None:
        if self._left:
            return self._left.popleft()
        return WAIT if any(one.open_count and not one.failed for one in self.merged) else None

    def _finished(self, index: int, result: PiecesMerged) -> None:
        if index in self._done:
            return
        self._done.add(index)
        task = self._tasks[index]
        table = self.merged[task.table]
        table.open_count -= 1
        table.seconds += result.seconds
        if result.piece is None:
            table.failed = table.failed or result.failed
            return
        table.copied_bytes += result.piece.size_bytes
        gone = {one.path for one in task.pieces}
        rest = [one for one in table.pieces if one.path not in gone]
        table.pieces = sorted([*rest, result.piece], key=lambda one: one.first)
        for path in gone if not self.keeps else gone & table.made:
            with suppress(OSError):
                os.unlink(path)
        table.made.add(result.piece.path)
        if not table.open_count:
            self._plan(task.table)

    def _lost(self, lost: Lost, subjobs: Sequence[SubJob]) -> bool:
        for one in subjobs:
            self._attempts[one.index] = self._attempts.get(one.index, 0) + 1
            if self._attempts[one.index] < TABLE_MERGE_ATTEMPTS_MAX:
                self._left.append(one)
            else:
                table = self.merged[self._tasks[one.index].table]
                table.open_count -= 1
                table.failed = table.failed or str(lost)
        return True

    def _fail_open(self, why: str) -> None:
        for one in self.merged:
            if one.open_count and not one.failed:
                one.failed = why


def _fault_in(table: TablePieces) -> str:
    """Whether the pieces of a table have other rows than those that count, in words; empty if they are the same."""
    rows = sum(piece.rows for piece in table.pieces)
    return "" if rows == table.rows else f"its pieces have {rows} rows where wagons returned {table.rows}"


@dataclass
class MergedTable:
    """A table whose pieces were merged: the one that is left, or all that are left and why they are not one.

    ``stages`` of merging took ``seconds`` of workers and copied ``copied_bytes``.
    """

    rows: TablePieces
    pieces: list[Piece]
    failed: str = ""
    stages: int = 0
    seconds: float = 0.0
    copied_bytes: int = 0
    #: Pieces that were merged from others.
    made: set[str] = field(default_factory=set)
    #: Tasks of the stage at hand that are not done, and how many sub-jobs a piece may have after it, as a power.
    open_count: int = 0
    level: int = 0


@dataclass(frozen=True)
class PieceMerge:
    """Pieces of a table that become one; ``is_last`` if it is the whole table."""

    table: int
    name: str
    pieces: tuple[Piece, ...]
    memory_limit_bytes: int
    is_last: bool = False

    @property
    def label(self) -> str:
        """What is done, for people."""
        return f"merging {counted(len(self.pieces), 'piece')} of table {self.name}"


@dataclass(frozen=True)
class PiecesMerged:
    """What became of it: a piece, or the reason why there is none; ``seconds`` and the bytes that were copied."""

    piece: Piece | None
    failed: str = ""
    seconds: float = 0.0


class MergeWork:
    """The callable that merges pieces in a worker."""

    def __call__(self, context: Context) -> Iterator[Message]:
        while (subjob := context.draw()) is not None:
            yield Finished(subjob.index, _merged(subjob.payload, context), context.worker)


def _merged(task: PieceMerge, context: Context) -> PiecesMerged:
    # Workers start without what merging needs.
    from branchline.writing.merging.merge import merge

    begin_s, first = time.monotonic(), task.pieces[0]
    # Each attempt has a name of its own: an earlier one may still be writing.
    path = str(Path(first.path).with_name(f"{first.first:08d}-{os.urandom(6).hex()}.root"))
    context.at(task.label)
    try:
        with context.interruption.allowed():
            made = merge(
                [one.path for one in task.pieces],
                path,
                memory_limit=task.memory_limit_bytes,
                sync=task.is_last,
                progress=lambda now: context.at(f"{task.label}: {now.bytes_done} bytes"),
            )
    except KeyboardInterrupt:
        return PiecesMerged(None, INTERRUPTED, time.monotonic() - begin_s)
    except BranchlineError as error:
        return PiecesMerged(None, str(error), time.monotonic() - begin_s)
    rows = sum(one.rows for one in task.pieces)
    if made.entries != rows:
        os.unlink(path)
        return PiecesMerged(None, f"{made.entries} rows are in the merged file where its pieces have {rows}")
    return PiecesMerged(Piece(path, first.first, rows, made.size_bytes), "", time.monotonic() - begin_s)


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
            files = _move_pieces(out, path, table, keeps=folder.keeps)
        else:
            path = path.with_name(f"{path.name}.root")
            (out / path).parent.mkdir(parents=True, exist_ok=True)
            if table.pieces:
                _move_piece(table.pieces[0].path, out / path, keeps=folder.keeps and not table.made)
            else:
                size_bytes = _write_empty(out / path, table)
            files = [str(path)]
    except OSError as error:
        if isinstance(error, StorageError):
            raise
        raise StorageError(f"a table cannot be moved here: {error.strerror}", path=str(out / path)) from None
    columns = dict(form.columns)
    made = TableFile(str(out / path), form.format, form.tree, table.rows.rows, size_bytes, columns, is_merged)
    return made, files


def _move_piece(piece: str, path: Path, *, keeps: bool) -> None:
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


def _move_pieces(out: Path, path: Path, table: MergedTable, *, keeps: bool) -> list[str]:
    """Moves pieces into a folder, with names in their order; an empty one for Parquet if there are none."""
    (out / path).mkdir(parents=True, exist_ok=True)
    digits = max(5, len(str(len(table.pieces))))
    files = []
    for number, piece in enumerate(table.pieces):
        name = path / f"part-{number:0{digits}d}{Path(piece.path).suffix}"
        _move_piece(piece.path, out / name, keeps=keeps and piece.path not in table.made)
        files.append(str(name))
    if not files and table.rows.form.format == "parquet":
        files = [str(path / f"part-{0:0{digits}d}.parquet")]
        _write_empty(out / files[0], table)
    return files


def _write_empty(path: Path, table: MergedTable) -> int:
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
