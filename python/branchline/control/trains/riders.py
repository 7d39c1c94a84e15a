"""Which wagons rode in which trains, and as what: a wagon that has not changed need not ride twice."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence

#: ``key`` is that of the trial with which the wagon was allowed to ride: it changes with code, values and dataset.
TABLES = """
CREATE TABLE IF NOT EXISTS train_riders (
    train INTEGER NOT NULL, wagon TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (train, wagon)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS train_riders_of ON train_riders (wagon, dataset, key);
"""


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
