"""Trains: their wagons, dataset, place and state, and which wagons rode in which train.

The key of each ride is stored, so that an unchanged wagon does not ride twice.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from branchline.base.limits import TRAIN_WAGONS_MAX
from branchline.control.registry.entries import checked_name
from branchline.errors import OptionError

# States of a train. STARTING has no process yet; the last four are ends.
WAITING, STARTING, RUNNING = "waiting for approval", "starting", "running"
FINISHED, PARTIAL, FAILED, CANCELLED = "finished", "partial", "failed", "cancelled"
ENDS = (FINISHED, PARTIAL, FAILED, CANCELLED)
#: Where trains run: on the server's machine, or what `--on` of the command line takes.
HERE = "here"
#: Places that are batch systems.
BATCH = ("slurm", "htcondor")
_PLACE = re.compile(r"here|slurm|htcondor|dask=[a-z]+://[A-Za-z0-9.:\[\]-]{1,200}")
#: ``key`` is that of the trial with which the wagon was allowed to ride: it changes with code, values and dataset.
TABLES = """
CREATE TABLE IF NOT EXISTS train_riders (
    train INTEGER NOT NULL, wagon TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (train, wagon)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS train_riders_of ON train_riders (wagon, dataset, key);
"""


@dataclass(frozen=True)
class TrainOrder:
    """What is to be run: addresses of wagons and of a dataset. ``workers`` 0 is as many as there are cores;
    ``allow_missing`` is the share of the sub-jobs, 0 to 1, that may end without a result.
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
        """Whether a batch system runs it."""
        return self.place in BATCH

    def check(self) -> None:
        """Raises OptionError for what is wrong by itself."""
        checked_name("the owner of a train", self.owner)
        checked_name("the name of a train", self.name)
        if not _PLACE.fullmatch(self.place):
            hint = "here, slurm, htcondor, or dask=tcp://HOST:PORT"
            raise OptionError(f"a train cannot run on {self.place!r:.80}", hint=hint)
        if not self.wagons:
            raise OptionError("a train needs at least one wagon")
        if len(self.wagons) > TRAIN_WAGONS_MAX or len(set(self.wagons)) < len(self.wagons):
            raise OptionError(f"a train has up to {TRAIN_WAGONS_MAX} wagons, each once")
        if self.workers and self.is_submitted:
            what = f"the number of workers is that of {self.place}"
            raise OptionError(what, hint="leave it empty; the site's configuration says how many tasks and cores")
        if not 0 <= self.workers <= 4096:
            raise OptionError(f"{self.workers} workers are impossible", hint="up to 4096")
        if not 0 <= self.allow_missing <= 1:
            raise OptionError(f"a share of {self.allow_missing:g} is impossible", hint="from 0 to 1")


@dataclass(frozen=True)
class Planned:
    """How a plan orders a train: the address of the plan, why now, and its own limits in seconds and bytes beyond which
    an operator has to approve (0: only those of all trains). ``note`` is called with the number of the train in the
    transaction that makes it; if it raises there is no train.
    """

    plan: str = ""
    why: str = ""
    seconds_max: float = 0.0
    memory_max_bytes: int = 0
    note: Callable[[sqlite3.Connection, int], None] | None = None


@dataclass(frozen=True)
class Train:
    """A train that was ordered by ``ordered_by``. Times are ISO 8601, UTC. ``seconds`` and ``memory_bytes`` are the
    forecast when it was ordered; ``why`` says why it waits or failed. ``clone_of`` is the number of the train that it
    repeats, 0 if none. ``wagons`` are the names that its wagons have in its results. ``plan`` is the address of the
    plan that made it, and ``plan_why`` why it did then.
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
    #: By address, what trials found of its wagons that change the results of others.
    changers: dict[str, str] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Whether it has come to an end."""
        return self.state in ENDS


def note_riders(connection: sqlite3.Connection, train: int, dataset: str, keys: Mapping[str, str]) -> None:
    """Notes the wagons of a train with their keys, in the transaction that makes it."""
    rows = [(train, wagon, dataset, key) for wagon, key in keys.items()]
    connection.executemany("INSERT INTO train_riders VALUES (?, ?, ?, ?)", rows)


def last_ride(connection: sqlite3.Connection, wagon: str, dataset: str, key: str, states: Sequence[str]) -> int:
    """The last train in one of some states in which a wagon rode as it is now; 0 if there is none."""
    marks = ", ".join("?" * len(states))
    query = (
        "SELECT train FROM train_riders JOIN trains ON number = train"  # noqa: S608 - marks alone
        f" WHERE wagon = ? AND dataset = ? AND key = ? AND state IN ({marks}) ORDER BY train DESC LIMIT 1"
    )
    row = connection.execute(query, (wagon, dataset, key, *states)).fetchone()
    return 0 if row is None else int(row[0])
