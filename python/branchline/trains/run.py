"""`branchline.run`: runs a train and writes its results and report."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from branchline.base.checks import folder_path
from branchline.base.exit_codes import EXIT_INTERRUPTED
from branchline.base.imports import require
from branchline.base.limits import WORKER_TIMEOUT_S
from branchline.base.notebook import is_notebook, notebook_bar
from branchline.errors import BranchlineWarning, OptionError, PartialResultWarning, ReportWarning, warn
from branchline.jobs.batch.system import is_batch_system
from branchline.jobs.interruption import Interruption
from branchline.jobs.ledger import LEDGER_NAME
from branchline.reading.access import Access
from branchline.records.report.troubles import warning_sentences
from branchline.records.sensors.status import part_done, progress_text
from branchline.trains.out_folder.live_report import ReportsTo, reported
from branchline.trains.out_folder.lock import JOBS, Claim, claimed
from branchline.trains.out_folder.run_settings import BatchSettings
from branchline.trains.out_folder.write_results import write
from branchline.trains.plan import TrainRequest, TrainSettings
from branchline.trains.running.result import TrainResult, incomplete
from branchline.trains.running.train_run import run_train
from branchline.trains.tables.table_folder import TableFolder

if TYPE_CHECKING:
    from typing import Unpack

    from branchline.jobs.where import WhereLike
    from branchline.reading.datasets.data_file import CompanionsLike
    from branchline.records.output import Pictures
    from branchline.records.sensors.status import TrainStatus
    from branchline.trains.out_folder.run_settings import RunSettings
    from branchline.trains.plan import TrainPlan
    from branchline.trains.submitted.handle import SubmittedTrain


@overload
def run(
    wagons: object,
    dataset: object,
    out: str | os.PathLike[str],
    *,
    on: Literal["slurm", "htcondor"],
    batch: BatchSettings | None = None,
    **settings: Unpack[RunSettings],
) -> SubmittedTrain: ...
@overload
def run(
    wagons: object,
    dataset: object,
    out: str | os.PathLike[str] | None = None,
    *,
    on: WhereLike = None,
    **settings: Unpack[RunSettings],
) -> TrainResult: ...
def run(
    wagons: object,
    dataset: object,
    out: str | os.PathLike[str] | None = None,
    *,
    workers: int | None = None,
    tree: str | None = None,
    companions: CompanionsLike = None,
    parameters: Mapping[str, object] | None = None,
    max_events: int | None = None,
    max_files: int | None = None,
    seed: int = 0,
    branches: Sequence[str] | None = None,
    step_size: int | str | None = None,
    memory_limit: int | str = "1 GiB",
    access: Access | str | None = None,
    skip_bad_files: bool = False,
    worker_timeout: float = WORKER_TIMEOUT_S,
    allow_missing: float = 0.0,
    allow_partial: bool = False,
    on: WhereLike = None,
    batch: BatchSettings | None = None,
    force: bool = False,
    reuse: bool = True,
    pictures: Pictures = "svg",
    progress: Callable[[TrainStatus], None] | None = None,
    command: str = "",
    report_to: str | None = None,
) -> TrainResult | SubmittedTrain:
    """Runs wagons over a dataset, which is read once for all of them.

    A wagon is a function of ``events`` (``branchline.train.Events``), or has ``process(events)`` and maybe
    ``postprocess(sum)``. What is returned is added over chunks; rows of a ``branchline.Table`` become a file.

        def spectrum(events):
            return hist.Hist.new.Reg(50, 0, 100, name="pt").Weight().fill(ak.flatten(events.Muon.pt))
        branchline.run(spectrum, "data/*.root", "out", workers=4).outputs["spectrum"].plot()

    wagons: a Python file (or ``FILE.py:NAME``), a wagon, or a list. dataset: what ``Dataset.of`` takes.
    out: directory for results; None: in memory only. workers: processes, by default for all cores; 0: in this one.
    parameters: of wagons, as ``{"spectrum.pt_min": 20}``. max_events, max_files: of each dataset. seed: of random
        numbers. tree: of files that name none. companions: files beside each file, as ``["Kinematics.root"]``.
        branches: read for all wagons; by default those they name or touch. access: how files are read, as "planned".
    step_size: entries of a chunk (100000), as coffea's ``chunksize``, or bytes of the branches read ("50 MB").
    memory_limit: bytes for reading in a worker. worker_timeout: seconds until an idle worker is replaced; 0: never.
    skip_bad_files: leaves out, and lists, files that cannot be read. allow_missing: part of sub-jobs without result.
    on: "dask=tcp://host:8786", a Dask client or cluster, or an executor; "slurm" or "htcondor" submits the train and
        returns a ``SubmittedTrain`` at once; ``batch`` says how. force: replaces results of another process in ``out``.
    reuse: takes what an earlier run into ``out`` made of the same code, parameters and files. command: for the report.
    pictures: "svg", "both" (PNG too), "none". progress: a function of a ``TrainStatus``; None: a bar in notebooks.
    report_to: the URL of a control room (default: ``BRANCHLINE_REPORT_TO``), "" for none; see ``ReportWarning``.

    A wagon that fails stops alone. An error gives what is done; Ctrl-C keeps it and raises, unless ``allow_partial``.
    """
    settings = TrainSettings.of(
        workers=workers,
        branches=branches,
        step_size=step_size,
        memory_limit=memory_limit,
        skip_bad_files=skip_bad_files,
        access=access,
        worker_timeout=worker_timeout,
        allow_missing=allow_missing,
        max_events=max_events,
        max_files=max_files,
        seed=seed,
        on=None if is_batch_system(on) else on,
    )
    request = TrainRequest(wagons, dataset, settings, tree, companions, command, reuse, parameters=parameters)
    return _carried_out(request, out, on, batch, force, pictures, progress, report_to, allow_partial=allow_partial)


def _raise_or_warn(result: TrainResult, *, allow_partial: bool) -> None:
    """Raises KeyboardInterrupt for a train that was interrupted, and warns the caller of ``run`` of one that is not
    complete otherwise.
    """
    if result.exit_code == EXIT_INTERRUPTED and not allow_partial:
        kept = "it is not kept, since the train has no directory for results" if result.out is None else ""
        kept = kept or f"it is kept in {result.out}, and the same call goes on from there"
        raise KeyboardInterrupt(f"{incomplete(result.record)}; what was finished: {kept} (or give allow_partial=True)")
    if result.exit_code:
        warn(incomplete(result.record), PartialResultWarning, each_time=True)


def _carried_out(
    request: TrainRequest,
    out: str | os.PathLike[str] | None,
    on: object,
    batch: BatchSettings | None,
    force: bool,
    pictures: Pictures,
    progress: Callable[[TrainStatus], None] | None,
    report_to: str | None,
    *,
    allow_partial: bool,
) -> TrainResult | SubmittedTrain:
    """Runs or submits a train for ``run``, with a warning at its caller if it is not complete."""
    if progress is not None and not callable(progress):
        raise OptionError(f"progress cannot be {progress!r}", hint="give a function of a TrainStatus")
    if pictures not in ("svg", "both", "none"):
        raise OptionError(f"pictures cannot be {pictures!r}", hint="give svg, both or none")
    said: list[str] = []
    reports = ReportsTo.of(report_to, None, said.append)
    folder = None if out is None else folder_path("the directory of results", out)
    if isinstance(on, str) and is_batch_system(on):
        batch = batch or BatchSettings()
        submitted = submit_train(request, folder, on, batch, force=force, pictures=pictures, reports=reports)
        _warn_of(said)
        return submitted
    if batch is not None:
        raise OptionError("batch is only for trains that are submitted", hint='give on="slurm" or on="htcondor" too')
    with _shown(progress) as shown:
        result = run_quietly(request, folder, force=force, pictures=pictures, progress=shown, reports=reports)
    _warn_of(said)
    if doubts := warning_sentences(result.record):
        warn(" ".join(doubts), BranchlineWarning, each_time=True)
    _raise_or_warn(result, allow_partial=allow_partial)
    return result


@contextmanager
def _shown(progress: Callable[[TrainStatus], None] | None) -> Iterator[Callable[[TrainStatus], None] | None]:
    """What a train tells its progress to: the caller's function, or the bar of a notebook."""
    if progress is not None or not is_notebook():
        yield progress
        return
    with notebook_bar() as move:
        yield lambda now: move(part_done(now), progress_text(now))


def _warn_of(reports: list[str]) -> None:
    if reports:
        warn("; ".join(reports), ReportWarning)


def submit_train(
    request: TrainRequest,
    out: str | os.PathLike[str] | None,
    system: str,
    batch: BatchSettings,
    *,
    force: bool,
    pictures: Pictures,
    reports: ReportsTo | None = None,
) -> SubmittedTrain:
    """As ``run`` with the name of a batch system. Raises OptionError where ``out`` is None, and where the token for
    reports cannot travel.
    """
    require("cloudpickle", "psutil", "boost_histogram", "uhi")
    from branchline.trains.submitted.handle import SubmittedTrain
    from branchline.trains.submitted.submit import submit

    if out is None:
        raise OptionError("a submitted train needs a directory for its results", hint="name one that all nodes see")
    submit(request, Path(out), system=system, batch=batch, force=force, pictures=pictures, reports=reports)
    return SubmittedTrain(Path(out))


def run_quietly(
    request: TrainRequest,
    out: str | os.PathLike[str] | None = None,
    *,
    force: bool = False,
    pictures: Pictures = "svg",
    progress: Callable[[TrainStatus], None] | None = None,
    stopping: Callable[[], None] | None = None,
    reports: ReportsTo | None = None,
) -> TrainResult:
    """As ``run``, for a caller that looks at ``exit_code`` and ``errors`` itself. ``stopping`` is called at the first
    Ctrl-C, in the signal's handler.
    """
    interruption = Interruption()
    with interruption.installed(), reported(reports) as train:
        if out is None:
            result = run_train(
                request,
                interruption,
                stopping=stopping,
                progress=_all_of(None if reports is None else train.note, progress),
                reads=train.read,
                told=train.told,
                begin=lambda plan: train.begin(plan, request.command, None),
            )
            train.end(result.record)
            return result
        require("cloudpickle", "psutil", "boost_histogram", "uhi")
        with claimed(Path(out), force=force) as claim:
            if (claim.out / JOBS).is_dir():
                # Imported here since few runs follow a submitted train.
                from branchline.trains.submitted.submission_folder import BatchFolder
                from branchline.trains.submitted.submit import refuse_live

                refuse_live(BatchFolder(claim.out))

            def begin(plan: TrainPlan) -> None:
                _begin(claim, request.command)
                train.begin(plan, request.command, claim.out)

            result = run_train(
                request,
                interruption,
                stopping=stopping,
                progress=_all_of(claim.note, train.note, progress),
                reads=train.read,
                told=train.told,
                begin=begin,
                ledger=claim.out / LEDGER_NAME,
                tables=TableFolder.below(claim.out),
            )
            write(result, claim, pictures)
        train.end(result.record)
    return result


def _begin(claim: Claim, command: str) -> None:
    """Clears the directory, after what jobs of a submitted train left there is brought into the ledger."""
    if (claim.out / JOBS).is_dir():
        # Imported here since few runs follow a submitted train.
        from branchline.trains.submitted.ledger_rows import enter_rows
        from branchline.trains.submitted.reports import keep_reports

        enter_rows(claim.out, is_whole=False)
        keep_reports(claim.out)
    claim.begin(command)


def _all_of(*takers: Callable[[TrainStatus], None] | None) -> Callable[[TrainStatus], None] | None:
    """Shows the progress, writes it down and reports it; None where nobody wants to know."""
    wanted = [one for one in takers if one is not None]

    def take(now: TrainStatus) -> None:
        for one in wanted:
            one(now)

    return take if wanted else None
