"""What might be done about a storage, a way or a job that was found to be slow or to fail, and what that would gain.

Rooms that find what is wrong take what they propose about it from here.
"""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.quantities import counted, duration
from branchline.records.sensors.job_measures import AVOID, STAGE

# Kinds of corrections; jobs know the first two.
AVOID_ELEMENT, STAGE_ELEMENT = AVOID, STAGE
SEND_AGAIN = "send-again"
ACTIONS = (AVOID_ELEMENT, STAGE_ELEMENT, SEND_AGAIN)


@dataclass(frozen=True)
class Estimate:
    """An estimate, and the interval that holds the true value with the probability ``level``."""

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0
    level: float = 0.95


@dataclass(frozen=True)
class Correction:
    """A corrective action, for jobs at ``site`` (all if it is empty) that read from ``storage_element``, or for
    ``job``. ``gain`` says what it would gain; ``gain_s`` is that in seconds of workers in the time that was looked at.
    """

    kind: str
    site: str = ""
    storage_element: str = ""
    job: str = ""
    gain: str = ""
    gain_s: Estimate = Estimate()


def stage_from_afar(site: str, element: str, lost_s: Estimate) -> Correction:
    """For a site whose way to a storage is slow; ``lost_s`` is what the workers there lose to that."""
    return _of(STAGE_ELEMENT, site, element, lost_s, ", if the same files were read at the speed of other sites")


def stage_remote(site: str, element: str, lost_s: Estimate) -> Correction:
    """For a site that reads from elsewhere what it might have itself."""
    return _of(STAGE_ELEMENT, site, element, lost_s, ", if these files were local; less what copying them takes")


def avoid_slow(element: str, lost_s: Estimate, site: str = "") -> Correction:
    """For a storage that is slow, or only for workers at one site."""
    if site:
        return _of(AVOID_ELEMENT, site, element, lost_s, f" at {site}, where the files have replicas elsewhere")
    return _of(AVOID_ELEMENT, site, element, lost_s, ", where its files have replicas elsewhere")


def avoid_failing(element: str) -> Correction:
    """For a storage at which files cannot be read."""
    return Correction(AVOID_ELEMENT, "", element, gain="no waiting for replicas that fail")


def send_again(job: str, failed: int) -> Correction:
    """For a job that ended without so many of its sub-jobs."""
    return Correction(SEND_AGAIN, job=job, gain=f"the results of {counted(failed, 'sub-job')}")


def _of(kind: str, site: str, element: str, lost_s: Estimate, where: str) -> Correction:
    return Correction(kind, site, element, gain=f"up to {duration(lost_s.value)} of workers{where}", gain_s=lost_s)
