"""Remedies for problems found at sites, in storage systems, in jobs and in trial runs of wagons.

The module has a sentence for each problem, and corrections: actions for a storage element, a network path or a job that
is slow or failing, each with its estimated gain. The control room proposes them.
"""

from __future__ import annotations

from dataclasses import dataclass

from branchline.base.quantities import counted, duration
from branchline.records.sensors.job_measures import AVOID, STAGE

# --- sites, storage and network paths ---------------------------------------------------------------------------------

SLOW_SITE = "check its machines and its internal network; other sites read from the same storage at normal speed"
SLOW_SITE_OR_ITS_WAY = (
    "either its machines or its external network are slow: read some local files there to find out which"
)
SLOW_WAY_OF_SITE = "store or stage the data there, or check the site's connection to the external network"
SLOW_STORAGE = "check its servers and its network connection; avoid it for files that have replicas elsewhere"
SLOW_WAY_BETWEEN = "avoid the storage there for files with other replicas, or check the network path to it"
NOT_TOLD_APART = "the site or the storage is slow; there are too few other reads to tell which"
SLOWER_THAN_BEFORE = "ask what changed there: servers, load, or network"
WRONG_VALUES = "do not use files from there until the storage has been checked; compare checksums with other replicas"
UNREADABLE = "check that the storage answers and that it has the file of the reference job"
FAILING_REPLICAS = "check its servers; avoid it for files that have replicas elsewhere"
LOST_WORKERS = "remove this machine from the batch system until it has been checked"
READ_FROM_ELSEWHERE = (
    "list replicas with `branchline locate`, so that sub-jobs run near their files; or stage the files"
)

# --- how files are read -----------------------------------------------------------------------------------------------

READS_TOO_LARGE = "join ranges only over smaller gaps (--gap), or copy only the needed branches: `branchline slim`"
READS_TOO_SMALL = (
    "plan the reads (--access planned, or a TTreeCache in ROOT), so that each read is larger; or stage the files"
)

# --- jobs and wagons --------------------------------------------------------------------------------------------------

LONG_TAIL = "its report names the last sub-jobs: slow files, a slow machine, or sub-jobs that are too large"
SLOWER_THAN_TRIED = "repeat the trial: the sample of the dataset may be too short, or its first events too simple"
MISSING_SUBJOBS = "its page lists the causes; after fixing them, resubmit the missing sub-jobs"

# --- trials of wagons -------------------------------------------------------------------------------------------------

NO_EVENTS = "give the dataset a short sample that contains events"
MUCH_MEMORY = "fill histograms with fewer dimensions or bins, and keep no events between chunks"
MANY_BINS = "use fewer bins"
MANY_ROWS = "return rows as branchline.Table, which is streamed to disk"
LONG_FIRST_CHUNK = "compile or load less: cache the functions that numba compiles, and load files only once"
MANY_BRANCHES = "list only the branches that it needs in its attribute branches"
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
    return _of(STAGE_ELEMENT, site, element, lost_s, ", if these files were local, minus the time to copy them")


def avoid_slow(element: str, lost_s: Estimate, site: str = "") -> Correction:
    """Return a correction for a storage element that is slow, either for all workers or only for those at ``site``."""
    if site:
        return _of(AVOID_ELEMENT, site, element, lost_s, f" at {site}, where the files have replicas elsewhere")
    return _of(AVOID_ELEMENT, site, element, lost_s, ", where its files have replicas elsewhere")


def avoid_failing(element: str) -> Correction:
    """Return a correction for a storage element whose files cannot be read."""
    return Correction(AVOID_ELEMENT, "", element, gain="no waits for failing replicas")


def send_again(job: str, failed: int) -> Correction:
    """Return a correction for a job that ended without the results of ``failed`` sub-jobs."""
    return Correction(SEND_AGAIN, job=job, gain=f"the results of {counted(failed, 'sub-job')}")


def _of(kind: str, site: str, element: str, lost_s: Estimate, where: str) -> Correction:
    return Correction(kind, site, element, gain=f"up to {duration(lost_s.value)} of workers{where}", gain_s=lost_s)
