"""Data classes of trains: orders, wagons, dataset, place and state; and the record of which wagons were in which train.

The trial key of each wagon in a train is stored, so that plans do not run an unchanged wagon twice.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from branchline.base.limits import TRAIN_WAGONS_MAX
from branchline.control.registry.entries import checked_name
from branchline.errors import OptionError
from branchline.jobs.batch.system import BATCH_SYSTEMS
from branchline.records.sensors.record import FAILED, FINISHED, PARTIAL

# States of a train, in addition to the states of the train's job. A STARTING train has no process yet.
WAITING, STARTING, CANCELLED = "waiting for approval", "starting", "cancelled"
ENDS = (FINISHED, PARTIAL, FAILED, CANCELLED)
#: Place of trains that run on the server's machine. All other places are values of the command line option `--on`.
HERE = "here"
#: List of all places, as shown in forms and messages.
PLACES = f"{', '.join((HERE, *BATCH_SYSTEMS))}, or dask=tcp://HOST:PORT"
_PLACE = re.compile("|".join((HERE, *BATCH_SYSTEMS, r"dask=[a-z]+://[A-Za-z0-9.:\[\]-]{1,200}")))


@dataclass(frozen=True)
class TrainOrder:
    """An order for a train, with the addresses of the wagons and the dataset.

    ``workers`` is the number of workers; 0 means one per core. ``allow_missing`` is the fraction of sub-jobs, from 0 to
    1, that is allowed to fail.
    """

    owner: str
    name: str
    dataset: str
    wagons: list[str]
    place: str = HERE
    workers: int = 0
    allow_missing: float = 0.0

    @property
    def is_submitted(self) -> bool:
        """Whether the train runs on a batch system."""
        return self.place in BATCH_SYSTEMS

    def check(self) -> None:
        """Raise OptionError for invalid values. Does not check whether the wagons and the dataset exist."""
        checked_name("the owner of a train", self.owner)
        checked_name("the name of a train", self.name)
        if not _PLACE.fullmatch(self.place):
            raise OptionError(f"a train cannot run on {self.place!r:.80}", hint=f"choose {PLACES}")
        if not self.wagons:
            raise OptionError("a train needs at least one wagon")
        if len(self.wagons) > TRAIN_WAGONS_MAX or len(set(self.wagons)) < len(self.wagons):
            raise OptionError(f"a train can have at most {TRAIN_WAGONS_MAX} wagons, each only once")
        if self.workers and self.is_submitted:
            what = f"the number of workers cannot be set for trains on {self.place}, got {self.workers}"
            raise OptionError(what, hint="leave it empty; the site configuration sets the number of tasks and cores")
        if not 0 <= self.workers <= 4096:
            raise OptionError(f"the number of workers must be 0 to 4096, got {self.workers}")
        if not 0 <= self.allow_missing <= 1:
            raise OptionError(f"the fraction of missing sub-jobs must be 0 to 1, got {self.allow_missing:g}")


@dataclass(frozen=True)
class Planned:
    """A plan's additions to the order of a train: the plan's address, and the reason why the train is ordered.

    A train with a forecast above ``seconds_max`` or ``memory_max_bytes`` requires approval. With 0, only the general
    limits apply. ``note`` is called with the train's number, in the transaction that creates the train. If ``note``
    raises an exception, the train is not created.
    """

    plan: str = ""
    why: str = ""
    seconds_max: float = 0.0
    memory_max_bytes: int = 0
    note: Callable[[sqlite3.Connection, int], None] | None = None


@dataclass(frozen=True)
class Train:
    """A train that the person ``ordered_by`` ordered. Times are ISO 8601, UTC.

    - ``seconds``, ``memory_bytes``: forecast at the time of the order.
    - ``why``: the reason why the train waits or failed.
    - ``process``: process ID; 0 if none.
    - ``clone_of``: number of the train that this train repeats; 0 if none.
    - ``wagons``: names of the wagons in the results.
    - ``plan``, ``plan_why``: address of the plan that ordered the train, and the plan's reason.
    """

    number: int
    order: TrainOrder
    state: str = STARTING
    ordered_by: str = ""
    ordered: str = ""
    began: str = ""
    ended: str = ""
    process: int = 0
    seconds: float = 0.0
    memory_bytes: int = 0
    why: str = ""
    command: list[str] = field(default_factory=list)
    wagons: list[str] = field(default_factory=list)
    clone_of: int = 0
    plan: str = ""
    plan_why: str = ""
    #: Wagons that changed other wagons' results in trials, by address, with a description of the change.
    changers: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether the train has ended."""
        return self.state in ENDS


def note_riders(connection: sqlite3.Connection, train: int, dataset: str, keys: Mapping[str, str]) -> None:
    """Store a train's wagons with their trial keys, in the transaction that creates the train."""
    rows = [(train, wagon, dataset, key) for wagon, key in keys.items()]
    connection.executemany("INSERT INTO train_riders VALUES (?, ?, ?, ?)", rows)


def last_ride(connection: sqlite3.Connection, wagon: str, dataset: str, key: str, states: Sequence[str]) -> int:
    """Return the number of the last train that has one of ``states`` and contains the wagon with this trial key.

    Returns 0 if there is no such train.
    """
    marks = ", ".join("?" * len(states))
    query = (
        "SELECT train FROM train_riders JOIN trains ON number = train"  # noqa: S608 - placeholders only
        f" WHERE wagon = ? AND dataset = ? AND key = ? AND state IN ({marks}) ORDER BY train DESC LIMIT 1"
    )
    row = connection.execute(query, (wagon, dataset, key, *states)).fetchone()
    return 0 if row is None else int(row[0])
