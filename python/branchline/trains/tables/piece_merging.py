"""Merges the pieces of tables on the workers of a train, in stages. In each stage, fixed groups of neighbouring pieces
are merged.

The job's process only distributes tasks, and removes and renames files. Workers copy the rows as compressed baskets and
pages, without processing them in Python.
"""

from __future__ import annotations

import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from branchline.base.checks import instance_of
from branchline.base.limits import TABLE_FAN_IN, TABLE_MERGE_ATTEMPTS_MAX
from branchline.base.quantities import counted
from branchline.errors import BranchlineError
from branchline.jobs.subjob import WAIT, AfterLoss, Context, Finished, Lost, Message, Place, SubJob, Wait
from branchline.trains.tables.table import Piece, TablePieces

INTERRUPTED = "it was interrupted"


@dataclass(frozen=True)
class PieceMerge:
    """Pieces of a table to be merged into one piece. ``is_last`` is true if the result is the whole table."""

    table: int
    name: str
    pieces: tuple[Piece, ...]
    memory_limit_bytes: int
    is_last: bool = False

    @property
    def label(self) -> str:
        """A description of the task."""
        return f"merging {counted(len(self.pieces), 'piece')} of table {self.name}"


@dataclass(frozen=True)
class PiecesMerged:
    """The outcome of a merge: the merged piece or the reason for the failure, and the seconds spent."""

    piece: Piece | None
    failed: str = ""
    seconds: float = 0.0


class MergeWork:
    """The callable that merges pieces in a worker."""

    def __call__(self, context: Context) -> Iterator[Message]:
        while (subjob := context.draw()) is not None:
            yield Finished(subjob.index, _merged(instance_of(subjob.payload, PieceMerge), context), context.worker)


def _merged(task: PieceMerge, context: Context) -> PiecesMerged:
    # Imported late, because workers start without the modules for merging.
    from branchline.writing.merging.merge import merge

    begin_s, first = time.monotonic(), task.pieces[0]
    # Use a different file name for each attempt, because an earlier attempt may still be writing.
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
        return PiecesMerged(None, f"the merged file has {made.entries} rows, but its pieces have {rows}")
    return PiecesMerged(Piece(path, first.first, rows, made.size_bytes), "", time.monotonic() - begin_s)


@dataclass
class MergedTable:
    """A table after merging: one piece or, if merging failed, the remaining pieces and the reason ``failed``.

    ``stages`` is the number of merge stages, ``seconds`` the time that workers spent, and ``copied_bytes`` the size of
    the data that they copied.
    """

    rows: TablePieces
    pieces: list[Piece]
    failed: str = ""
    stages: int = 0
    seconds: float = 0.0
    copied_bytes: int = 0
    #: Paths of pieces that were created by merging.
    made: set[str] = field(default_factory=set)
    #: ``open_count`` is the number of unfinished tasks of the current stage. After this stage, each piece covers up to
    #: TABLE_FAN_IN ** ``level`` sub-jobs.
    open_count: int = 0
    level: int = 0


#: A function that creates the place for merging, given a callback for lost workers and the maximum number of concurrent
#: tasks.
MakePlace = Callable[[AfterLoss, int], Place]


@dataclass
class TableMerging:
    """The merging of several tables. In each stage, up to ``TABLE_FAN_IN`` neighbouring pieces become one piece.

    A stage of a table starts when the previous stage is done. Pieces are removed after they have been merged. With
    ``keeps``, pieces written by sub-jobs are kept.
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
        """Merge the tables. ``listening`` is called with the place before tasks run there. Workers are started only if
        there is something to merge.
        """
        self.merged = []
        for table in self.tables:
            rows = sum(piece.rows for piece in table.pieces)
            # Do not merge pieces whose number of rows is wrong.
            fault = "" if rows == table.rows else f"its pieces have {rows} rows, but wagons returned {table.rows}"
            self.merged.append(MergedTable(table, list(table.pieces), fault))
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
                    self._finished(message.index, instance_of(message.value, PiecesMerged))
        except KeyboardInterrupt:
            self._fail_open(INTERRUPTED)
        except Exception as error:  # noqa: BLE001 - the other results of the train are kept whatever the error
            self._fail_open(str(error) or type(error).__name__)
        finally:
            place.close()
        self._fail_open(INTERRUPTED)
        return self.merged

    def _plan(self, number: int) -> None:
        """Queue the next stage of a table, unless only one piece is left."""
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
                    # Speculative execution would write all data twice.
                    self._left.append(SubJob(index, task.label, task, may_run_twice=False))
                    table.open_count += 1

    def _draw(self, _spot: object = None, _workers: object = None, /) -> SubJob | Wait | None:
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
