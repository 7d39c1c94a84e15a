"""Remedies for problems found at sites, in storage systems, in jobs and in trial runs of wagons.

The module has a sentence for each problem, and corrections: actions for a storage element, a network path or a job that
is slow or failing, each with its estimated gain. The control room proposes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.quantities import counted, duration
from branchline.records.sensors.job_measures import AVOID, STAGE

# --- sites, storage and the ways between ------------------------------------------------------------------------------

SLOW_SITE = "look at its machines and its network inside; other sites read from the same storage as usual"
SLOW_SITE_OR_ITS_WAY = (
    "its machines and its way to elsewhere cannot be told apart: read some files there that are local"
)
SLOW_WAY_OF_SITE = "place data there, stage them, or look at the site's connection to the outside"
SLOW_STORAGE = "look at its servers and its connection; avoid it for files that have replicas elsewhere"
SLOW_WAY_BETWEEN = "avoid it there for files with other replicas, or look at the network between"
NOT_TOLD_APART = "there is too little else that was read by the one or from the other to tell which it is"
SLOWER_THAN_BEFORE = "ask what changed there: servers, load, or network"
FAILING_REPLICAS = "look at its servers; avoid it for files that have replicas elsewhere"
LOST_WORKERS = "take this machine out of the batch system until it was looked at"
READ_FROM_ELSEWHERE = (
    "list replicas with `branchline locate`, so that sub-jobs run where files are; or have files staged"
)

# --- how files are read -----------------------------------------------------------------------------------------------

READS_TOO_LARGE = (
    "read with smaller gaps between joined ranges (--gap), or copy the branches that are wanted: `branchline slim`"
)
READS_TOO_SMALL = (
    "have reads planned (--access planned, a TTreeCache in ROOT), so that each brings more; or stage files"
)

# --- jobs and wagons --------------------------------------------------------------------------------------------------

LONG_TAIL = "its report names the last sub-jobs: slow files, a slow machine, or sub-jobs that are too large"
SLOWER_THAN_TRIED = "try it again: the sample of the dataset may be too short, or its first events too simple"
MISSING_SUBJOBS = "its page has the causes; when they are mended, send what is missing again"

# --- wagons in their trial --------------------------------------------------------------------------------------------

NO_EVENTS = "give the dataset a short sample that has some"
MUCH_MEMORY = "fill histograms of fewer dimensions or bins, and keep no events between chunks"
MANY_BINS = "use fewer bins"
MANY_ROWS = "return rows as branchline.Table, which is streamed to disk"
LONG_FIRST_CHUNK = "compile or load less: cache what numba compiles, load files once"
MANY_BRANCHES = "name only those that it needs, in its attribute branches"
SLOWER_THAN_READING = "look for loops over events in Python; work on whole arrays instead"
WAITING_WAGON = "read no files and wait for no servers in process()"


# --- corrections ------------------------------------------------------------------------------------------------------

# Kinds of corrections; a running job can apply AVOID_ELEMENT and STAGE_ELEMENT itself.
AVOID_ELEMENT, STAGE_ELEMENT = AVOID, STAGE
SEND_AGAIN = "send-again"
ACTIONS = (AVOID_ELEMENT, STAGE_ELEMENT, SEND_AGAIN)


@dataclass(frozen=True)
class Estimate:
    """An estimated value, and the interval that contains the true value with the probability ``level``."""

    value: float = 0.0
    low: float = 0.0
    high: float = 0.0
    level: float = 0.95


@dataclass(frozen=True)
class Correction:
    """A corrective action for a site, a storage element or a job.

    It applies to ``job``, or to all jobs at ``site`` (empty for every site) that read from ``storage_element``.
    ``gain`` describes its benefit; ``gain_s`` is the benefit in worker seconds over the analysed time range.
    """

    kind: str
    site: str = ""
    storage_element: str = ""
    job: str = ""
    gain: str = ""
    gain_s: Estimate = Estimate()


def stage_from_afar(site: str, element: str, lost_s: Estimate) -> Correction:
    """Return a correction for a site with a slow path to a storage element.

    ``lost_s`` is the time that the site's workers lose.
    """
    return _of(STAGE_ELEMENT, site, element, lost_s, ", if the same files were read at the speed of other sites")


def stage_remote(site: str, element: str, lost_s: Estimate) -> Correction:
    """Return a correction for a site that reads data remotely although it could store the data locally."""
    return _of(STAGE_ELEMENT, site, element, lost_s, ", if these files were local; less what copying them takes")


def avoid_slow(element: str, lost_s: Estimate, site: str = "") -> Correction:
    """Return a correction for a storage element that is slow, either for all workers or only for those at ``site``."""
    if site:
        return _of(AVOID_ELEMENT, site, element, lost_s, f" at {site}, where the files have replicas elsewhere")
    return _of(AVOID_ELEMENT, site, element, lost_s, ", where its files have replicas elsewhere")


def avoid_failing(element: str) -> Correction:
    """Return a correction for a storage element whose files cannot be read."""
    return Correction(AVOID_ELEMENT, "", element, gain="no waiting for replicas that fail")


def send_again(job: str, failed: int) -> Correction:
    """Return a correction for a job that ended without the results of ``failed`` sub-jobs."""
    return Correction(SEND_AGAIN, job=job, gain=f"the results of {counted(failed, 'sub-job')}")


def _of(kind: str, site: str, element: str, lost_s: Estimate, where: str) -> Correction:
    return Correction(kind, site, element, gain=f"up to {duration(lost_s.value)} of workers{where}", gain_s=lost_s)
