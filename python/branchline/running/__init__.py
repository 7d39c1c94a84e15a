"""From wagons and a dataset to results on disk in one call: the train, and then its report."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branchline.access import Access
from branchline.errors import StorageError
from branchline.extras import require
from branchline.jobs import Interruption
from branchline.limits import WORKER_TIMEOUT_S
from branchline.running.claim import Claim, claimed
from branchline.sensors import FINISHED, PARTIAL
from branchline.train import JobError, TrainProgress, TrainResult, run_train

if TYPE_CHECKING:
    from branchline.report.writing import Pictures


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
    on: Any = None,
    force: bool = True,
    pictures: Pictures = "svg",
    progress: Callable[[TrainProgress], None] | None = None,
    command: str = "",
) -> TrainResult:
    """Runs wagons over a dataset, which is read once for all of them.

    A wagon has ``process(events)``, and may have ``postprocess(sum)``; coffea's processors are wagons. What ``process``
    returns for chunks is added: numbers, histograms, arrays, and dicts, lists, sets and tuples of these. Its attributes
    ``name``, ``branches`` (to read) and ``requires`` (wagons, for ``events.outputs``) may be left out. What ``events``
    has is said at ``branchline.train.Events``.

        class Spectrum:
            branches = ["Muon_pt"]

            def process(self, events):
                return hist.Hist.new.Reg(50, 0, 100, name="pt").Weight().fill(ak.flatten(events.Muon.pt))

        result = branchline.run([Spectrum()], "data/*.root", "out", workers=4)
        result.outputs["Spectrum"].plot()

    wagons: a Python file, a wagon, or a list of wagons. dataset: what ``Dataset.of`` takes.
    out: the directory for results; None keeps them in memory only.
    workers: worker processes, all cores by default. Results are the same bit by bit whatever their number. 0 runs the
        wagons in this process, for a debugger.
    tree: the tree of files that do not name one. companions: files beside each file, as ``["Kinematics.root"]``.
    branches: read for all wagons; by default those that wagons name, or touch on the first events.
    step_size: the size of a chunk after decompression, in bytes ("100 MB") or entries (100000).
    memory_limit: bytes that the reading of one worker may hold. access: how files are read, as "planned".
    skip_bad_files: leaves out files that cannot be read, and lists them in ``record.skipped``.
    worker_timeout: seconds after which a worker that neither comes further nor computes is replaced, once; 0: never.
    on: where workers run: "dask=tcp://host:8786", a Dask client or cluster, or an executor; results are the same bits.
    force: replaces the results of an earlier run in ``out``. pictures: of histograms: "svg", "both" (and PNG), "none".
    progress: called with a ``TrainProgress`` a few times per second. command: what the report shows as the command.

    A wagon that raises, or whose process dies, stops alone; its error is in ``record.wagons``. What is wrong before the
    run starts raises: DatasetError, WagonError, MissingFileError, NoSuchKeyError, BranchlineError for a setting that
    means nothing. What stops the run later, Ctrl-C and SIGTERM too, gives a TrainResult with what was finished until
    then, and a warning that says so; ``exit_code`` is 0 only if all is well.
    """
    reading = {"tree": tree, "companions": companions, "branches": branches, "access": access}
    chunks = {"workers": workers, "on": on, "step_size": step_size, "memory_limit": memory_limit}
    faults = {"skip_bad_files": skip_bad_files, "worker_timeout": worker_timeout}
    settings: dict[str, Any] = reading | chunks | faults | {"progress": progress}
    result = run_quietly(wagons, dataset, out, force=force, pictures=pictures, command=command, **settings)
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
    pictures: Pictures = "svg",
    stopping: Callable[[], None] | None = None,
    **settings: Any,
) -> TrainResult:
    """As ``run``, for a caller that looks at ``exit_code`` and ``errors`` itself. ``stopping`` is called at the first
    Ctrl-C, in the signal's handler; ``settings`` are all other arguments of ``run``.
    """
    interruption = Interruption()
    with interruption.installed():
        if out is None:
            return run_train(wagons, dataset, command=command, interruption=interruption, stopping=stopping, **settings)
        require("cloudpickle", "psutil", "boost_histogram", "uhi")
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
            write(result, claim, pictures)
    return result


def write(result: TrainResult, claim: Claim, pictures: Pictures = "svg") -> None:
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
                status = result.record.status
                write_job(claim.out, replace(result.record, status=PARTIAL if status == FINISHED else status))
            with interruption.allowed():
                result.written = list(write_out(claim.out, result, lambda: interruption.asked, pictures))
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
    except KeyboardInterrupt:
        result.record.interrupted = True
    if result.record.interrupted and result.record.status == FINISHED:
        result.record.status = PARTIAL
    _mark(result, claim)


def _mark(result: TrainResult, claim: Claim) -> None:
    sentences = [] if result.record.status == FINISHED else result.errors or ["The run was interrupted."]
    try:
        claim.mark(sentences)
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
