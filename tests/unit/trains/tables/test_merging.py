"""Pieces of tables, and how fixed neighbours become one."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from branchline.errors import BranchlineError, TableError
from branchline.jobs.local import InThisProcess, LocalProcesses
from branchline.jobs.subjob import AfterLoss, Context, Draw, FromPlace, Message, Work
from branchline.trains.running.table_files import merge_neighbours
from branchline.trains.subjobs.folding import FoldedResult
from branchline.trains.subjobs.share_result import WagonShare
from branchline.trains.tables.piece_merging import MergedTable, MergeWork, TableMerging
from branchline.trains.tables.piece_writer import TableWriters
from branchline.trains.tables.table import Table, TablePieces
from branchline.trains.tables.table_folder import TableFolder

Write = Callable[[int, int], TablePieces]


@pytest.fixture
def folder(tmp_path: Path) -> TableFolder:
    made = TableFolder.below(tmp_path)
    made.make()
    return made


@pytest.fixture
def write(folder: TableFolder) -> Write:
    """Writes the rows of a sub-job, whose values are its number."""
    writers = TableWriters(folder)

    def one(index: int, rows: int) -> TablePieces:
        writers.begin(index)
        taken = writers.take("wagon", Table({"n": np.full(rows, index)}, tree="t"), f"f{index}.root, entries 0 to 1")
        taken.write()
        settled = writers.settle("wagon", taken.output)
        assert isinstance(settled, TablePieces)
        return settled

    return one


def total_of(write: Write, rows: dict[int, int]) -> TablePieces:
    first, *others = [write(index, count) for index, count in rows.items()]
    total = first
    for one in others:
        total = total + one
    return total


def merged(total: TablePieces, *, keeps: bool = False) -> MergedTable:
    [table] = TableMerging([total], 2**28, keeps).run(lambda _lost, _count: InThisProcess(), lambda _place: None)
    return table


def values(path: str) -> list[int]:
    return uproot.open(path)["t"]["n"].array().tolist()


@pytest.mark.parametrize("keeps", [False, True])
def test_pieces_become_one_in_their_order(
    write: Write, folder: TableFolder, monkeypatch: pytest.MonkeyPatch, keeps: bool
) -> None:
    monkeypatch.setattr("branchline.trains.tables.piece_merging.TABLE_FAN_IN", 3)
    rows = {index: index % 4 for index in range(11)}
    total = total_of(write, rows)
    assert len(total.pieces) == sum(count > 0 for count in rows.values())
    table = merged(total, keeps=keeps)
    assert table.failed == ""
    [piece] = table.pieces
    assert values(piece.path) == [index for index, count in rows.items() for _ in range(count)]
    assert (table.stages, piece.rows) == (3, total.rows)
    left = {str(one) for one in Path(folder.path).rglob("*.root")}
    assert left == {piece.path, *(one.path for one in total.pieces if keeps)}


def test_a_damaged_piece_leaves_all_pieces(write: Write) -> None:
    total = total_of(write, {0: 2, 1: 2, 2: 2})
    Path(total.pieces[1].path).write_bytes(b"no ROOT file")
    table = merged(total)
    assert total.pieces[1].path in table.failed
    assert table.pieces == list(total.pieces)


def test_a_piece_that_lost_rows_is_noticed(write: Write) -> None:
    total = total_of(write, {0: 2, 1: 3})
    Path(total.pieces[1].path).write_bytes(Path(total.pieces[0].path).read_bytes())
    assert "the merged file has 4 rows, but its pieces have 5" in merged(total).failed


def test_neighbours_of_a_node_are_merged_where_they_are_folded(write: Write, folder: TableFolder) -> None:
    total = total_of(write, {20: 1, 21: 2, 22: 3})
    folded = FoldedResult(20, 23, {"wagon": WagonShare(total={"rows": total, "events": 6})})
    merge_neighbours(folded, folder, 2**28)
    rows = folded.wagons["wagon"].total["rows"]
    [piece] = rows.pieces
    assert (rows.rows, piece.rows, piece.first) == (6, 6, 20)
    assert values(piece.path) == [20, 21, 21, 22, 22, 22]
    assert folded.wagons["wagon"].total["events"] == 6


def test_what_cannot_be_written_counts_nothing(folder: TableFolder) -> None:
    writers = TableWriters(folder)
    writers.begin(0)
    taken = writers.take("wagon", Table({"n": [1]}, codec="no codec"), "here")
    with pytest.raises(TableError, match=r"table wagon: .*no codec"):
        taken.write()
    with pytest.raises(BranchlineError, match="no codec"):
        writers.settle("wagon", taken.output)


def test_another_attempt_has_files_of_its_own(write: Write, folder: TableFolder) -> None:
    first, second = write(0, 2), write(0, 2)
    assert first.pieces[0].path != second.pieces[0].path
    folder.remove()
    assert not Path(folder.path).exists()


def test_a_machine_that_does_not_see_the_directory_says_so(tmp_path: Path) -> None:
    writers = TableWriters(TableFolder.below(tmp_path))
    writers.begin(0)
    taken: Any = writers.take("wagon", Table({"n": [1]}), "here")
    with pytest.raises(TableError, match="cannot access the output directory"):
        taken.write()


class Killed:
    """Merging whose process ends ``times`` times."""

    def __init__(self, marks: Path, times: int) -> None:
        self.marks = marks
        self.times = times

    def __call__(self, context: Context) -> Iterator[Message]:
        marks = len(list(self.marks.iterdir()))
        if marks < self.times:
            context.draw()
            (self.marks / str(marks)).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        yield from MergeWork()(context)


class KilledAt(LocalProcesses):
    """Processes of this machine in which merging is killed."""

    killed: Killed

    def run(self, _work: Work, draw: Draw) -> Iterator[FromPlace]:
        return super().run(self.killed, draw)


@pytest.mark.parametrize("times", [1, 5])
def test_a_killed_merge_is_tried_again(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    monkeypatch.setattr("branchline.trains.tables.piece_merging.TABLE_FAN_IN", 2)
    total = total_of(write, dict.fromkeys(range(4), 2))
    marks = tmp_path / "marks"
    marks.mkdir()

    def place(after_loss: AfterLoss, _count: int) -> KilledAt:
        made = KilledAt(1, after_loss=after_loss)
        made.killed = Killed(marks, times)
        return made

    [table] = TableMerging([total], 2**28).run(place, lambda _place: None)
    if times == 1:
        assert table.failed == ""
        [piece] = table.pieces
        assert values(piece.path) == [0, 0, 1, 1, 2, 2, 3, 3]
    else:
        assert "SIGKILL" in table.failed
        rows = [value for piece in table.pieces for value in values(piece.path)]
        assert rows == [0, 0, 1, 1, 2, 2, 3, 3]
