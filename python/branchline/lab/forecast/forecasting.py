"""A forecast: the time, CPU efficiency, bytes and requests of some work now, and under other conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from branchline.errors import OptionError
from branchline.lab.forecast.changed_layout import (
    at_a_server,
    in_order_of_branches,
    in_order_of_entries,
    merged,
    with_clusters_of,
    with_larger_baskets,
    with_other_sizes,
)
from branchline.lab.forecast.checked import Errors, usual_errors
from branchline.lab.forecast.conditions import Conditions
from branchline.lab.forecast.laid_file import LaidFile, laid_file
from branchline.lab.forecast.model import Costs, Work, costs, unexplained, usual_saving_s
from branchline.lab.forecast.planned_requests import PlanRequest, pieces_of, planned_pieces
from branchline.lab.forecast.rates import OtherCodec, Rates
from branchline.lab.forecast.subject import Subject
from branchline.reading.access import Access

FORECAST_VERSION = 1
#: The error of the model for a change by a factor of e, as a part, until pairs of forecasts and measurements say more.
MODEL_ERROR = 0.15
#: Half the width of a 90 % interval of a normal distribution, in standard deviations.
NINETY = 1.645
#: The least part by which a time is uncertain: jobs that do the same differ by so much on a busy machine.
LEAST_ERROR = 0.03

#: A server takes less than this for a call: the rest of a measured round trip is the way to it.
CALL_S_MAX = 1e-3
#: Of a storage that is nearer, the speed is that of this machine and of the server.
FAR_S = 1e-3
_NONE = Errors(0.0, 0.0)


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
    """What the model says of some work over a link."""

    costs: Costs
    work: Work
    round_trip_s: float
    bytes_per_s: float


def what_if(subject: Subject, conditions: Conditions, other: OtherCodec | None = None) -> WhatIf:
    """The forecast of some work under other conditions. ``other`` is what was measured of the codec that the conditions
    name. Raises OptionError for conditions without a model, and what reading metadata raises.

    The time now is the measured one where there is a job. What the model does not know of, it is taken not to change:
    the difference between the measured and the modelled time now, if it is positive, is added to the modelled one then;
    a model that says more than was measured is scaled. For a dataset that difference is what its sample shows: a part
    for each process, one for each chunk, so that fewer files have less of it, and one for each basket. The interval is
    that of the errors of earlier forecasts.
    """
    if conditions.jobs is not None:
        raise OptionError("several jobs at once need a simulation, not the model of one job")
    before, after = _estimate(subject, Conditions(), None), _estimate(subject, conditions, other)
    job = subject.job
    fixed_s = subject.fixed_s
    modelled_s = before.costs.wall_s - fixed_s
    unknown = unexplained(subject, _modelled)
    measured_s = job.wall_s - fixed_s if job else modelled_s + unknown.of(before.work)
    # What is not explained is work too, which workers share.
    of_job_s = max(0.0, measured_s - modelled_s) * before.work.workers / after.work.workers
    saved_s = _handing_s(subject, before.work, after.work) + usual_saving_s(before.work, after.work)
    unexplained_s = max(0.0, of_job_s - saved_s) if job else unknown.of(after.work)
    excess = min(1.0, measured_s / max(1e-9, modelled_s))
    then_s = fixed_s + (after.costs.wall_s - fixed_s) * excess + unexplained_s
    factor = (then_s - fixed_s) / max(1e-9, measured_s)
    then = _interval(then_s, _errors(subject, after, factor))
    now = _interval(fixed_s + measured_s, _NONE if job else _errors(subject, before, 1.0))
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


def _handing_s(subject: Subject, before: Work, after: Work) -> float:
    """The seconds of a job that fewer files save, or more of them take, besides opening them: as calibrated."""
    rates = subject.rates
    fewer = before.scale * (len(before.files) - len(after.files))
    return fewer * max(0.0, rates.file_s - rates.open_s) / max(1, after.workers)


def _modelled(subject: Subject) -> tuple[Costs, Work]:
    """What the model says of a subject as it is."""
    found = _estimate(subject, Conditions(), None)
    return found.costs, found.work


def _estimate(subject: Subject, conditions: Conditions, other: OtherCodec | None) -> _Estimate:
    work, rates = changed_work(subject, conditions, other)
    return _Estimate(costs(work, rates), work, rates.round_trip_s, rates.bytes_per_second)


def changed_work(subject: Subject, conditions: Conditions, other: OtherCodec | None = None) -> tuple[Work, Rates]:
    """The work of a subject under other conditions, with its planned requests, and the rates there."""
    laid = _changed_files(subject, conditions, other)
    rates = _changed_rates(subject.rates, conditions, other)
    link = (rates.round_trip_s, rates.bytes_per_second) if rates.round_trip_s > 0 else None
    request = PlanRequest(
        access=_changed_access(subject.access, conditions),
        link=link,
        step_entries=subject.step_entries,
        has_even_steps=subject.step_entries is not None,
        memory_limit_bytes=subject.stream_bytes,
        threads=subject.threads,
        is_named=subject.branches is not None or conditions.branches is not None,
    )
    return _work(subject, laid, request, conditions), rates


def _changed_access(access: Access, conditions: Conditions) -> Access:
    def either(changed: int | None, now: int | str | None) -> int | str | None:
        return now if changed is None else changed

    return replace(
        access,
        mode=conditions.mode or access.mode,
        gap=either(conditions.gap_bytes, access.gap),
        tree_cache=access.tree_cache if conditions.tree_cache_bytes is None else conditions.tree_cache_bytes,
        bytes_in_flight=either(conditions.buffer_bytes, access.bytes_in_flight),
    )


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
    elif conditions.cluster_bytes is not None:
        laid = [with_clusters_of(one, conditions.cluster_bytes) for one in laid]
    elif conditions.by_entry:
        laid = [in_order_of_entries(one) for one in laid]
    elif conditions.by_branch:
        laid = [in_order_of_branches(one) for one in laid]
    if conditions.round_trip_s is not None and conditions.round_trip_s >= FAR_S:
        # So far away is no disk of this machine; a mounted file system may be.
        laid = [at_a_server(one) if one.is_near else one for one in laid]
    return laid


def _changed_rates(rates: Rates, conditions: Conditions, other: OtherCodec | None) -> Rates:
    near_rate = rates.bytes_per_second if rates.round_trip_s < FAR_S else 0.0
    if conditions.round_trip_s is not None:
        # What a server takes for a call is in the round trip that was measured; a long way is not.
        call_s = max(rates.call_s, min(rates.round_trip_s, CALL_S_MAX))
        rates = replace(rates, round_trip_s=conditions.round_trip_s, call_s=call_s)
    if conditions.bytes_per_second is not None:
        rates = replace(rates, bytes_per_second=_together(conditions.bytes_per_second, near_rate))
    if other is not None:
        own = max(rates.decompress_s_per_byte.values(), default=0.0)
        known = {**rates.decompress_s_per_byte, other.codec: own * other.decompress_factor}
        decode_s = rates.decode_s_per_byte * other.decode_factor
        rates = replace(rates, decompress_s_per_byte=known, decode_s_per_byte=decode_s)
    return rates


def _together(link: float, near: float) -> float:
    """Bytes per second over a link: receiving them takes what it takes from a near storage, and is not hidden."""
    return 1 / (1 / link + 1 / near) if link > 0 and near > 0 else link


def _work(subject: Subject, laid: list[LaidFile], request: PlanRequest, conditions: Conditions) -> Work:
    workers, threads = subject.workers, subject.threads
    if conditions.cores is not None:
        # A reader of its own uses more threads; a train has a worker for each core.
        workers, threads = (conditions.cores, threads) if subject.job else (workers, conditions.cores)
    threads = conditions.threads or threads
    cores = subject.cores
    if conditions.cores is not None:
        cores = max(conditions.cores, min(cores, workers * threads))
    pieces = pieces_of(laid, max(1, workers), learns_by_cache=request.access.mode == "cache")
    return Work(
        files=tuple(laid),
        pieces=tuple(pieces),
        plans=tuple(planned_pieces(pieces, request)),
        request=request,
        scale=subject.scale,
        workers=workers,
        threads=threads,
        cores=cores,
        fixed_s=subject.fixed_s,
    )


def _expected(wall: Interval, estimate: _Estimate, subject: Subject) -> Expected:
    cpu_s, workers = estimate.costs.cpu_s, estimate.costs.workers
    efficiency = [min(1.0, cpu_s / max(1e-9, one * workers)) for one in (wall.value, wall.high, wall.low)]
    # Requests follow from where baskets lie, and not from a rate: only files that were not looked at are uncertain.
    unseen = Errors(-_unseen(subject), _unseen(subject))
    return Expected(
        wall_s=wall,
        cpu_efficiency=Interval(*efficiency),
        bytes_read=_interval(estimate.work.bytes_read, unseen),
        requests=_interval(estimate.work.requests, unseen),
    )


def _errors(subject: Subject, estimate: _Estimate, factor: float) -> Errors:
    """Of the time then: of a job that was measured only the change is uncertain."""
    seen = subject.errors or usual_errors(estimate.round_trip_s, estimate.bytes_per_s)
    if subject.job is not None:
        # The more it changes the less is known; but no less than of reads that were forecast without a job.
        changed = min(MODEL_ERROR * abs(math.log(max(factor, 1e-9))), max(-seen.low, seen.high, 0.0) / NINETY)
        error = NINETY * math.hypot(subject.rates.spread, changed, LEAST_ERROR)
        return Errors(-error, error)
    unseen = _unseen(subject)
    return Errors(seen.low - unseen, seen.high + unseen)


def _unseen(subject: Subject) -> float:
    """What files that were not looked at may differ by."""
    return 0.0 if subject.scale == 1 else NINETY * subject.rates.spread


def _interval(value: float, errors: Errors) -> Interval:
    """With the errors of its logarithm."""
    return Interval(value, value * math.exp(errors.low), value * math.exp(errors.high))


def _basis(subject: Subject, before: _Estimate) -> tuple[str, ...]:
    rates, job = subject.rates, subject.job
    link = f"round trip {rates.round_trip_s * 1e3:.2g} ms, {rates.bytes_per_second / 1e6:.3g} MB/s for each worker"
    where = "in the record of the job" if job else "on a sample that was read"
    lines = [
        f"requests and bytes: planned on the metadata of {len(subject.laid)} of {len(subject.files)} files",
        f"rates: measured {where}: {link}",
    ]
    if subject.errors and not job:
        lines.append(f"intervals: the errors of {subject.errors.pairs} forecasts that were checked on this machine")
    if subject.calibrated:
        lines.append(f"codecs that were not met: a calibration of this machine, {subject.calibrated}")
    if job:
        off = before.costs.wall_s / max(1e-9, job.wall_s)
        lines.append(
            f"the model alone says {before.costs.wall_s:.3g} s for the job that took {job.wall_s:.3g} s ({off:.2f})"
        )
    return tuple(lines)
