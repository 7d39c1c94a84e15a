"""Trials of trains: all wagons that have passed alone on a dataset, together on its short sample."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace

from branchline.base.limits import TRAIN_TRIAL_WAGONS_MAX
from branchline.control.trials.trial import DONE, FAILED, TRAIN, WARNED, TrialOutcome
from branchline.errors import BranchlineError

_LAST = "SELECT number, key, state, outcome FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"


def last_passed(connection: sqlite3.Connection, wagons: Iterable[str], dataset: str) -> dict[str, tuple[int, str]]:
    """The number and the key of the last trial of each wagon on a dataset, of those whose last trial was passed."""
    found = {}
    for wagon in wagons:
        row = connection.execute(_LAST, (wagon, dataset)).fetchone()
        if row is not None and row[2] in (DONE, WARNED):
            found[wagon] = (int(row[0]), str(row[1]))
    return found


def of_now(passed: Mapping[str, tuple[int, str]], key_of: Callable[[str], str]) -> list[str]:
    """The wagons of ``last_passed`` that are still as they were then, by name; of very many those that passed last."""
    found = []
    for wagon, (number, key) in passed.items():
        # One that was removed or broken meanwhile has no key.
        with suppress(BranchlineError):
            if key_of(wagon) == key:
                found.append((number, wagon))
    return sorted(wagon for _, wagon in sorted(found)[-TRAIN_TRIAL_WAGONS_MAX:])


def whys_of(outcome: TrialOutcome, addresses: Mapping[str, str]) -> dict[str, list[str]]:
    """Return what the trial of a train says of wagons that must not ride with others, by their addresses."""
    whys: dict[str, list[str]] = {}
    for one in outcome.blamed:
        # The outcome was written by a process that ran code of users.
        if one.wagon in addresses:
            whys.setdefault(addresses[one.wagon], []).append(one.why)
    return whys


def blame(
    connection: sqlite3.Connection,
    outcome: TrialOutcome,
    addresses: Mapping[str, str],
    keys: Mapping[str, str],
    on: str,
) -> list[str]:
    """Has the wagons fail that must not ride with others, by the trial of their train: their own trials get the reason.

    ``addresses`` are the wagons by their names in the train, ``keys`` their trials' keys by address, and ``on`` is the
    dataset. Gives the addresses of those that have failed now.
    """
    failed = []
    for wagon, why in whys_of(outcome, addresses).items():
        row = connection.execute(_LAST, (wagon, on)).fetchone()
        if row is None or row[1] != keys[wagon] or row[2] not in (DONE, WARNED):
            continue
        own = TrialOutcome.from_dict(json.loads(row[3]))
        kept = json.dumps(replace(own, differences=[*own.differences, *why]).as_dict())
        connection.execute("UPDATE trials SET state = ?, outcome = ? WHERE number = ?", (FAILED, kept, row[0]))
        failed.append(wagon)
    return failed


def datasets_to_try(connection: sqlite3.Connection, enabled: Iterable[tuple[str, str]]) -> dict[str, tuple[int, int]]:
    """The datasets on which two wagons or more are enabled, and none waits for a trial or is in one; with the last
    trial there and the last change of the registry, which say whether anything is new.
    """
    counts: dict[str, int] = {}
    for _, dataset in enabled:
        counts[dataset] = counts.get(dataset, 0) + 1
    query = "SELECT dataset, max(number), min(iif(wagon = ?, 'ended', ended)) FROM trials GROUP BY dataset"
    [change] = connection.execute("SELECT ifnull(max(number), 0) FROM changes").fetchone()
    rows = connection.execute(query, (TRAIN,)).fetchall()
    return {dataset: (number, change) for dataset, number, ended in rows if ended and counts.get(dataset, 0) > 1}
