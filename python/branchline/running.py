"""From wagons and a dataset to results on disk in one call: the train, and then its report."""

from __future__ import annotations

import os
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from branchline.errors import BranchlineError, StorageError
from branchline.train.job_record import FAILED
from branchline.train.progress import TrainProgress
from branchline.train.result import TrainResult
from branchline.train.running import run_train
from branchline.train.share_result import JobError


def run(
    wagons: Any,
    dataset: Any,
    out: str | os.PathLike[str] | None = None,
    *,
    workers: int | None = None,
    tree: str | None = None,
    branches: Sequence[str] | None = None,
    step_size: int | str = "100 MB",
    memory_limit: int | str = "1 GiB",
    skip_bad_files: bool = False,
    force: bool = False,
    progress: Callable[[TrainProgress], None] | None = None,
    command: str = "",
) -> TrainResult:
    """Runs wagons over a dataset, which is read once for all of them.

    ``wagons`` is a Python file, an object with ``process(events)``, or a list of these; ``dataset`` is what
    ``Dataset.of`` takes. ``workers`` (all cores) is the number of processes; with 1 everything happens in this one. The
    results are the same bit for bit whatever their number. ``branches`` are read for all wagons; without it those are
    read that the wagons name and, if one names none, those that it touches on the first events. ``step_size`` is the
    size of a chunk in bytes ("100 MB") or entries (100000), ``memory_limit`` bounds what the reading of one worker
    holds. With ``skip_bad_files`` a file that cannot be read is left out and listed in ``job["skipped"]``. With ``out``
    the results are written there; a directory that has something in it is refused, unless ``force`` replaces it.

    What is wrong before the run starts raises (DatasetError, WagonError, MissingFileError, NoSuchKeyError, ...). What
    stops it later, Ctrl-C among it, gives a TrainResult with what was finished until then and a warning that says so;
    its ``exit_code`` is 0 only if all is well.
    """
    result = run_quietly(
        wagons,
        dataset,
        out,
        workers=workers,
        tree=tree,
        branches=branches,
        step_size=step_size,
        memory_limit=memory_limit,
        skip_bad_files=skip_bad_files,
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
    workers: int | None,
    tree: str | None,
    branches: Sequence[str] | None,
    step_size: int | str,
    memory_limit: int | str,
    skip_bad_files: bool,
    force: bool,
    progress: Callable[[TrainProgress], None] | None,
    command: str,
) -> TrainResult:
    """As ``run``, for a caller that looks at ``exit_code`` and ``errors``."""
    if out is not None:
        check_out(Path(out), force=force)
    result = run_train(
        wagons,
        dataset,
        workers=workers,
        tree=tree,
        branches=branches,
        step_size=step_size,
        memory_limit=memory_limit,
        skip_bad_files=skip_bad_files,
        progress=progress,
        command=command,
    )
    if out is not None and result.job["status"] != FAILED:
        write(result, Path(out))
    return result


def check_out(out: Path, *, force: bool) -> None:
    """Refuses an output directory that would lose something, or that cannot be written to: before the train runs, not
    after hours of it. Raises BranchlineError, StorageError.
    """
    _check_writable(out)
    if not out.exists():
        return
    if not out.is_dir():
        raise BranchlineError("this is a file, not a directory for results", path=str(out))
    names = {one.name for one in out.iterdir()}
    if names and not force:
        raise BranchlineError(
            "there is something in this directory", path=str(out), hint="choose another one, or replace it with --force"
        )
    if names and "job.json" not in names:
        raise BranchlineError(
            "this directory is not empty and no train wrote it, so it is not replaced",
            path=str(out),
            hint="choose another one, or remove it yourself",
        )


def _check_writable(out: Path) -> None:
    there = next(one for one in (out, *out.absolute().parents) if one.exists())
    if not there.is_dir():
        return  # said better by what comes next
    try:
        os.rmdir(tempfile.mkdtemp(prefix=".branchline-", dir=there))
    except OSError as error:
        what = f"results cannot be written here: {error.strerror}"
        raise StorageError(what, path=str(out), hint="choose another directory with -o") from None


def write(result: TrainResult, out: Path) -> None:
    """Writes results, pictures and records into a directory.

    What cannot be written, as on a full disk, is an error of the job: the rest is there, the results still in memory.
    """
    # Workers import this package too, and are at work a second earlier without Arrow, uproot and Jinja.
    from branchline.report import write_out

    result.out = out
    try:
        result.written = list(write_out(out, result))
    except StorageError as error:
        result.stopped_by = result.stopped_by or JobError.of(error)
