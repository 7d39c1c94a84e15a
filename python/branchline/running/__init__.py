"""From wagons and a dataset to results on disk in one call: the train, and then its report."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from branchline.access import Access
from branchline.errors import StorageError
from branchline.extras import require
from branchline.jobs import Interruption
from branchline.limits import WORKER_TIMEOUT_S
from branchline.running.claim import Claim, claimed
from branchline.train import FINISHED, PARTIAL, JobError, TrainProgress, TrainResult, run_train


def run(
    wagons: Any,
    dataset: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    workers: int | None = None,
    tree: str | None = None,
    companions: Any = None,
    branches: Sequence[str] | None = None,
    step_size: int | str = "100 MB",
    memory_limit: int | str = "1 GiB",
    access: Access | str | None = None,
    skip_bad_files: bool = False,
    worker_timeout: float = WORKER_TIMEOUT_S,
    force: bool = True,
    progress: Callable[[TrainProgress], None] | None = None,
    command: str = "",
) -> TrainResult:
    """Runs wagons over a dataset, which is read once for all of them.

    ``wagons`` is a Python file, an object with ``process(events)``, or a list of these; ``dataset`` is what
    ``Dataset.of`` takes. ``workers`` (all cores) is the number of processes; with 1 everything happens in this one. The
    results are the same bit for bit whatever their number. ``companions`` are files that lie beside each file of
    the dataset, as ``["Kinematics.root"]``, and reach wagons as ``events.companion["Kinematics"]``. ``branches``
    are read for all wagons; without it those are read that the wagons name and, if one names none, those that it
    touches on the first events. ``step_size`` is the size of a chunk in bytes ("100 MB") or entries (100000),
    ``memory_limit`` bounds what the reading of one worker holds, ``access`` says how files are read: a mode such as
    "planned", or a `branchline.Access`. With ``skip_bad_files`` a file that cannot be read
    is left out and listed in ``job["skipped"]``. A worker process that comes no step further and does not compute for
    ``worker_timeout`` seconds, or computes at one step for six times as long, is ended, and another one takes its
    place and its files, once; ``job["workers_lost"]`` says what it was at. 0 lets them take any time. With ``out`` the
    results are written there. Those of an earlier run are replaced, as when a cell of a notebook is run again, and
    refused if ``force`` is False; a directory with something else in it, or into which another run writes, always is.

    What is wrong before the run starts raises (DatasetError, WagonError, MissingFileError, NoSuchKeyError, ...). What
    stops it later, Ctrl-C and SIGTERM among it, gives a TrainResult with what was finished until then and a warning
    that says so; its ``exit_code`` is 0 only if all is well.
    """
    result = run_quietly(
        wagons,
        dataset,
        out,
        workers=workers,
        tree=tree,
        companions=companions,
        branches=branches,
        step_size=step_size,
        memory_limit=memory_limit,
        access=access,
        skip_bad_files=skip_bad_files,
        worker_timeout=worker_timeout,
        force=force,
        progress=progress,
        command=command,
    )
    if result.exit_code:
        warnings.warn("; ".join(["this train is not complete", *result.errors]), stacklevel=2)
    return result


def run_quietly(
    wagons: Any,
    dataset: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    force: bool,
    command: str,
    stopping: Callable[[], None] | None = None,
    **settings: Any,
) -> TrainResult:
    """As ``run``, for a caller that looks at ``exit_code`` and ``errors``. ``stopping`` is called at the first Ctrl-C,
    from within the signal's handler; ``settings`` are the others of ``run``, all of them.
    """
    interruption = Interruption()
    with interruption.installed():
        if out is None:
            return run_train(wagons, dataset, command=command, interruption=interruption, stopping=stopping, **settings)
        require("jinja2", "matplotlib", "mplhep", "pyarrow")
        with claimed(Path(out), force=force) as claim:
            result = run_train(
                wagons,
                dataset,
                command=command,
                interruption=interruption,
                stopping=stopping,
                begin=lambda: claim.begin(command),
                **settings,
            )
            write(result, claim)
    return result


def write(result: TrainResult, claim: Claim) -> None:
    """Writes results, pictures and records into a directory.

    What cannot be written, as on a full disk, is an error of the job: the rest is there, the results still in memory.
    Ctrl-C keeps what is written and goes on to the records, a second one ends at once.
    """
    result.out = claim.out
    interruption = Interruption()
    try:
        with interruption.installed():
            with interruption.held():
                # Workers import this package too, and are at work a second earlier without Arrow, uproot and Jinja.
                from branchline.report.job_files import write_job
                from branchline.report.writing import write_out

                # As it stands should this process be killed, or interrupted again, before it has written everything.
                status = result.job["status"]
                write_job(claim.out, result.job | {"status": PARTIAL if status == FINISHED else status})
            with interruption.allowed():
                result.written = list(write_out(claim.out, result, lambda: interruption.asked))
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
    except KeyboardInterrupt:
        result.job["interrupted"] = True
    if result.job["interrupted"] and result.job["status"] == FINISHED:
        result.job["status"] = PARTIAL
    _mark(result, claim)


def _mark(result: TrainResult, claim: Claim) -> None:
    sentences = [] if result.job["status"] == FINISHED else result.errors or ["The run was interrupted."]
    try:
        claim.mark(sentences)
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
