"""Findings about jobs and failures: tails, missed forecasts, missing sub-jobs, failing replicas and bad machines.

A storage element or a machine is reported if its failure rate is significantly higher than the rate of all others.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from branchline.base.limits import (
    FINDINGS_FAILED_MIN,
    FINDINGS_FAILED_TIMES,
    FINDINGS_FALSE_RATE,
    FINDINGS_RUNS_MAX,
    FINDINGS_USUAL_FAILURES,
    FORECAST_MISSED_TIMES,
    TAIL_LONG_S,
    TAIL_LONG_SHARE,
    TAILS_TOLD_MAX,
    WAGON_EVENTS_TELLING,
)
from branchline.base.quantities import count, counted, duration, percent
from branchline.control.findings.finding import (
    BLACK_HOLE,
    FAILING_REPLICAS,
    MISSING_SUBJOBS,
    OVER_FORECAST,
    TAIL,
    Cell,
    Finding,
    SeenIn,
    address,
    times_words,
)
from branchline.control.findings.two_way import USUAL_SCATTER
from branchline.control.reports.periods import bounds, text_of
from branchline.control.reports.readings import Period
from branchline.lab.statistics import MEDIAN_ERROR, discoveries, p_of_more, proportion, robust_scale
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.remedies import Estimate, avoid_failing, send_again


def tails(connection: sqlite3.Connection, period: Period) -> list[Finding]:
    """Return findings for jobs with a long wait for their last few processes, sorted by decreasing lost time."""
    rows = connection.execute(
        "SELECT job, name, processes, job_tails.seconds, tail_s, lost_s FROM job_tails JOIN jobs ON jobs.id = job_id"
        " WHERE hour >= ? AND hour < ? AND tail_s >= ? AND tail_s >= ? * job_tails.seconds"
        " ORDER BY lost_s DESC LIMIT ?",
        (*_hours(period), TAIL_LONG_S, TAIL_LONG_SHARE, TAILS_TOLD_MAX),
    )
    findings = []
    for job, name, processes, seconds, tail_s, lost_s in rows:
        share = tail_s / seconds
        found = Finding(
            TAIL,
            f"{name or job[:8]} waited {duration(tail_s)} of its {duration(seconds)} for fewer than half of its"
            f" {processes} processes",
            [Cell(job=job)],
            SeenIn(1, 0),
            # The fraction is exact, so the interval has zero width.
            Estimate(share, share, share, 1.0),
            "of the job's time",
            evidence=f"/jobs/{job}",
            compared=[
                f"processes were idle for {duration(lost_s)}, {percent(lost_s, seconds * processes)} of their time"
            ],
            advice=remedies.LONG_TAIL,
        )
        findings.append(found)
    return findings


def missed_forecasts(connection: sqlite3.Connection, period: Period, forecasts: Mapping[str, float]) -> list[Finding]:
    """Return findings for wagons that need more CPU time per event than their trials predicted.

    ``forecasts`` has the predicted CPU seconds per event for each wagon name.
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
    found = [_forecast_finding(wagon, each, forecasts[wagon]) for wagon, each in sorted(runs.items())]
    return [one for one in found if one.estimate.low >= FORECAST_MISSED_TIMES]


def _forecast_finding(wagon: str, runs: list[tuple[int, float]], forecast_s: float) -> Finding:
    logs = np.log([cpu_s / events / forecast_s for events, cpu_s in runs])
    middle = float(np.median(logs))
    error = 1.96 * MEDIAN_ERROR * max(USUAL_SCATTER, robust_scale(logs)) / math.sqrt(len(runs))
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
    """Return findings for jobs that ended with failed sub-jobs. Failed sub-jobs can be resubmitted."""
    rows = connection.execute(
        "SELECT job, name, failed, subjobs FROM jobs WHERE ended >= ? AND ended < ? AND failed > 0 AND done > 0"
        " AND has_ended ORDER BY failed DESC LIMIT ?",
        (*_hours(period), TAILS_TOLD_MAX),
    )
    findings = []
    for job, name, failed, subjobs in rows:
        share = failed / subjobs
        found = Finding(
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
        findings.append(found)
    return findings


def failing_replicas(connection: sqlite3.Connection, period: Period) -> list[Finding]:
    """Return findings for storage elements whose replicas fail in a larger fraction of jobs than elsewhere."""
    rows = connection.execute(
        "SELECT element, total(failures > 0), count(*), count(*), sum(failures) FROM"
        " (SELECT element, sum(failures) AS failures FROM cells WHERE hour >= ? AND hour < ? GROUP BY job_id, element)"
        " GROUP BY element",
        _hours(period),
    )
    return _worse_than_others(
        [_Failures(name, int(failed), of, jobs, failures) for name, failed, of, jobs, failures in rows],
        _replica_finding,
    )


def black_holes(connection: sqlite3.Connection, period: Period) -> list[Finding]:
    """Return findings for machines on which a larger fraction of workers is lost than on other machines."""
    rows = connection.execute(
        "SELECT host, sum(lost), sum(workers + lost), count(*), sum(lost) FROM job_hosts WHERE hour >= ? AND hour < ?"
        " GROUP BY host",
        _hours(period),
    )
    return _worse_than_others([_Failures(*row) for row in rows], _host_finding)


@dataclass(frozen=True)
class _Failures:
    """Failed attempts at a storage element or on a machine: ``failed`` out of ``of`` attempts.

    For a storage element, an attempt is a job that reads from the element. For a machine, an attempt is a worker.
    ``count`` is the total number of failures.
    """

    name: str
    failed: int
    of: int
    jobs: int
    count: int


def _worse_than_others(
    tried: Sequence[_Failures], finding: Callable[[_Failures, Estimate, float, float], Finding]
) -> list[Finding]:
    """Return findings for storage elements or machines with a failure rate significantly above that of all others."""
    failed, of = sum(one.failed for one in tried), sum(one.of for one in tried)
    found = []
    for one in tried:
        others = of - one.of
        usual = max(FINDINGS_USUAL_FAILURES, (failed - one.failed) / others if others else 0.0)
        found.append((one, usual, p_of_more(one.failed, one.of, usual) if others else 1.0))
    counts = discoveries([p_value for *_, p_value in found], FINDINGS_FALSE_RATE)
    findings = []
    for (one, usual, p_value), does in zip(found, counts, strict=True):
        if does and one.failed >= FINDINGS_FAILED_MIN:
            share = proportion(one.failed, one.of)
            if share.low >= FINDINGS_FAILED_TIMES * usual:
                findings.append(finding(one, share, usual, p_value))
    return findings


def _replica_finding(one: _Failures, share: Estimate, usual: float, p_value: float) -> Finding:
    return Finding(
        FAILING_REPLICAS,
        f"files at {one.name} could not be read in {counted(one.failed, 'job')} of {one.of}",
        [Cell(storage_element=one.name)],
        SeenIn(one.jobs, one.count),
        share,
        "of the jobs",
        evidence=address(element=one.name),
        compared=[
            f"in {percent(usual, 1.0)} of the jobs at other storage elements",
            f"{counted(one.count, 'failure')} in all",
        ],
        advice=remedies.FAILING_REPLICAS,
        proposal=avoid_failing(one.name),
        p_value=p_value,
    )


def _host_finding(one: _Failures, share: Estimate, usual: float, p_value: float) -> Finding:
    return Finding(
        BLACK_HOLE,
        f"{counted(one.failed, 'worker')} of {one.of} were lost on {one.name}",
        [Cell(host=one.name)],
        SeenIn(one.jobs, 0),
        share,
        "of the workers",
        evidence=address(host=one.name),
        compared=[f"{percent(usual, 1.0)} of the workers on other machines"],
        advice=remedies.LOST_WORKERS,
        p_value=p_value,
    )


def _hours(period: Period) -> tuple[str, str]:
    begin, end = bounds(period)
    return text_of(begin), text_of(end)


#: Search functions that need no data except the jobs of a period.
OF_JOBS = (failing_replicas, black_holes, tails, failed_jobs)
