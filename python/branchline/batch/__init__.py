"""Batch systems: Slurm and HTCondor submit steps of tasks, each step after the one before, and report their states.

Nothing in here knows what a train is.
"""

from branchline.batch.memory import more_memory
from branchline.batch.site import Site, load_site
from branchline.batch.system import (
    BatchSystem,
    JobArray,
    Step,
    Submitted,
    TaskState,
    TooManyJobsError,
    batch_system,
    is_batch_system,
)

__all__ = [
    "BatchSystem",
    "JobArray",
    "Site",
    "Step",
    "Submitted",
    "TaskState",
    "TooManyJobsError",
    "batch_system",
    "is_batch_system",
    "load_site",
    "more_memory",
]
