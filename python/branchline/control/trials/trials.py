"""The queue of trials, and the thread that runs them one after the other.

When no wagon waits, all wagons that passed alone on a dataset are tried together on its short sample.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.limits import TRAIN_TRIAL_WAGONS_MAX, TRIAL_CPU_TELLING_S, TRIAL_NOTE_MAX, TRIAL_PAUSE_S
from branchline.base.texts import one_line
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.registry.entries import DatasetEntry
from branchline.control.registry.registry import Registry, SourceStore, WholeWagon
from branchline.control.registry.wagon_file import compose, names_in_train
from branchline.control.room_errors import NoSuchEntryError
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.trials.start import run_trial
from branchline.control.trials.trial import (
    DONE,
    FAILED,
    QUEUED,
    RUNNING,
    TRAIN,
    WARNED,
    TrialOutcome,
    TrialRequest,
    state_of,
)
from branchline.errors import BranchlineError

TABLES = """
CREATE TABLE IF NOT EXISTS trials (
    number INTEGER PRIMARY KEY, wagon TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL, state TEXT NOT NULL,
    queued TEXT NOT NULL, began TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', outcome TEXT);
CREATE INDEX IF NOT EXISTS trials_of ON trials (wagon, dataset, number);
CREATE TABLE IF NOT EXISTS changers (
    wagon TEXT NOT NULL, dataset TEXT NOT NULL, key TEXT NOT NULL, why TEXT NOT NULL,
    PRIMARY KEY (wagon, dataset, key));
CREATE INDEX IF NOT EXISTS trials_by_state ON trials (state, number);
"""
# The last trial of a wagon on a dataset.
_LAST = "SELECT number, key, state, outcome FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"
# Error of a trial whose wagon or dataset changed first.
_CHANGED = "the wagon or the dataset was changed before the trial began"
_COLUMNS = "number, wagon, dataset, key, state, queued, began, ended, outcome"


@dataclass(frozen=True)
class Trial:
    """A trial of a wagon on a dataset, or of a TRAIN of those that passed alone. ``key`` is the same for the same code,
    values and dataset. Times are ISO 8601, UTC; ``outcome`` is there once it has ended.
    """

    number: int
    wagon: str
    dataset: str
    key: str
    state: str = QUEUED
    queued: str = ""
    began: str = ""
    ended: str = ""
    outcome: TrialOutcome | None = None


@dataclass(frozen=True)
class TrialState:
    """The number of a trial, and its state."""

    number: int
    state: str


@dataclass(frozen=True)
class _Wanted:
    """Wagons (one, or those of a train), each behind those that it requires, and the dataset."""

    wagons: list[WholeWagon]
    dataset: DatasetEntry
    is_train: bool = False

    @property
    def key(self) -> str:
        """A hash of all that the trial depends on: code, values and files, not words about them."""
        parts = [[one.entry.name, one.source_sha256, one.wagon_class.name, one.values] for one in self.wagons]
        data = self.dataset
        text = json.dumps([parts, data.files, data.short, data.tree, data.companions], sort_keys=True)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class Trials:
    """Tries what is enabled, one after the other, from ``start`` to ``stop``; ``running`` says how code runs.

    When no wagon waits, those that have passed on a dataset are tried together, in one train. That gives way to any
    wagon that is to be tried alone.
    """

    def __init__(
        self, database: Database, registry: Registry, sources: SourceStore, folder: Path, running: CodeRunning
    ) -> None:
        self._database = database
        self._registry = registry
        self._sources = sources
        self._folder = folder
        self._running = running
        self._is_wanted = threading.Event()
        self._is_stopped = threading.Event()
        self._gives_way = threading.Event()
        self._trouble = ""
        self._looked_at: dict[str, tuple[int, int]] = {}
        self._thread: threading.Thread | None = None

    @property
    def trouble(self) -> str:
        """Why nothing can be tried now; empty if it can."""
        return self._trouble

    def start(self) -> None:
        """Begins. What ran when the server ended is tried again."""
        with self._database.writing() as connection:
            connection.execute("UPDATE trials SET state = ?, began = '' WHERE state = ?", (QUEUED, RUNNING))
        self.look()
        self._thread = threading.Thread(target=self._keep_trying, name="branchline-trials", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends; the trial that runs is stopped, and tried again after the next start."""
        self._is_stopped.set()
        self._gives_way.set()
        self._is_wanted.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> int:
        """Queues what is enabled and was not tried as it is now; gives how much that is. Called after each change."""
        grid = self._registry.grid()
        queued = 0
        for wagon, dataset in sorted(grid.enabled):
            try:
                wanted = self._wanted(wagon, dataset)
            except BranchlineError:
                continue  # It was removed or broken meanwhile, which the registry says where it is looked at.
            with self._database.writing() as connection:
                queued += _queue(connection, wagon, dataset, wanted.key, is_again=False)
        # The registry has changed: another train may have to be tried also where no wagon is.
        self._is_wanted.set()
        if queued:
            self._gives_way.set()
        return queued

    def again(self, wagon: str, dataset: str) -> None:
        """Queues a trial although there was one. Raises NoSuchEntryError, OptionError."""
        wanted = self._wanted(wagon, dataset)
        with self._database.writing() as connection:
            _queue(connection, wagon, dataset, wanted.key, is_again=True)
        self._is_wanted.set()
        if wagon != TRAIN:
            self._gives_way.set()

    def last(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Trial]:
        """The last trial of each pair of a wagon and a dataset that has one. It is of an older state of them if its key
        is not ``key_of`` the pair.
        """
        found = {}
        query = f"SELECT {_COLUMNS} FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"  # noqa: S608
        with self._database.reading() as connection:
            for pair in pairs:
                row = connection.execute(query, pair).fetchone()
                if row is not None:
                    found[pair] = _trial(row)
        return found

    def states(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], TrialState]:
        """How the last trial of each pair stands that has one. What trials found is not read: it has profiles."""
        query = "SELECT number, state FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"
        with self._database.reading() as connection:
            rows = {pair: connection.execute(query, pair).fetchone() for pair in pairs}
        return {pair: TrialState(int(row[0]), str(row[1])) for pair, row in rows.items() if row is not None}

    def cpu_forecasts(self) -> dict[str, float]:
        """CPU seconds that wagons take for an event, by their names in trains: those of the dataset on which their
        last trial took longest. Trials that were too short to tell are left out.
        """
        grid = self._registry.grid()
        found: dict[str, float] = {}
        for trial in self.last(sorted(grid.enabled)).values():
            for one in trial.outcome.wagons if trial.outcome else []:
                if one.cpu_s_per_event * one.events >= TRIAL_CPU_TELLING_S:
                    found[one.name] = max(found.get(one.name, 0.0), one.cpu_s_per_event)
        return found

    def history(self, wagon: str, dataset: str, count: int = 20) -> list[Trial]:
        """The last trials of a wagon on a dataset, the newest first."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT ?"  # noqa: S608
        with self._database.reading() as connection:
            return [_trial(row) for row in connection.execute(query, (wagon, dataset, count))]

    def trial(self, number: int) -> Trial:
        """One trial. Raises NoSuchEntryError."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE number = ?"  # noqa: S608 - columns are ours
        with self._database.reading() as connection:
            row = connection.execute(query, (number,)).fetchone()
        if row is None:
            raise NoSuchEntryError(f"there is no trial {number}")
        return _trial(row)

    def key_of(self, wagon: str, dataset: str) -> str:
        """What a trial of them as they are now has for its key. Raises NoSuchEntryError, OptionError."""
        return self._wanted(wagon, dataset).key

    def _wanted(self, wagon: str, dataset: str) -> _Wanted:
        wagons = self._registry.with_required(self._passed(dataset) if wagon == TRAIN else [wagon])
        return _Wanted(wagons, self._registry.dataset(dataset)[0], wagon == TRAIN)

    def _passed(self, dataset: str) -> list[str]:
        """The wagons of a train on a dataset. Raises NoSuchEntryError for fewer than two: nothing to find."""
        enabled = sorted(wagon for wagon, on in self._registry.grid().enabled if on == dataset)
        with self._database.reading() as connection:
            passed = last_passed(connection, enabled, dataset)
        wagons = of_now(passed, lambda wagon: self.key_of(wagon, dataset))
        if len(wagons) < 2:
            raise NoSuchEntryError(f"fewer than two wagons have passed on {dataset}")
        return wagons

    def _keep_trying(self) -> None:
        while not self._is_stopped.is_set():
            self._is_wanted.clear()
            try:
                is_idle = not self._try_next() and not self._queue_trains()
                self._trouble = ""
            except Exception as error:  # noqa: BLE001 - nothing would be tried any more, as where the disk was full
                self._trouble = trouble_of(error, "trials")
            if self._trouble:
                self._is_stopped.wait(TRIAL_PAUSE_S)
                continue
            if is_idle:
                self._is_wanted.wait()

    def _queue_trains(self) -> int:
        """Queues trains of wagons that have passed and were not tried together as they are now; gives how many."""
        if self._running.no_trials:
            return 0
        enabled = self._registry.grid().enabled
        with self._database.reading() as connection:
            states = datasets_to_try(connection, enabled)
        queued = 0
        for dataset in sorted(one for one, state in states.items() if self._looked_at.get(one) != state):
            # Fewer than two have passed, or the dataset was removed.
            with suppress(NoSuchEntryError):
                key = self.key_of(TRAIN, dataset)
                with self._database.writing() as connection:
                    queued += _queue(connection, TRAIN, dataset, key, is_again=False)
        self._looked_at = states
        return queued

    def _try_next(self) -> bool:
        """Tries what waits for longest; False if nothing does."""
        trial = self._begun()
        if trial is None:
            return False
        if self._is_unwanted(trial):
            with self._database.writing() as connection:
                connection.execute("DELETE FROM trials WHERE number = ?", (trial.number,))
            return True
        try:
            outcome = self._tried(trial)
            if outcome is not None:
                self._end(trial, outcome)
            elif trial.wagon == TRAIN:
                self._put_back(trial)
        finally:
            # The outcome is in the database.
            shutil.rmtree(self._folder / str(trial.number), ignore_errors=True)
        return True

    def _begun(self) -> Trial | None:
        """The trial that waits for longest, which begins now."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE state IN (?, ?) ORDER BY wagon = '', number LIMIT 1"  # noqa: S608
        self._gives_way.clear()
        if self._is_stopped.is_set():
            self._gives_way.set()
        with self._database.writing() as connection:
            # One that seems to run was left by an error of the database.
            row = connection.execute(query, (QUEUED, RUNNING)).fetchone()
            if row is not None:
                connection.execute("UPDATE trials SET state = ?, began = ? WHERE number = ?", (RUNNING, _now(), row[0]))
        return None if row is None else _trial(row)

    def _tried(self, trial: Trial) -> TrialOutcome | None:
        """None if it was stopped, or is out of date: what is true now is queued already, or is not wanted."""
        if self._running.no_trials:
            return TrialOutcome(error=self._running.no_trials)
        try:
            wanted = self._wanted(trial.wagon, trial.dataset)
            if wanted.key != trial.key:
                return TrialOutcome(error=_CHANGED)
            folder = self._folder / str(trial.number)
            texts = [self._sources.text(one.source_sha256) for one in wanted.wagons]
            path = compose(wanted.wagons, texts, folder)
            data = wanted.dataset
            request = TrialRequest(
                str(path), data.short or data.files, data.tree, data.companions, profile=not wanted.is_train
            )
            stopped = self._gives_way if wanted.is_train else self._is_stopped
            return run_trial(request, folder, self._running, stopped)
        except Exception as error:  # noqa: BLE001 - the next ones would wait behind it for ever
            return TrialOutcome(error=trouble_of(error, "a trial"))

    def _end(self, trial: Trial, outcome: TrialOutcome) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE trials SET state = ?, ended = ?, outcome = ? WHERE number = ?",
                (state_of(outcome), _now(), json.dumps(outcome.as_dict()), trial.number),
            )
        # Where people do not know each other, one's code could blame another's: both ran in the process that says so.
        # There a wagon rides on, and its trains say what was found.
        if trial.wagon == TRAIN and outcome.blamed:
            self._blame(trial, outcome, only_notes=self._running.sandbox is not None)

    def changers(self, keys: Mapping[str, str], dataset: str) -> dict[str, str]:
        """What trials of trains found of these wagons (the keys of their trials, by address), of those that change the
        results of others.
        """
        query = "SELECT why FROM changers WHERE wagon = ? AND dataset = ? AND key = ?"
        with self._database.reading() as connection:
            rows = {one: connection.execute(query, (one, dataset, key)).fetchone() for one, key in keys.items()}
        return {one: str(row[0]) for one, row in rows.items() if row is not None}

    def _blame(self, trial: Trial, outcome: TrialOutcome, *, only_notes: bool) -> None:
        try:
            wanted = self._wanted(TRAIN, trial.dataset)
        except BranchlineError:
            return
        if wanted.key != trial.key:
            return
        own = [one.entry.address for one in wanted.wagons]
        addresses = dict(zip(names_in_train(wanted.wagons), own, strict=True))
        keys = {one: self.key_of(one, trial.dataset) for one in own}
        with self._database.writing() as connection:
            if not only_notes:
                blame(connection, outcome, addresses, keys, trial.dataset)
                return
            for wagon, whys in whys_of(outcome, addresses).items():
                why = f"trial {trial.number} of a train found: {'; '.join(whys)}"
                values = (wagon, trial.dataset, keys[wagon], one_line(why, TRIAL_NOTE_MAX))
                connection.execute("INSERT OR REPLACE INTO changers VALUES (?, ?, ?, ?)", values)

    def _put_back(self, trial: Trial) -> None:
        """Has a train that gave way wait again."""
        with self._database.writing() as connection:
            query = "UPDATE trials SET state = ?, began = '' WHERE number = ?"
            connection.execute(query, (QUEUED, trial.number))

    def _is_unwanted(self, trial: Trial) -> bool:
        """Whether a train has other wagons by now, or none. It is queued anew when no wagon waits."""
        try:
            return trial.wagon == TRAIN and self.key_of(TRAIN, trial.dataset) != trial.key
        except NoSuchEntryError:
            return True


def _queue(connection: sqlite3.Connection, wagon: str, dataset: str, key: str, *, is_again: bool) -> int:
    """1 if it was queued, 0 if it waits already, or was tried and is not to be tried again."""
    query = "SELECT key, state FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"
    last = connection.execute(query, (wagon, dataset)).fetchone()
    if last is not None and last[0] == key and (not is_again or last[1] in (QUEUED, RUNNING)):
        return 0
    # One that waits for an earlier state of the wagon is not worth its time.
    connection.execute("DELETE FROM trials WHERE wagon = ? AND dataset = ? AND state = ?", (wagon, dataset, QUEUED))
    values = (wagon, dataset, key, QUEUED, _now())
    connection.execute("INSERT INTO trials (wagon, dataset, key, state, queued) VALUES (?, ?, ?, ?, ?)", values)
    return 1


def _trial(row: Sequence[object]) -> Trial:
    number, wagon, dataset, key, state, queued, began, ended, outcome = row
    assert isinstance(number, int)
    found = None if outcome is None else TrialOutcome.from_dict(json.loads(str(outcome)))
    return Trial(number, str(wagon), str(dataset), str(key), str(state), str(queued), str(began), str(ended), found)


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


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
