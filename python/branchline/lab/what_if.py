"""`branchline.what_if`: the forecast of some work under other conditions, and advice on it.

The work is a job, a dataset, or a trace. Traces and concurrent jobs are simulated on a platform, or on one link that
all of them share. Advice on a traced program is advice on reading the files and branches that it has read.
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
from branchline.lab.forecast.subject import Subject, is_job, job_record, subject_of
from branchline.lab.limits import CPU_SPREAD
from branchline.lab.simulation.job_plan import Block, BlockPlan, ReadingAhead, plans_of
from branchline.lab.simulation.platform import Link, Nodes, Platform, Storage, load_platform
from branchline.lab.simulation.simulated_jobs import JobsAtOnce, JobsRequest, counts_between, jobs_at_once
from branchline.reading.access import Access
from branchline.records.sensors.this_process import cpu_count
from branchline.tracing.trace import Trace, read_trace
from branchline.tracing.trace_summary import summarise

#: Names of the storage and the link of a platform that has only these.
STORAGE, LINK = "storage", "shared by all"
#: Bandwidth of the network card of a worker node: more than any job takes.
CARD_BYTES_PER_S = 1.25e9
#: Conditions that need the files' layout, which a trace does not have, and their fields.
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
#: Mean size of a program's reads of baskets below which it reads them one by one.
ONE_BY_ONE_BYTES = 256_000
#: Errors raised where files are gone, or have changed since a job read them.
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
    trace = _named_trace(location)
    if trace is not None:
        return _simulate_trace(trace, conditions, platform)
    subject = subject_of(location, branches, access)
    other = try_codec(conditions.codec, subject.files, subject.laid, subject.branches) if conditions.codec else None
    if conditions.jobs is not None or platform is not None:
        return _simulate_subject(subject, conditions, platform, other)
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


# --- traces -----------------------------------------------------------------------------------------------------------


def _named_trace(location: list[str]) -> Trace | None:
    """The trace that is named; None where something else is."""
    if len(location) != 1 or "://" in location[0] or Path(location[0]).suffix != ".parquet":
        return None
    try:
        return read_trace(Path(location[0]))
    except BadFileError:
        return None


def is_trace(location: str) -> bool:
    """Whether a location is a trace, by its ending."""
    return location.endswith(".parquet")


def subject_of_trace(location: str, access: Access | None = None) -> Subject:
    """The files and branches that a traced program has read, and the access mode that reads most as it did.

    Raises OptionError for a trace without baskets, and what reading raises.
    """
    found = summarise(read_trace(Path(location)))
    # Baskets that only lie between others, or in the first bytes of a file, are not what the program wants.
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


# --- jobs at once -----------------------------------------------------------------------------------------------------


def _simulate_trace(trace: Trace, conditions: Conditions, platform: Platform | None = None) -> JobsAtOnce:
    """The jobs of a trace at once; one if the conditions name no number. Raises OptionError for conditions that a trace
    cannot answer, as those of another layout.
    """
    wrong = [name for name, field in _OF_LAYOUT.items() if getattr(conditions, field)]
    if wrong:
        hint = "name the job or its files for this; a trace answers rtt, bandwidth and jobs"
        raise OptionError(f"a trace does not know how its files lie, so it cannot answer {wrong[0]}", hint=hint)
    plans = tuple(plans_of(trace, _storage_name(platform)))
    return _simulate(plans, conditions, platform)


def _simulate_subject(
    subject: Subject, conditions: Conditions, platform: Platform | None = None, other: OtherCodec | None = None
) -> JobsAtOnce:
    """Jobs at once of which each does the work of a subject in one process. Raises as `what_if` does."""
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
    request = JobsRequest(platform or _one_link(conditions, jobs), plans, cpu_spread=CPU_SPREAD)
    return jobs_at_once(request, counts_between(1, jobs))


def _one_link(conditions: Conditions, jobs: int) -> Platform:
    """A storage behind one link that all jobs share, and a slot for each job on nodes like this machine."""
    if conditions.bytes_per_second is None:
        hint = "say bandwidth=1GB/s, that of the link that all jobs share, or name a --platform"
        raise OptionError("the bandwidth to the storage is not known", hint=hint)
    link = Link(LINK, conditions.bytes_per_second, conditions.round_trip_s or 0.0)
    cores = cpu_count()
    nodes = Nodes("nodes", -(-jobs // cores), cores, CARD_BYTES_PER_S)
    return Platform((Storage(STORAGE, links=(LINK,)),), (nodes,), links=(link,))


def _storage_name(platform: Platform | None) -> str:
    return platform.storages[0].name if platform and platform.storages else STORAGE
