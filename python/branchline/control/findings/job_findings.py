"""Findings on single jobs and wagons: tails, and wagons that need more than their trial said."""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping

import numpy as np

from branchline.base.limits import (
    FINDINGS_RUNS_MAX,
    FORECAST_MISSED_TIMES,
    TAIL_LONG_S,
    TAIL_LONG_SHARE,
    TAILS_TOLD_MAX,
    WAGON_EVENTS_TELLING,
)
from branchline.base.quantities import count, counted, duration, percent
from branchline.control.findings.finding import MISSING_SUBJOBS, OVER_FORECAST, TAIL, Cell, Finding, SeenIn
from branchline.control.findings.statistics import MAD_TO_SIGMA, MEDIAN_ERROR
from branchline.control.findings.two_way import USUAL_SCATTER
from branchline.control.findings.words import times_words
from branchline.control.reports.buckets import bounds, text_of
from branchline.control.reports.readings import Period
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.corrections import Estimate, send_again


def tails(connection: sqlite3.Connection, period: Period) -> list[Finding]:
    """Jobs that waited long for a few last processes, those that lost most time first."""
    rows = connection.execute(
        "SELECT job, name, processes, job_tails.seconds, tail_s, lost_s FROM job_tails JOIN jobs ON jobs.id = job_id"
        " WHERE hour >= ? AND hour < ? AND tail_s >= ? AND tail_s >= ? * job_tails.seconds"
        " ORDER BY lost_s DESC LIMIT ?",
        (*_hours(period), TAIL_LONG_S, TAIL_LONG_SHARE, TAILS_TOLD_MAX),
    )
    return [_tail(*row) for row in rows]


def _tail(job: str, name: str, processes: int, seconds: float, tail_s: float, lost_s: float) -> Finding:
    share = tail_s / seconds
    return Finding(
        TAIL,
        f"{name or job[:8]} waited {duration(tail_s)} of its {duration(seconds)} for fewer than half of its {processes}"
        " processes",
        [Cell(job=job)],
        SeenIn(1, 0),
        # Measured, and not estimated.
        Estimate(share, share, share, 1.0),
        "of the job's time",
        evidence=f"/jobs/{job}",
        compared=[f"{duration(lost_s)} of processes stood still, {percent(lost_s, seconds * processes)} of all"],
        advice=remedies.LONG_TAIL,
    )


def missed_forecasts(connection: sqlite3.Connection, period: Period, forecasts: Mapping[str, float]) -> list[Finding]:
    """Wagons that take longer for an event than their trial did. ``forecasts`` are CPU seconds for an event, by their
    names.
    """
    rows = connection.execute(
        "SELECT wagon, events, cpu_s FROM wagon_runs WHERE hour >= ? AND hour < ? AND events >= ? ORDER BY job_id DESC"
        " LIMIT ?",
        (*_hours(period), WAGON_EVENTS_TELLING, FINDINGS_RUNS_MAX),
    )
    runs: dict[str, list[tuple[int, float]]] = {}
    for wagon, events, cpu_s in rows:
        if forecasts.get(wagon, 0.0) > 0 and cpu_s > 0:
            runs.setdefault(wagon, []).append((events, cpu_s))
    found = [_missed(wagon, each, forecasts[wagon]) for wagon, each in sorted(runs.items())]
    return [one for one in found if one.estimate.low >= FORECAST_MISSED_TIMES]


def _missed(wagon: str, runs: list[tuple[int, float]], forecast_s: float) -> Finding:
    logs = np.log([cpu_s / events / forecast_s for events, cpu_s in runs])
    middle = float(np.median(logs))
    spread = max(USUAL_SCATTER, MAD_TO_SIGMA * float(np.median(np.abs(logs - middle))))
    error = 1.96 * MEDIAN_ERROR * spread / math.sqrt(len(runs))
    times = Estimate(math.exp(middle), math.exp(middle - error), math.exp(middle + error))
    events, cpu_s = sum(one for one, _ in runs), sum(one for _, one in runs)
    return Finding(
        OVER_FORECAST,
        f"{wagon} takes {times_words(times)} as much CPU time for an event as in its trial",
        [Cell(wagon=wagon)],
        SeenIn(len(runs), 0),
        times,
        evidence=f"/jobs?wagon={wagon}",
        compared=[
            f"{duration(cpu_s / events)} for an event in {counted(len(runs), 'job')} with {count(events)} events,"
            f" {duration(forecast_s)} in its trial"
        ],
        advice=remedies.SLOWER_THAN_TRIED,
    )


def failed_jobs(connection: sqlite3.Connection, period: Period) -> list[Finding]:
    """Jobs that ended without all of their sub-jobs: what is missing may be sent again."""
    rows = connection.execute(
        "SELECT job, name, failed, subjobs FROM jobs WHERE ended >= ? AND ended < ? AND failed > 0 AND done > 0"
        " AND has_ended ORDER BY failed DESC LIMIT ?",
        (*_hours(period), TAILS_TOLD_MAX),
    )
    return [_partial(*row) for row in rows]


def _partial(job: str, name: str, failed: int, subjobs: int) -> Finding:
    share = failed / subjobs
    return Finding(
        MISSING_SUBJOBS,
        f"{name or job[:8]} ended without {counted(failed, 'sub-job')} of {subjobs}",
        [Cell(job=job)],
        SeenIn(1, 0),
        Estimate(share, share, share, 1.0),
        "of the sub-jobs",
        evidence=f"/jobs/{job}",
        advice=remedies.MISSING_SUBJOBS,
        proposal=send_again(job, failed),
    )


def _hours(period: Period) -> tuple[str, str]:
    begin, end = bounds(period)
    return text_of(begin), text_of(end)
