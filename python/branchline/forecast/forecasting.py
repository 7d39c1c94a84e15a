"""A forecast: the time, CPU efficiency, bytes and requests of some work now, and under other conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from branchline.errors import OptionError
from branchline.forecast.changed_layout import in_order_of_entries, merged, with_larger_baskets, with_other_sizes
from branchline.forecast.conditions import Conditions
from branchline.forecast.laid import LaidFile, laid_file
from branchline.forecast.model import Costs, Work, costs
from branchline.forecast.other_codec import OtherCodec
from branchline.forecast.planning import PlannedReads, PlanRequest, planned_in_order
from branchline.forecast.rates import Rates
from branchline.forecast.subject import Subject

FORECAST_VERSION = 1
#: The error of the model for a change by a factor of e, as a part, until pairs of forecasts and measurements say more.
MODEL_ERROR = 0.15
#: Half the width of a 90 % interval of a normal distribution, in standard deviations.
NINETY = 1.645
#: The least part by which a time is uncertain: jobs that do the same differ by so much on a busy machine.
LEAST_ERROR = 0.03


@dataclass(frozen=True)
class Interval:
    """A number with its 90 % interval."""

    value: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Whether a measured value is inside."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Expected:
    """What some work takes: seconds, CPU time over the wall time of all workers, bytes that are read, requests."""

    wall_s: Interval
    cpu_efficiency: Interval
    bytes_read: Interval
    requests: Interval


@dataclass(frozen=True)
class WhatIf:
    """A forecast: the same work ``now`` and ``then``. ``gain`` is the part of the time that is saved; negative where it
    takes longer. ``is_measured`` says that the time now is that of a job. ``basis`` says what it rests on.
    """

    subject: str
    conditions: Conditions
    now: Expected
    then: Expected
    gain: Interval
    is_measured: bool
    basis: tuple[str, ...]
    forecast_version: int = FORECAST_VERSION


@dataclass(frozen=True)
class _Estimate:
    """What the model says of some work."""

    costs: Costs
    work: Work


def what_if(subject: Subject, conditions: Conditions, other: OtherCodec | None = None) -> WhatIf:
    """The forecast of some work under other conditions. ``other`` is what was measured of the codec that the conditions
    name. Raises OptionError for conditions without a model, and what reading metadata raises.

    The time now is the measured one where there is a job; the model says by which factor the part that is not fixed
    changes. The interval of that factor is its logarithm's spread over the files of the record, and `MODEL_ERROR` for
    each factor of e by which it changes.
    """
    if conditions.jobs is not None:
        raise OptionError("several jobs at once need a simulation, not the model of one job")
    before, after = _estimate(subject, Conditions(), None), _estimate(subject, conditions, other)
    job = subject.job
    fixed_s = subject.fixed_s
    measured_s = job.wall_s - fixed_s if job else before.costs.wall_s - fixed_s
    factor = (after.costs.wall_s - fixed_s) / max(1e-9, before.costs.wall_s - fixed_s)
    then_s = fixed_s + measured_s * factor
    error = NINETY * math.hypot(subject.rates.spread, MODEL_ERROR * math.log(max(factor, 1e-9)), LEAST_ERROR)
    then = _interval(then_s, error)
    now = _interval(fixed_s + measured_s, 0.0 if job else NINETY * math.hypot(subject.rates.spread, MODEL_ERROR))
    whole_s = max(1e-9, fixed_s + measured_s)
    # Files differ now as they will then: of the gain only the factor is uncertain.
    own = abs(NINETY * MODEL_ERROR * math.log(max(factor, 1e-9)))
    gain = Interval(
        *(1 - (fixed_s + measured_s * factor * by) / whole_s for by in (1.0, math.exp(own), math.exp(-own)))
    )
    return WhatIf(
        subject=subject.name,
        conditions=conditions,
        now=_expected(now, before, subject),
        then=_expected(then, after, subject),
        gain=gain,
        is_measured=job is not None,
        basis=_basis(subject, before),
    )


def _estimate(subject: Subject, conditions: Conditions, other: OtherCodec | None) -> _Estimate:
    laid = _changed_files(subject, conditions, other)
    rates = _changed_rates(subject.rates, conditions, other)
    mode = conditions.mode or subject.access.mode
    link = (rates.round_trip_s, rates.bytes_per_second) if rates.round_trip_s > 0 else None
    request = PlanRequest(
        access=replace(subject.access, mode=mode),
        link=link,
        step_entries=subject.step_entries,
        memory_limit_bytes=subject.memory_limit_bytes,
        threads=subject.threads,
        is_named=subject.branches is not None or conditions.branches is not None,
    )
    plans = planned_in_order(laid, request)
    work = _work(subject, laid, plans, conditions)
    return _Estimate(costs(work, rates), work)


def _changed_files(subject: Subject, conditions: Conditions, other: OtherCodec | None) -> list[LaidFile]:
    laid = list(subject.laid)
    if conditions.branches is not None:
        by_path = {one.path: one for one in subject.files}
        laid = [laid_file(by_path[one.path], conditions.branches) for one in laid]
    if conditions.codec is not None and other is None:
        raise OptionError(f"nothing was measured of the codec {conditions.codec}")
    if other is not None:
        laid = [with_other_sizes(one, other.size_factor, other.codec) for one in laid]
    if conditions.merged_bytes is not None:
        laid = merged(laid, conditions.merged_bytes)
    if conditions.basket_bytes is not None:
        laid = [with_larger_baskets(one, conditions.basket_bytes) for one in laid]
    elif conditions.by_entry:
        laid = [in_order_of_entries(one) for one in laid]
    return laid


def _changed_rates(rates: Rates, conditions: Conditions, other: OtherCodec | None) -> Rates:
    if conditions.round_trip_s is not None:
        rates = replace(rates, round_trip_s=conditions.round_trip_s)
    if conditions.bytes_per_second is not None:
        rates = replace(rates, bytes_per_second=conditions.bytes_per_second)
    if other is not None:
        own = max(rates.decompress_s_per_byte.values(), default=0.0)
        known = {**rates.decompress_s_per_byte, other.codec: own * other.decompress_factor}
        rates = replace(rates, decompress_s_per_byte=known)
    return rates


def _work(subject: Subject, laid: list[LaidFile], plans: list[PlannedReads], conditions: Conditions) -> Work:
    scale = subject.scale
    workers, threads = subject.workers, subject.threads
    if conditions.cores is not None:
        # A reader of its own uses more threads; a train has a worker for each core.
        workers, threads = (conditions.cores, threads) if subject.job else (workers, conditions.cores)
    return Work(
        entries=round(scale * sum(one.entries for one in laid)),
        plain_bytes=scale * sum(one.plain_bytes for one in laid),
        bytes_read=round(scale * sum(one.bytes_read for one in plans)),
        requests=round(scale * sum(one.requests for one in plans)),
        trips=scale * sum(one.serial_trips() for one in plans) + workers * (plans[0].first_trips() if plans else 0),
        codec=laid[0].codec if laid else "",
        workers=workers,
        threads=threads,
        fixed_s=subject.fixed_s,
    )


def _expected(wall: Interval, estimate: _Estimate, subject: Subject) -> Expected:
    cpu_s, workers = estimate.costs.cpu_s, estimate.costs.workers
    efficiency = [min(1.0, cpu_s / max(1e-9, one * workers)) for one in (wall.value, wall.high, wall.low)]
    # Requests follow from where baskets lie, and not from a rate: only files that were not looked at are uncertain.
    unseen = 0.0 if subject.scale == 1 else NINETY * subject.rates.spread
    return Expected(
        wall_s=wall,
        cpu_efficiency=Interval(*efficiency),
        bytes_read=_interval(estimate.work.bytes_read, unseen),
        requests=_interval(estimate.work.requests, unseen),
    )


def _interval(value: float, error: float) -> Interval:
    """With an error of its logarithm."""
    return Interval(value, value * math.exp(-error), value * math.exp(error))


def _basis(subject: Subject, before: _Estimate) -> tuple[str, ...]:
    rates, job = subject.rates, subject.job
    link = f"round trip {rates.round_trip_s * 1e3:.2g} ms, {rates.bytes_per_second / 1e6:.3g} MB/s for each worker"
    where = "in the record of the job" if job else "on a sample that was read"
    lines = [
        f"requests and bytes: planned on the metadata of {len(subject.laid)} of {len(subject.files)} files",
        f"rates: measured {where}: {link}",
    ]
    if job:
        off = before.costs.wall_s / max(1e-9, job.wall_s)
        lines.append(
            f"the model alone says {before.costs.wall_s:.3g} s for the job that took {job.wall_s:.3g} s ({off:.2f})"
        )
    return tuple(lines)
