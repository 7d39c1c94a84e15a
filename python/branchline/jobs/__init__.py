"""Jobs: a callable, sub-jobs for it to work on, and the places where that can happen.

Nothing in here knows what a train is.
"""

from branchline.jobs.here import InThisProcess
from branchline.jobs.interruption import Interruption
from branchline.jobs.local import LocalProcesses
from branchline.jobs.subjob import (
    WAIT,
    Context,
    Draw,
    Finished,
    Message,
    Note,
    Place,
    SubJob,
    Wait,
    Work,
    WorkerDiedError,
)

__all__ = [
    "WAIT",
    "Context",
    "Draw",
    "Finished",
    "InThisProcess",
    "Interruption",
    "LocalProcesses",
    "Message",
    "Note",
    "Place",
    "SubJob",
    "Wait",
    "Work",
    "WorkerDiedError",
]
