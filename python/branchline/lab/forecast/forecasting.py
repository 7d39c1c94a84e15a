"""Forecast the time, CPU efficiency, bytes and requests of some work, under present and under other conditions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from branchline.base.quantities import duration, rate
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
from branchline.lab.forecast.model import Costs, JobWork, costs, unexplained, usual_saving_s
from branchline.lab.forecast.planned_requests import PlanRequest, pieces_of, planned_pieces
from branchline.lab.forecast.rates import OtherCodec, Rates
from branchline.lab.forecast.subject import Subject
from branchline.reading.access import Access

FORECAST_VERSION = 1
#: Relative error of the model for a change by a factor of e, used until enough forecasts were checked.
MODEL_ERROR = 0.15
#: Half width of a 90 % interval of a normal distribution, in standard deviations.
NINETY = 1.645
#: Minimum relative uncertainty of a time: on a busy machine, the times of equal jobs differ by this much.
LEAST_ERROR = 0.03

#: Maximum time in seconds that a server is assumed to need for a call. The rest of a measured round trip is the
#: network.
CALL_S_MAX = 1e-3
#: Round trip in seconds above which storage counts as remote. The speed of nearer storage is limited by this machine
#: and the server.
FAR_S = 1e-3
_NONE = Errors(0.0, 0.0)


@dataclass(frozen=True)
class Interval:
    """A number and its 90 % interval."""

    value: float
    low: float
    high: float

    def holds(self, value: float) -> bool:
        """Return whether the interval contains a measured value."""
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Expected:
    """Expected wall time in seconds, CPU efficiency (CPU time divided by the wall time of all workers), number of bytes
    read and number of requests.
    """

    wall_s: Interval
    cpu_efficiency: Interval
    bytes_read: Interval
    requests: Interval


@dataclass(frozen=True)
class WhatIf:
    """A forecast of some work under present conditions (``now``) and under other conditions (``then``).

    ``gain`` is the fraction of time saved, negative if the work takes longer. ``is_measured`` is true if the present
    time was measured in a job. ``basis`` lists the sources of the forecast.
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
    """The modelled costs of some work, and the link over which it reads."""

    costs: Costs
    work: JobWork
    round_trip_s: float
    bytes_per_s: float


def what_if(subject: Subject, conditions: Conditions, other: OtherCodec | None = None) -> WhatIf:
    """Forecast some work under other conditions.

    ``other`` is the measured effect of the codec in ``conditions``. Raises OptionError for conditions that the model
    does not cover, and the errors of reading metadata.

    For a job, the present time is the measured one. The difference between the measured and the modelled time is
    assumed not to change: it is added to the new modelled time if it is positive; otherwise the new modelled time is
    scaled by the ratio of measured to modelled time. For a dataset, the unexplained time is that of its sample: a part
    per process, per chunk (so fewer files have less unexplained time) and per basket. The interval comes from the
    errors of earlier forecasts.
    """
    if conditions.jobs is not None:
        raise OptionError("concurrent jobs need a simulation; the model is for one job")
    before, after = _estimate(subject, Conditions(), None), _estimate(subject, conditions, other)
    job = subject.job
    fixed_s = subject.fixed_s
    modelled_s = before.costs.wall_s - fixed_s
    unknown = unexplained(subject, _modelled)
    measured_s = job.wall_s - fixed_s if job else modelled_s + unknown.of(before.work)
    # Workers also share the unexplained time.
    of_job_s = max(0.0, measured_s - modelled_s) * before.work.workers / after.work.workers
    # Fewer files also save the calibrated overhead per file that is not spent on opening.
    fewer = before.work.scale * (len(before.work.files) - len(after.work.files))
    handing_s = fewer * max(0.0, subject.rates.file_s - subject.rates.open_s) / max(1, after.work.workers)
    saved_s = handing_s + usual_saving_s(before.work, after.work)
    unexplained_s = max(0.0, of_job_s - saved_s) if job else unknown.of(after.work)
    excess = min(1.0, measured_s / max(1e-9, modelled_s))
    then_s = fixed_s + (after.costs.wall_s - fixed_s) * excess + unexplained_s
    factor = (then_s - fixed_s) / max(1e-9, measured_s)
    then = _interval(then_s, _errors(subject, after, factor))
    now = _interval(fixed_s + measured_s, _NONE if job else _errors(subject, before, 1.0))
    whole_s = max(1e-9, fixed_s + measured_s)
    # The spread between files affects both times equally, so only the factor contributes to the error of the gain.
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


def _modelled(subject: Subject) -> tuple[Costs, JobWork]:
    """Model a subject under its present conditions."""
    found = _estimate(subject, Conditions(), None)
    return found.costs, found.work


def _estimate(subject: Subject, conditions: Conditions, other: OtherCodec | None) -> _Estimate:
    work, rates = changed_work(subject, conditions, other)
    return _Estimate(costs(work, rates), work, rates.round_trip_s, rates.bytes_per_second)


def changed_work(subject: Subject, conditions: Conditions, other: OtherCodec | None = None) -> tuple[JobWork, Rates]:
    """Return a subject's work under other conditions, with its planned requests, and its rates."""
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
        raise OptionError(f"the codec {conditions.codec} was not measured")
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
        # A local disk never has such a long round trip, but a mounted file system may.
        laid = [at_a_server(one) if one.is_near else one for one in laid]
    return laid


def _changed_rates(rates: Rates, conditions: Conditions, other: OtherCodec | None) -> Rates:
    near_rate = rates.bytes_per_second if rates.round_trip_s < FAR_S else 0.0
    if conditions.round_trip_s is not None:
        # The measured round trip includes the server's time for a call, which remains in addition to the round trip of
        # a longer distance.
        call_s = max(rates.call_s, min(rates.round_trip_s, CALL_S_MAX))
        rates = replace(rates, round_trip_s=conditions.round_trip_s, call_s=call_s)
    if conditions.bytes_per_second is not None:
        bytes_per_second = conditions.bytes_per_second
        if bytes_per_second > 0 and near_rate > 0:
            # Receiving takes as long as from nearby storage, and does not overlap with the transfer.
            bytes_per_second = 1 / (1 / bytes_per_second + 1 / near_rate)
        rates = replace(rates, bytes_per_second=bytes_per_second)
    if other is not None:
        own = max(rates.decompress_s_per_byte.values(), default=0.0)
        known = {**rates.decompress_s_per_byte, other.codec: own * other.decompress_factor}
        decode_s = rates.decode_s_per_byte * other.decode_factor
        rates = replace(rates, decompress_s_per_byte=known, decode_s_per_byte=decode_s)
    return rates


def _work(subject: Subject, laid: list[LaidFile], request: PlanRequest, conditions: Conditions) -> JobWork:
    workers, threads = subject.workers, subject.threads
    if conditions.cores is not None:
        # For a reader, the cores are additional threads; for a train, there is one worker per core.
        workers, threads = (conditions.cores, threads) if subject.job else (workers, conditions.cores)
    threads = conditions.threads or threads
    cores = subject.cores
    if conditions.cores is not None:
        cores = max(conditions.cores, min(cores, workers * threads))
    pieces = pieces_of(laid, max(1, workers), learns_by_cache=request.access.mode == "cache")
    return JobWork(
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
    # Requests depend on the layout, not on rates, so only files whose metadata were not read add uncertainty.
    unseen = Errors(-_unseen(subject), _unseen(subject))
    return Expected(
        wall_s=wall,
        cpu_efficiency=Interval(*efficiency),
        bytes_read=_interval(estimate.work.bytes_read, unseen),
        requests=_interval(estimate.work.requests, unseen),
    )


def _errors(subject: Subject, estimate: _Estimate, factor: float) -> Errors:
    """Return the errors of the forecast time. For a measured job, only the effect of the change is uncertain."""
    seen = subject.errors or usual_errors(estimate.round_trip_s, estimate.bytes_per_s)
    if subject.job is not None:
        # The error grows with the change, but never exceeds the error of forecasts without a job.
        changed = min(MODEL_ERROR * abs(math.log(max(factor, 1e-9))), max(-seen.low, seen.high, 0.0) / NINETY)
        error = NINETY * math.hypot(subject.rates.spread, changed, LEAST_ERROR)
        return Errors(-error, error)
    unseen = _unseen(subject)
    return Errors(seen.low - unseen, seen.high + unseen)


def _unseen(subject: Subject) -> float:
    """Return the relative uncertainty that comes from files whose metadata were not read."""
    return 0.0 if subject.scale == 1 else NINETY * subject.rates.spread


def _interval(value: float, errors: Errors) -> Interval:
    """Return a value with the interval that results from logarithmic errors."""
    return Interval(value, value * math.exp(errors.low), value * math.exp(errors.high))


def _basis(subject: Subject, before: _Estimate) -> tuple[str, ...]:
    rates, job = subject.rates, subject.job
    link = f"round trip {duration(rates.round_trip_s)}, {rate(rates.bytes_per_second, 1)} for each worker"
    where = "from the record of the job" if job else "measured on a sample"
    lines = [
        f"requests and bytes: planned from the metadata of {len(subject.laid)} of {len(subject.files)} files",
        f"rates: {where}: {link}",
    ]
    if subject.errors and not job:
        lines.append(f"intervals: errors of {subject.errors.pairs} forecasts that were checked on this machine")
    if subject.calibrated:
        lines.append(f"other codecs: calibration of this machine, {subject.calibrated}")
    if job:
        off = before.costs.wall_s / max(1e-9, job.wall_s)
        lines.append(
            f"model alone: {before.costs.wall_s:.3g} s for the job, which took {job.wall_s:.3g} s (ratio {off:.2f})"
        )
    return tuple(lines)
