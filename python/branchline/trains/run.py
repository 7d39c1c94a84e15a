"""`branchline.run`: run a train and write its results and report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, overload

from branchline.base.checks import folder_path
from branchline.base.exit_codes import EXIT_INTERRUPTED
from branchline.base.imports import require
from branchline.base.notebook import is_notebook
from branchline.base.texts import printable
from branchline.errors import BranchlineWarning, OptionError, PartialResultWarning, ReportWarning, warn
from branchline.jobs.batch.system import SystemName
from branchline.jobs.interruption import Interruption
from branchline.jobs.ledger import LEDGER_NAME
from branchline.records.report.troubles import warning_sentences
from branchline.trains.out_folder.claim import JOBS, Claim, claimed
from branchline.trains.out_folder.live_report import ReportsTo, reported
from branchline.trains.out_folder.write_results import write
from branchline.trains.plan import TrainRequest
from branchline.trains.run_options import BatchSettings, RunOptions, takes_options
from branchline.trains.running.notebook_view import NotebookView, PartialSums, notebook_view
from branchline.trains.running.progress import planning_reports
from branchline.trains.running.result import TrainResult, incomplete
from branchline.trains.running.table_files import NO_DIRECTORY
from branchline.trains.running.train_run import run_train
from branchline.trains.tables.table_folder import TableFolder

if TYPE_CHECKING:
    from typing import Unpack

    from branchline.jobs.where import WhereLike, WhereObject
    from branchline.records.sensors.status import TrainStatus
    from branchline.trains.plan import TrainPlan
    from branchline.trains.run_options import RunSettings
    from branchline.trains.submitted.handle import SubmittedTrain


@overload
def run(
    wagons: object,
    dataset: object,
    out: str | os.PathLike[str],
    *,
    on: SystemName,
    batch: BatchSettings | None = None,
    **settings: Unpack[RunSettings],
) -> SubmittedTrain: ...
@overload
def run(
    wagons: object,
    dataset: object,
    out: str | os.PathLike[str] | None = None,
    *,
    on: WhereObject | None = None,
    **settings: Unpack[RunSettings],
) -> TrainResult: ...
@overload
def run(
    wagons: object,
    dataset: object,
    out: str | os.PathLike[str] | None = None,
    *,
    on: str,
    batch: BatchSettings | None = None,
    **settings: Unpack[RunSettings],
) -> TrainResult | SubmittedTrain: ...
@takes_options
def run(
    wagons: object,
    dataset: object,
    out: str | os.PathLike[str] | None = None,
    *,
    on: WhereLike | None = None,
    batch: BatchSettings | None = None,
    **options: Unpack[RunSettings],
) -> TrainResult | SubmittedTrain:
    """Run wagons over a dataset, which is read once for all of them.

    A wagon is a function of ``events`` (``branchline.train.Events``), or an object with ``process(events)`` and
    optionally ``postprocess(sum)``. The values that it returns for the chunks are added up; rows of a
    ``branchline.Table`` are written to a file.

        def spectrum(events):
            return hist.Hist.new.Reg(50, 0, 100, name="pt").Weight().fill(ak.flatten(events.Muon.pt))
        branchline.run(spectrum, "data/*.root", "out", workers=4).outputs["spectrum"].plot()

    With ``on="slurm"`` or ``"htcondor"`` the train is submitted, and a ``SubmittedTrain`` is returned immediately. If a
    wagon fails, the other wagons continue. After an error, the finished part of the results is returned. Ctrl-C keeps
    the finished part and raises KeyboardInterrupt, unless ``allow_partial`` is true.

    wagons: a Python file (or ``FILE.py:NAME``), a wagon, or a list.
    dataset: anything that ``Dataset.of`` accepts.
    out: directory for results; None keeps them in memory only.
    batch: how a train is submitted.
    """
    chosen = RunOptions.of("run", {"on": on, **options})
    return _carried_out(TrainRequest(wagons, dataset, chosen), out, batch)


def _carried_out(
    request: TrainRequest, out: str | os.PathLike[str] | None, batch: BatchSettings | None
) -> TrainResult | SubmittedTrain:
    """Run or submit a train for ``run``. Raises KeyboardInterrupt for an interrupted train. If the train is incomplete
    for another reason, warns the caller of ``run``.
    """
    options = request.options
    said: list[str] = []
    reports = ReportsTo.of(options.report_to, None, said.append)
    folder = None if out is None else Path(folder_path("the directory of results", out))
    if options.is_submitted:
        submitted = submit_train(request, folder, batch or BatchSettings(), reports=reports)
        _warn_of(said)
        return submitted
    if batch is not None:
        raise OptionError("batch is only for trains that are submitted", hint='give on="slurm" or on="htcondor" too')
    with _shown(options.progress) as shown:
        result = run_quietly(request, folder, progress=shown, reports=reports)
    _warn_of(said)
    if doubts := warning_sentences(result.record):
        warn(printable(" ".join(doubts)), BranchlineWarning, each_time=True)
    if result.exit_code == EXIT_INTERRUPTED and not options.allow_partial:
        kept = "finished results are lost, since the train has no output directory"
        if result.out is not None:
            kept = f"finished results are kept in {result.out}; repeat the call to continue"
        raise KeyboardInterrupt(f"{incomplete(result.record)}; {kept} (allow_partial=True returns them instead)")
    if result.exit_code:
        warn(printable(incomplete(result.record)), PartialResultWarning, each_time=True)
    return result


@contextmanager
def _shown(progress: Callable[[TrainStatus], None] | None) -> Iterator[Callable[[TrainStatus], None] | None]:
    """Yield a progress callback: the caller's function or, in a notebook, a view below the cell. Otherwise, yield
    None.
    """
    if progress is not None or not is_notebook():
        yield progress
        return
    with notebook_view() as view:
        yield view


def _warn_of(reports: list[str]) -> None:
    if reports:
        warn("; ".join(reports), ReportWarning)


def submit_train(
    request: TrainRequest,
    out: str | os.PathLike[str] | None,
    batch: BatchSettings,
    *,
    reports: ReportsTo | None = None,
) -> SubmittedTrain:
    """Submit a train, as ``run`` does if ``on`` is the name of a batch system.

    Raises OptionError if ``out`` is None, or if the token for reports cannot be passed to the batch system.
    """
    require("cloudpickle", "psutil", "boost_histogram", "uhi")
    from branchline.trains.submitted.handle import SubmittedTrain
    from branchline.trains.submitted.submit import submit

    if out is None:
        hint = "give a directory that all nodes can access"
        raise OptionError("a submitted train needs a directory for its results", hint=hint)
    submit(request, Path(out), batch=batch, reports=reports)
    return SubmittedTrain(Path(out))


def run_quietly(
    request: TrainRequest,
    out: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[TrainStatus], None] | None = None,
    stopping: Callable[[], None] | None = None,
    reports: ReportsTo | None = None,
) -> TrainResult:
    """Run a train like ``run``, but without raising or warning if it is incomplete: callers check ``exit_code`` and
    ``errors``. ``stopping`` is called in the signal handler at the first Ctrl-C.
    """
    interruption, command = Interruption(), request.options.command
    if out is not None:
        require("cloudpickle", "psutil", "boost_histogram", "uhi")
    with interruption.installed(), nullcontext() if reports is None else reported(reports) as train:
        with nullcontext() if out is None else claimed(Path(out), force=request.options.force) as claim:
            if claim is not None and (claim.out / JOBS).is_dir():
                # Imported late, because few runs use the directory of a submitted train.
                from branchline.trains.submitted.submission_folder import BatchFolder
                from branchline.trains.submitted.submit import refuse_live

                refuse_live(BatchFolder(claim.out))

            def begin(plan: TrainPlan, sums: PartialSums) -> None:
                if isinstance(progress, NotebookView):
                    progress.follow(sums)
                if claim is not None:
                    _begin(claim, command)
                if train is not None:
                    train.begin(plan, command, None if claim is None else claim.out)

            result = run_train(
                request,
                interruption,
                stopping=stopping,
                progress=_all_of(
                    None if claim is None else claim.note, None if train is None else train.note, progress
                ),
                reads=None if train is None else train.read,
                told=None if train is None else train.told,
                planning=None if progress is None else planning_reports(progress),
                begin=begin,
                ledger=None if claim is None else claim.out / LEDGER_NAME,
                tables=NO_DIRECTORY if claim is None else TableFolder.below(claim.out),
            )
            if claim is not None:
                write(result, claim, request.options.pictures)
        if train is not None:
            train.end(result.record)
    return result


def _begin(claim: Claim, command: str) -> None:
    """Clear the output directory. If it holds a submitted train, add the results of that train to the ledger first."""
    if (claim.out / JOBS).is_dir():
        # Imported late, because few runs use the directory of a submitted train.
        from branchline.trains.submitted.ledger_rows import enter_rows
        from branchline.trains.submitted.reports import keep_reports

        enter_rows(claim.out, is_whole=False)
        keep_reports(claim.out)
    claim.begin(command)


def _all_of(*takers: Callable[[TrainStatus], None] | None) -> Callable[[TrainStatus], None] | None:
    """Return a callback that calls all of the given callbacks; None if all of them are None."""
    wanted = [one for one in takers if one is not None]

    def take(now: TrainStatus) -> None:
        for one in wanted:
            one(now)

    return take if wanted else None
