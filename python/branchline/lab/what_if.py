"""`branchline.what_if`: forecast some work under other conditions, and advise on it.

The work is a job, a dataset, or a trace. Traces and concurrent jobs are simulated on a platform, or with one link that
all jobs share. Advice on a traced program is advice on reading the files and branches that the program read.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from branchline.errors import BadFileError, DatasetError, MissingFileError, NoSuchKeyError, OptionError, StorageError
from branchline.lab.advice.advise import Advised, advise, advise_without_files
from branchline.lab.forecast.conditions import Conditions, conditions_of
from branchline.lab.forecast.forecasting import WhatIf, changed_work
from branchline.lab.forecast.forecasting import what_if as forecast_of
from branchline.lab.forecast.model import file_costs
from branchline.lab.forecast.rates import OtherCodec, try_codec
from branchline.lab.forecast.subject import Subject, is_job, job_record, situated, subject_of
from branchline.lab.limits import CPU_SPREAD
from branchline.lab.simulation.job_plan import Block, BlockPlan, ReadingAhead, plans_of
from branchline.lab.simulation.platform import Link, Nodes, Platform, Storage, load_platform
from branchline.lab.simulation.simulated_jobs import JobsAtOnce, JobsRequest, counts_between, jobs_at_once
from branchline.reading.access import Access
from branchline.records.sensors.this_process import cpu_count
from branchline.tracing.trace import Trace, read_trace
from branchline.tracing.trace_summary import summarise

#: Names of the storage element and the link on a platform that has one of each.
STORAGE, LINK = "storage", "shared by all"
#: Bandwidth of the network card of a worker node in bytes per second: more than any job uses.
CARD_BYTES_PER_S = 1.25e9
#: Conditions that need the layout of the files, which traces do not contain, with the fields that they set.
_OF_LAYOUT = {
    "access": "mode",
    "codec": "codec",
    "layout": "merged_bytes",
    "order=entry": "by_entry",
    "order=branch": "by_branch",
    "baskets": "basket_bytes",
    "branches": "branches",
    "cores": "cores",
    "gap": "gap_bytes",
    "tree-cache": "tree_cache_bytes",
    "buffer": "buffer_bytes",
}
#: Mean size of basket reads below which a program is assumed to read baskets one by one.
ONE_BY_ONE_BYTES = 256_000
#: Errors that are raised if files are gone or have changed since a job read them.
GONE = (MissingFileError, StorageError, BadFileError, NoSuchKeyError, DatasetError)


@dataclass(frozen=True)
class AdvisedWork:
    """Advice on some work. ``subject`` is the work with its files, or None if the files cannot be read. ``unsaid`` then
    says why, and what the advice leaves out.
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
    """Forecast some work under other conditions. The work is a directory of results, files to be read (with
    ``branches`` and ``access``), or a trace.

    ``conditions`` are written as on the command line: ``"rtt=63ms"``, ``"bandwidth=7MB/s"``, ``"access=prefetch"``,
    ``"codec=zstd:5"``, ``"layout=merged"``, ``"jobs=1000"``. The result has the time, CPU efficiency, bytes and
    requests ``now`` and ``then``, each with an interval. For a trace or concurrent ``jobs``, the result has a point for
    each number of jobs instead, and the number of jobs at which they slow each other down. ``platform`` is a TOML file
    that describes the shared resources; by default, jobs share one link. Raises OptionError and the errors of reading
    the files' metadata.

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
    """Return the forecast for a job or dataset, or the simulation of a trace or of concurrent jobs."""
    trace = _named_trace(location)
    if trace is not None:
        return _simulate_trace(trace, conditions, platform)
    subject = subject_of(location, branches, access)
    other = try_codec(conditions.codec, subject.files, subject.laid, subject.branches) if conditions.codec else None
    if conditions.jobs is not None or platform is not None:
        return _simulate_subject(subject, conditions, platform, other)
    return forecast_of(subject, conditions, other)


def advice_on(
    location: list[str],
    branches: tuple[str, ...] | None,
    access: Access | None,
    *,
    jobs: int = 1,
    is_cold: bool = False,
) -> AdvisedWork:
    """Return advice on a job, a dataset or a trace. If a job's files are gone, the advice uses only the job's record.

    ``jobs`` such jobs run concurrently. With ``is_cold``, files are read from the disk and not from the page cache.
    Raises the errors of reading a dataset or trace, and OptionError with ``is_cold`` for files that are not on a local
    disk.
    """
    trace = _named_trace(location)
    if trace is not None:
        subject = situated(subject_of_trace(location[0], trace, access), jobs, is_cold=is_cold)
        return AdvisedWork(advise(subject), subject)
    if len(location) > 1 or not is_job(location[0]):
        subject = situated(subject_of(location, branches, access), jobs, is_cold=is_cold)
        return AdvisedWork(advise(subject), subject)
    job = job_record(location[0])
    try:
        subject = situated(subject_of(location, branches, access), jobs, is_cold=is_cold)
    except GONE as error:
        unsaid = (
            f"the files of the job cannot be read: {error}\n"
            "Advice is by the record of the job alone. What another order, larger baskets or clusters, a merge or a "
            "codec would gain was tried on no file, and how baskets lie is not known."
        )
        return AdvisedWork(advise_without_files(job), None, unsaid)
    return AdvisedWork(advise(subject), subject)


# --- traces -----------------------------------------------------------------------------------------------------------


def _named_trace(location: list[str]) -> Trace | None:
    """Return the trace if the location is a local file with the suffix `.parquet`; None for other locations. Raises
    BadFileError for a Parquet file that is no trace, since forecasts and advice for data need ROOT files.
    """
    if len(location) != 1 or "://" in location[0] or Path(location[0]).suffix != ".parquet":
        return None
    return read_trace(Path(location[0]))


def subject_of_trace(location: str, trace: Trace, access: Access | None = None) -> Subject:
    """Return the reading of the files and branches that a traced program read, with the access mode closest to its
    reads.

    Raises OptionError for a trace without baskets, and the errors of reading.
    """
    found = summarise(trace)
    # Baskets that were read only because they lie between wanted baskets or at the start of a file are not wanted.
    wanted = [row for row in found.branches if row.branch and row.read_bytes > row.unwanted_bytes]
    branches = tuple(dict.fromkeys(row.branch for row in wanted))
    trees = Counter(row.tree for row in found.branches if row.tree)
    files = [row.file for row in found.files if row.basket_read_calls]
    if not branches or not files:
        raise OptionError(f"{location}: no baskets were read", hint="give a trace in which files were found")
    totals = found.totals
    mean = totals.basket_read_bytes / max(1, totals.basket_read_calls)
    chosen = access or Access()
    if chosen.mode == Access().mode and mean < ONE_BY_ONE_BYTES:
        chosen = replace(chosen, mode="plain")
    [(tree, _)] = trees.most_common(1)
    subject = subject_of([f"{file}:{tree}" for file in files], branches, chosen)
    return replace(subject, name=location)


# --- concurrent jobs --------------------------------------------------------------------------------------------------


def _simulate_trace(trace: Trace, conditions: Conditions, platform: Platform | None = None) -> JobsAtOnce:
    """Simulate concurrent jobs that each do the work in a trace, one job by default. Raises OptionError for conditions
    that traces do not support, such as another layout.
    """
    wrong = [name for name, field in _OF_LAYOUT.items() if getattr(conditions, field)]
    if wrong:
        hint = "give the job or its files; traces support rtt, bandwidth and jobs"
        raise OptionError(f"{wrong[0]} needs the layout of the files, which a trace does not contain", hint=hint)
    plans = tuple(plans_of(trace, _storage_name(platform)))
    return _simulate(plans, conditions, platform)


def _simulate_subject(
    subject: Subject, conditions: Conditions, platform: Platform | None = None, other: OtherCodec | None = None
) -> JobsAtOnce:
    """Simulate concurrent jobs that each do the work of a subject in one process. Raises the same errors as
    `what_if`.
    """
    work, rates = changed_work(subject, conditions, other)
    blocks: list[Block] = []
    ahead = 0
    storage = _storage_name(platform)
    for piece, plan in zip(work.pieces, work.plans, strict=True):
        costs = file_costs(piece, plan, rates)
        cpu_s = costs.open_s + costs.decode_s + costs.wagons_s
        calls = np.bincount(plan.call, weights=plan.size, minlength=plan.calls)
        parts = calls / max(1.0, float(calls.sum()))
        ranges = np.bincount(plan.call, minlength=plan.calls)
        rows = zip(calls.tolist(), (parts * cpu_s).tolist(), ranges.tolist(), strict=True)
        blocks += [Block(storage, size, seconds, operations) for size, seconds, operations in rows]
        ahead = max(ahead, plan.calls_in_flight if plan.opens_ahead else 0)
    round_trip_s = conditions.round_trip_s if conditions.round_trip_s is not None else rates.round_trip_s
    link = replace(conditions, round_trip_s=round_trip_s)
    if conditions.bytes_per_second is None and rates.bytes_per_second > 0:
        link = replace(link, bytes_per_second=rates.bytes_per_second)
    reading = ReadingAhead(requests_in_flight=max(1, ahead), blocks_ahead=ahead, threads=work.threads)
    whole = BlockPlan(tuple(blocks), reading, prepare_s=subject.fixed_s)
    return _simulate((whole,), link, platform)


def _simulate(plans: tuple[BlockPlan, ...], conditions: Conditions, platform: Platform | None) -> JobsAtOnce:
    jobs = conditions.jobs or 1
    if platform is None:
        # One storage element, reached over a link that all jobs share, and one slot per job on nodes like this machine.
        if conditions.bytes_per_second is None:
            hint = "give the bandwidth of the link that all jobs share, such as bandwidth=1GB/s, or a --platform"
            raise OptionError("the bandwidth to the storage is unknown", hint=hint)
        link = Link(LINK, conditions.bytes_per_second, conditions.round_trip_s or 0.0)
        cores = cpu_count()
        nodes = Nodes("nodes", -(-jobs // cores), cores, CARD_BYTES_PER_S)
        platform = Platform((Storage(STORAGE, links=(LINK,)),), (nodes,), links=(link,))
    request = JobsRequest(platform, plans, cpu_spread=CPU_SPREAD)
    return jobs_at_once(request, counts_between(1, jobs))


def _storage_name(platform: Platform | None) -> str:
    return platform.storages[0].name if platform and platform.storages else STORAGE
