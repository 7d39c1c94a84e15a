"""Merges the pieces of tables on the workers of a train: fixed neighbours, in stages, by the fast merge.

The job's process hands out what is to be merged and renames files. Rows pass through workers only, as baskets and pages
that are copied, and never through Python.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from branchline.base.limits import TABLE_FAN_IN, TABLE_MERGE_ATTEMPTS_MAX
from branchline.base.quantities import counted
from branchline.errors import BranchlineError
from branchline.jobs.subjob import WAIT, AfterLoss, Context, Finished, Lost, Message, Place, SubJob, Wait
from branchline.trains.tables.table import Piece, TablePieces

INTERRUPTED = "it was interrupted"


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
