"""What fails more than elsewhere: replicas at storage elements, and workers on machines."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from branchline.base.limits import (
    FINDINGS_FAILED_MIN,
    FINDINGS_FAILED_TIMES,
    FINDINGS_FALSE_RATE,
    FINDINGS_USUAL_FAILURES,
)
from branchline.base.quantities import counted, percent
from branchline.control.findings.finding import BLACK_HOLE, FAILING_REPLICAS, Cell, Finding, SeenIn
from branchline.control.findings.statistics import discoveries, p_of_more, share_interval
from branchline.control.findings.words import address
from branchline.control.reports.buckets import bounds, text_of
from branchline.control.reports.readings import Period
from branchline.records.diagnosis import remedies
from branchline.records.diagnosis.corrections import Estimate, avoid_failing


@dataclass(frozen=True)
class _Tried:
    """How many of ``of`` tries failed at a place, in how many jobs, with how many files or failures."""

    name: str
    failed: int
    of: int
    jobs: int
    count: int


def failing_replicas(connection: sqlite3.Connection, period: Period) -> list[Finding]:
    """Storage elements at which replicas fail in more jobs than at others."""
    rows = connection.execute(
        "SELECT element, total(failures > 0), count(*), count(*), sum(failures) FROM"
        " (SELECT element, sum(failures) AS failures FROM cells WHERE hour >= ? AND hour < ? GROUP BY job_id, element)"
        " GROUP BY element",
        _hours(period),
    )
    return _worse(
        [_Tried(name, int(failed), of, jobs, failures) for name, failed, of, jobs, failures in rows], _of_element
    )


def black_holes(connection: sqlite3.Connection, period: Period) -> list[Finding]:
    """Machines on which more workers are lost than on others."""
    rows = connection.execute(
        "SELECT host, sum(lost), sum(workers + lost), count(*), sum(lost) FROM job_hosts WHERE hour >= ? AND hour < ?"
        " GROUP BY host",
        _hours(period),
    )
    return _worse([_Tried(*row) for row in rows], _of_host)


def _worse(tried: Sequence[_Tried], finding: Callable[[_Tried, Estimate, float, float], Finding]) -> list[Finding]:
    """Those that fail more than all others together, beyond chance."""
    failed, of = sum(one.failed for one in tried), sum(one.of for one in tried)
    found = []
    for one in tried:
        others = of - one.of
        usual = max(FINDINGS_USUAL_FAILURES, (failed - one.failed) / others if others else 0.0)
        found.append((one, usual, p_of_more(one.failed, one.of, usual) if others else 1.0))
    counts = discoveries([p_value for *_, p_value in found], FINDINGS_FALSE_RATE)
    findings = []
    for (one, usual, p_value), does in zip(found, counts, strict=True):
        share = share_interval(one.failed, one.of) if one.of else Estimate(0, 0, 0)
        if does and one.failed >= FINDINGS_FAILED_MIN and share.low >= FINDINGS_FAILED_TIMES * usual:
            findings.append(finding(one, share, usual, p_value))
    return findings


def _of_element(one: _Tried, share: Estimate, usual: float, p_value: float) -> Finding:
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


def _of_host(one: _Tried, share: Estimate, usual: float, p_value: float) -> Finding:
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
