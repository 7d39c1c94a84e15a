"""So many jobs like one at once: from a trace, from a job, or from files that are to be read."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from branchline.errors import BadFileError, OptionError
from branchline.lab.forecast.conditions import Conditions
from branchline.lab.forecast.forecasting import changed_work
from branchline.lab.forecast.model import Work, file_costs
from branchline.lab.forecast.other_codec import OtherCodec
from branchline.lab.forecast.subject import Subject
from branchline.lab.simulated_limits import CPU_SPREAD
from branchline.lab.simulation.job_plan import Block, BlockPlan, ReadingAhead, plans_of
from branchline.lab.simulation.platform import Link, Nodes, Platform, Storage
from branchline.lab.simulation.simulated_jobs import JobsAtOnce, JobsRequest, counts_between, jobs_at_once
from branchline.records.sensors.this_process import cpu_count
from branchline.tracing.trace import Trace, read_trace

#: The storage and the link of a platform that is none but these.
STORAGE, LINK = "storage", "shared by all"
#: What a network card of a worker node passes: more than any job takes.
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


def trace_of(location: list[str]) -> Trace | None:
    """The trace that is named; None where something else is."""
    if len(location) != 1 or "://" in location[0] or Path(location[0]).suffix != ".parquet":
        return None
    try:
        return read_trace(Path(location[0]))
    except BadFileError:
        return None


def of_trace(trace: Trace, conditions: Conditions, platform: Platform | None = None) -> JobsAtOnce:
    """The jobs of a trace at once; one if the conditions name no number. Raises OptionError for conditions that a trace
    cannot answer, as those of another layout.
    """
    wrong = [name for name, field in _OF_LAYOUT.items() if getattr(conditions, field)]
    if wrong:
        hint = "name the job or its files for this; a trace answers rtt, bandwidth and jobs"
        raise OptionError(f"a trace does not know how its files lie, so it cannot answer {wrong[0]}", hint=hint)
    plans = tuple(plans_of(trace, _storage_name(platform)))
    return _at_once(plans, conditions, platform)


def of_subject(
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
    whole = BlockPlan(tuple(blocks), _reading(work, ahead), prepare_s=subject.fixed_s)
    return _at_once((whole,), link, platform)


def _reading(work: Work, ahead: int) -> ReadingAhead:
    if ahead == 0:
        return ReadingAhead(requests_in_flight=1, blocks_ahead=0, threads=work.threads)
    return ReadingAhead(requests_in_flight=ahead, blocks_ahead=ahead, threads=work.threads)


def _at_once(plans: tuple[BlockPlan, ...], conditions: Conditions, platform: Platform | None) -> JobsAtOnce:
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
