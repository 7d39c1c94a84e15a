"""Jobs: a callable, sub-jobs for it to work on, and the places where that can happen.

Nothing in here knows what a train is.
"""

from branchline.jobs.heartbeat import READING
from branchline.jobs.here import InThisProcess
from branchline.jobs.interruption import Interruption
from branchline.jobs.local import LocalProcesses
from branchline.jobs.subjob import (
    WAIT,
    Context,
    Draw,
    Finished,
    Lost,
    Message,
    Note,
    Place,
    SubJob,
    Told,
    Wait,
    Work,
    WorkerDiedError,
)

__all__ = [
    "READING",
    "WAIT",
    "Context",
    "Draw",
    "Finished",
    "InThisProcess",
    "Interruption",
    "LocalProcesses",
    "Lost",
    "Message",
    "Note",
    "Place",
    "SubJob",
    "Told",
    "Wait",
    "Work",
    "WorkerDiedError",
]
