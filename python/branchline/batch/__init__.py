"""Batch systems: Slurm and HTCondor submit steps of tasks, each step after the one before, and say how tasks stand.

Nothing in here knows what a train is.
"""

from branchline.batch.site import Site, load_site
from branchline.batch.system import (
    BatchError,
    BatchSystem,
    Step,
    Submitted,
    TaskState,
    batch_system,
    is_batch_system,
)

__all__ = [
    "BatchError",
    "BatchSystem",
    "Site",
    "Step",
    "Submitted",
    "TaskState",
    "batch_system",
    "is_batch_system",
    "load_site",
]
