"""`branchline.what_if`: the forecast of some work under other conditions, in one call; and advice on it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from branchline.errors import BadFileError, DatasetError, MissingFileError, NoSuchKeyError, StorageError
from branchline.lab.advice.advise import Advised, advise, advise_without_files
from branchline.lab.concurrent_jobs import of_subject, of_trace, trace_of
from branchline.lab.forecast.conditions import Conditions, conditions_of
from branchline.lab.forecast.forecasting import WhatIf
from branchline.lab.forecast.forecasting import what_if as forecast_of
from branchline.lab.forecast.other_codec import try_codec
from branchline.lab.forecast.subject import Subject, is_job, job_record, subject_of
from branchline.lab.of_trace import is_trace, subject_of_trace
from branchline.lab.simulation.platform import Platform, load_platform
from branchline.lab.simulation.simulated_jobs import JobsAtOnce
from branchline.reading.access import Access

#: What is raised where files are gone, or are no longer what a job has read.
GONE = (MissingFileError, StorageError, BadFileError, NoSuchKeyError, DatasetError)


@dataclass(frozen=True)
class AdvisedWork:
    """Advice on some work. ``subject`` is the work with its files; None where they cannot be read, and then ``unsaid``
    tells why, and what the advice leaves out.
    """

    found: list[Advised]
    subject: Subject | None
    unsaid: str = ""


def what_if(
    location: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    *conditions: str,
    branches: Sequence[str] | None = None,
    access: Access | None = None,
    platform: str | os.PathLike[str] | None = None,
) -> WhatIf | JobsAtOnce:
    """What the same work would take under other conditions: of a directory of results, of files that are to be read
    (``branches`` of them, with an ``access``), or of a trace.

    ``conditions`` are written as on the command line: ``"rtt=63ms"``, ``"bandwidth=7MB/s"``, ``"access=prefetch"``,
    ``"codec=zstd:5"``, ``"layout=merged"``, ``"jobs=1000"``. The answer has the time, CPU efficiency, bytes and
    requests now and then, each with its interval; of ``jobs`` at once and of a trace it has a point for each number of
    jobs, and where they saturate. ``platform`` is a TOML file of what jobs share, instead of one link. Raises
    OptionError, and what reading the files' metadata raises.

        >>> found = branchline.what_if("file.root", "rtt=63ms,bandwidth=7MB/s")
        >>> found.then.wall_s.low < found.then.wall_s.value < found.then.wall_s.high
        True
    """
    many = [location] if isinstance(location, str | os.PathLike) else list(location)
    shared = load_platform(Path(platform)) if platform is not None else None
    names = tuple(branches) if branches else None
    return answer([os.fspath(one) for one in many], conditions_of(conditions), names, access, shared)


def answer(
    location: list[str],
    conditions: Conditions,
    branches: tuple[str, ...] | None,
    access: Access | None,
    platform: Platform | None,
) -> WhatIf | JobsAtOnce:
    """The forecast of a job, a dataset or a trace; a simulation of jobs at once, on a platform or behind one link."""
    trace = trace_of(location)
    if trace is not None:
        return of_trace(trace, conditions, platform)
    subject = subject_of(location, branches, access)
    other = try_codec(conditions.codec, subject.files, subject.laid, subject.branches) if conditions.codec else None
    if conditions.jobs is not None or platform is not None:
        return of_subject(subject, conditions, platform, other)
    return forecast_of(subject, conditions, other)


def advice_on(location: list[str], branches: tuple[str, ...] | None, access: Access | None) -> AdvisedWork:
    """Advice on a job, a dataset or a trace. A job whose files are gone is advised by its record alone.

    Raises what reading raises, for anything but a job.
    """
    if len(location) == 1 and is_trace(location[0]):
        subject = subject_of_trace(location[0], access)
        return AdvisedWork(advise(subject), subject)
    if len(location) > 1 or not is_job(location[0]):
        subject = subject_of(location, branches, access)
        return AdvisedWork(advise(subject), subject)
    job = job_record(location[0])
    try:
        subject = subject_of(location, branches, access)
    except GONE as error:
        return AdvisedWork(advise_without_files(job), None, _unsaid(error))
    return AdvisedWork(advise(subject), subject)


def _unsaid(error: Exception) -> str:
    return (
        f"the files of the job cannot be read: {error}\n"
        "Advice is by the record of the job alone. What another order, larger baskets or clusters, a merge or a codec "
        "would gain was tried on no file, and how baskets lie is not known."
    )
