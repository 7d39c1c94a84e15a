"""Transfers results between the ledger and a submitted train: cached results at its start, and new results at its end.

The jobs do not open the ledger, because SQLite is not safe when several machines use it on a network file system. They
write new rows to files. The last job, or the next run into the same directory, adds these rows to the ledger.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from branchline.base.limits import FOLD_FAN_IN
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.ledger import LEDGER_NAME, Ledger, LedgerError, remove_ledger
from branchline.trains.plan import TrainPlan
from branchline.trains.reuse.kept_results import KeptResult
from branchline.trains.reuse.kept_tables import TABLES_KEPT_MAX_BYTES
from branchline.trains.reuse.reuse import LedgerRows, Reuse
from branchline.trains.subjobs.folding import FoldedResult, fold
from branchline.trains.submitted.submission import Submission
from branchline.trains.submitted.submission_folder import BatchFolder, framed, log, read_framed, write_again
from branchline.trains.submitted.units import UnitResult

_ROWS, _KEPT = "rows", "kept"


@dataclass(frozen=True)
class OpenedLedger:
    """The ledger of a train that is being submitted. If the ledger cannot be used, ``reuse`` is None and ``trouble`` is
    the reason.
    """

    reuse: Reuse | None
    trouble: str = ""

    @classmethod
    def of(cls, out: Path, plan: TrainPlan, command: str, *, takes: bool) -> OpenedLedger:
        """Open the ledger of a directory. With ``takes``, results of earlier runs are reused."""
        try:
            ledger = Ledger(out / LEDGER_NAME, command)
            return cls(Reuse(ledger, plan, takes=takes, tables=BatchFolder(out).tables))
        except LedgerError as error:
            return cls(None, f"results are not cached: {error}")


@contextmanager
def undone_if_new(out: Path, *, is_new: bool) -> Iterator[None]:
    """If the block raises an error, remove the ledger that was newly created for the train."""
    try:
        yield
    except BaseException:
        if is_new:
            with suppress(OSError, LedgerError):  # report the error that stopped the train
                remove_ledger(out)
        raise


class _Taking:
    """Collects cached results while walking the tree of sub-jobs. Keeps only one group of results per stage in
    memory.
    """

    def __init__(self, folder: BatchFolder, submission: Submission, plan: TrainPlan, reuse: Reuse) -> None:
        self._folder = folder
        self._submission = submission
        self._plan = plan
        self._reuse = reuse
        self._names = [one.name for one in plan.loaded.wagons]
        self._group: dict[int, KeptResult] = {}

    def take(self, node: FoldNode) -> FoldedResult | None:
        """Return the result of a node if it is completely cached. Otherwise, write the cached results of its parts and
        return None.
        """
        if node.stage == 0:
            return self._subjob(node.index)
        if node.stage == 1 and (folded := self._neighbours(node)) is not None:
            return folded
        parts = {part: self.take(part) for part in self._submission.tree.parts_of(node)}
        group, self._group = self._group, {}
        whole = {part: folded for part, folded in parts.items() if folded is not None}
        if len(whole) == len(parts):
            return fold(list(whole.values()))
        for part, folded in whole.items():
            if part.stage >= self._submission.unit_stage:
                self.write(part, folded)
                group.pop(part.index, None)
        if node.stage == 1 and group:
            write_again(self._folder.kept_folder / str(node.index), framed(_KEPT, group))
        return None

    def write(self, node: FoldNode, folded: FoldedResult) -> None:
        """Write the result of a node."""
        UnitResult(node, folded).write(self._folder, self._submission.id)

    def _neighbours(self, node: FoldNode) -> FoldedResult | None:
        """Return the cached combined result of a node's sub-jobs; None unless it covers all of these sub-jobs and all
        wagons.
        """
        indices = self._submission.tree.shares_of(node)
        first = self._submission.learning.share(indices.start, self._plan.shares[indices.start], (), self._plan.faults)
        kept = self._reuse.find_neighbours(indices, first)
        return None if kept is None or kept.missing or kept.indices != indices else kept.as_result(self._plan)

    def _subjob(self, index: int) -> FoldedResult | None:
        share = self._submission.learning.share(index, self._plan.shares[index], (), self._plan.faults)
        kept = self._reuse.find(index, share)
        if kept is None:
            return None
        self._group[index] = kept
        if kept.missing:
            return None
        result = kept.as_result(self._names)
        self._reuse.keep(index, share, result)  # records that this run used the cached result
        return FoldedResult.of(index, share, result, self._plan.faults)


def take_kept(folder: BatchFolder, submission: Submission, plan: TrainPlan, reuse: Reuse) -> None:
    """Write cached results to files for the jobs. Nodes whose results are completely in the ledger get a result; for
    other nodes, the cached results of their sub-jobs are written.

    Raises StorageError.
    """
    taking = _Taking(folder, submission, plan, reuse)
    root = submission.tree.root
    folded = taking.take(root)
    if folded is not None:
        taking.write(root, folded)


class KeptForJobs:
    """The cached results of sub-jobs, which a job reads from files, one group of neighbours at a time."""

    def __init__(self, folder: BatchFolder, reuse: Reuse | None) -> None:
        self._folder = folder
        self._reuse = reuse
        self._number = -1
        self._group: dict[int, KeptResult] = {}

    def of(self, index: int, share_key: str | None) -> KeptResult | None:
        """Return the cached result of a sub-job; None if it is not cached, or if the sub-job's files have changed since
        the submission.
        """
        if self._reuse is None:
            return None
        if index // FOLD_FAN_IN != self._number:
            self._number = index // FOLD_FAN_IN
            try:
                self._group = read_framed(self._folder.kept_folder / str(self._number), _KEPT, dict)
            except MissingFileError:
                self._group = {}
            except (BadFileError, StorageError) as error:
                log(f"cached results cannot be read, so their sub-jobs run again: {error}")
                self._group = {}
        kept = self._group.get(index)
        return kept if kept is not None and kept.share_key == share_key else None


def reuse_in_job(submission: Submission, plan: TrainPlan) -> Reuse | None:
    """Return the object that creates ledger rows in a job; None if results are not cached."""
    if not submission.wagon_keys or submission.learning.step is None:
        return None
    limit_bytes = TABLES_KEPT_MAX_BYTES // submission.tasks_max
    reuse = Reuse(None, plan, takes=False, keys=submission.wagon_keys, tables_max_bytes=limit_bytes)
    reuse.begin(submission.learning)
    return reuse


def write_rows(folder: BatchFolder, node: FoldNode, rows: Sequence[LedgerRows]) -> None:
    """Write the ledger rows of a node's sub-jobs to a file. Raises StorageError."""
    together = LedgerRows(
        tuple(row for one in rows for row in one.new),
        tuple(key for one in rows for key in one.used),
        tuple(dict.fromkeys(note for one in rows for note in one.notes)),
    )
    if together != LedgerRows():
        write_again(folder.rows(node), framed(_ROWS, together))


def enter_rows(out: Path, *, is_whole: bool) -> list[str]:
    """Add the rows written by jobs to the ledger, and return notes about problems. With ``is_whole``, the train is
    complete, and results that recent runs did not use are removed from the ledger.
    """
    paths = sorted(BatchFolder(out).rows_folder.glob("[0-9]*"))
    if not paths and not is_whole:
        return []
    notes = []
    try:
        ledger = Ledger(out / LEDGER_NAME, is_new_run=False)
        if ledger.replaced:
            notes.append(f"cached results of earlier runs are not used: {ledger.replaced}")
        for path in paths:
            try:
                rows = read_framed(path, _ROWS, LedgerRows)
            except (BadFileError, StorageError) as error:
                notes.append(f"results of {path.name} are not cached: {error}")
                continue
            ledger.put(rows.new)
            ledger.used(rows.used)
            notes += [one for one in rows.notes if one not in notes]
            path.unlink(missing_ok=True)
        if is_whole:
            ledger.remove_old()
        ledger.close()
    except (LedgerError, OSError) as error:
        notes.append(f"results are not cached: {error}")
    return notes
