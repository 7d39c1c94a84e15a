"""Jobs: a callable, sub-jobs for it to work on, and the places where that can happen.

Nothing in here knows what a train is.
"""

from branchline.jobs.fold_tree import FoldNode, FoldTree
from branchline.jobs.heartbeat import READING
from branchline.jobs.in_process import InThisProcess
from branchline.jobs.interruption import Interruption
from branchline.jobs.local import LocalProcesses
from branchline.jobs.pool import PoolError
from branchline.jobs.pooled import PooledWorkers
from branchline.jobs.program import ModuleFile, Source
from branchline.jobs.starting import load_for_workers
from branchline.jobs.subjob import (
    WAIT,
    Context,
    Draw,
    Finished,
    Folded,
    FromPlace,
    Held,
    Lost,
    Message,
    Note,
    Place,
    Repeated,
    SubJob,
    Wait,
    Work,
    WorkerDiedError,
)
from branchline.jobs.where import OnPool, Terms, Where, clock_of, place_on, where_of

__all__ = [
    "READING",
    "WAIT",
    "Context",
    "Draw",
    "Finished",
    "FoldNode",
    "FoldTree",
    "Folded",
    "FromPlace",
    "Held",
    "InThisProcess",
    "Interruption",
    "LocalProcesses",
    "Lost",
    "Message",
    "ModuleFile",
    "Note",
    "OnPool",
    "Place",
    "PoolError",
    "PooledWorkers",
    "Repeated",
    "Source",
    "SubJob",
    "Terms",
    "Wait",
    "Where",
    "Work",
    "WorkerDiedError",
    "clock_of",
    "load_for_workers",
    "place_on",
    "where_of",
]
