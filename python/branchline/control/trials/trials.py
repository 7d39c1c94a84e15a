"""The queue of trials, and the thread that runs the trials sequentially.

When the queue is empty, all wagons that passed their own trials on a dataset are tried together in one train.
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
from branchline.control.people import Person
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

# Query for the last trial of a wagon on a dataset.
_LAST = "SELECT number, key, state, outcome FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"
_CHANGED = "the wagon or the dataset was changed before the trial started"
_COLUMNS = "number, wagon, dataset, key, state, queued, began, ended, outcome"


@dataclass(frozen=True)
class Trial:
    """A trial on a dataset: of one wagon, or of a train with all wagons that passed alone (``wagon`` is TRAIN).

    ``key`` is a hash of code, values and dataset. Times are ISO 8601, UTC. ``outcome`` is None until the trial ends.
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
    """The number and the state of a trial."""

    number: int
    state: str


@dataclass(frozen=True)
class _Wanted:
    """The dataset and the wagons of a trial. Each wagon follows the wagons that it requires."""

    wagons: list[WholeWagon]
    dataset: DatasetEntry
    is_train: bool = False

    @property
    def key(self) -> str:
        """A hash of everything that affects the trial. Includes code, values and files, but not descriptions."""
        parts = [[one.entry.name, one.source_sha256, one.wagon_class.name, one.values] for one in self.wagons]
        data = self.dataset
        text = json.dumps([parts, data.files, data.short, data.tree, data.companions], sort_keys=True)
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


class Trials:
    """Tries enabled wagons sequentially, from ``start`` to ``stop``. ``running`` sets how user code runs.

    When no wagon is queued, all wagons that passed on a dataset are tried together in one train. The trial of a train
    is interrupted as soon as a wagon is queued.
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
        """The error that prevents trials from running; empty if trials can run."""
        return self._trouble

    def start(self) -> None:
        """Start the thread. Trials that were running when the server last stopped are rerun."""
        with self._database.writing() as connection:
            connection.execute("UPDATE trials SET state = ?, began = '' WHERE state = ?", (QUEUED, RUNNING))
        self.look()
        self._thread = threading.Thread(target=self._keep_trying, name="branchline-trials", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread. A running trial is stopped, and is rerun after the next start."""
        self._is_stopped.set()
        self._gives_way.set()
        self._is_wanted.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> int:
        """Queue enabled wagons whose current version has not been tried. Return the number of queued wagons.

        Must be called after each change in the registry.
        """
        grid = self._registry.grid()
        queued = 0
        for wagon, dataset in sorted(grid.enabled):
            try:
                wanted = self._wanted(wagon, dataset)
            except BranchlineError:
                continue  # The wagon was concurrently removed or broken. The registry pages show the error.
            with self._database.writing() as connection:
                queued += _queue(connection, wagon, dataset, wanted.key, is_again=False)
        # Wake the thread, because a change may require the trial of a train even if no wagon was queued.
        self._is_wanted.set()
        if queued:
            self._gives_way.set()
        return queued

    def may_try(self, person: Person, wagon: str, dataset: str) -> bool:
        """Return whether a person may repeat the trial of a wagon, or of a dataset's train (``wagon`` is TRAIN).

        Raises NoSuchEntryError for an unknown wagon or dataset.
        """
        entry = self._registry.dataset(dataset)[0] if wagon == TRAIN else self._registry.wagon(wagon).entry
        return person.has_part_in(entry.owner, entry.group)

    def again(self, wagon: str, dataset: str) -> None:
        """Queue a trial even if the current version has been tried. Raises NoSuchEntryError, OptionError."""
        wanted = self._wanted(wagon, dataset)
        with self._database.writing() as connection:
            _queue(connection, wagon, dataset, wanted.key, is_again=True)
        self._is_wanted.set()
        if wagon != TRAIN:
            self._gives_way.set()

    def last(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Trial]:
        """Return the last trial of each pair of wagon and dataset. Pairs without trials are omitted.

        A trial is outdated if its key differs from the pair's current key, which ``key_of`` returns.
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
        """Return the state of the last trial of each pair of wagon and dataset.

        Omits the outcome, which is slow to parse.
        """
        query = "SELECT number, state FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"
        with self._database.reading() as connection:
            rows = {pair: connection.execute(query, pair).fetchone() for pair in pairs}
        return {pair: TrialState(int(row[0]), str(row[1])) for pair, row in rows.items() if row is not None}

    def cpu_forecasts(self) -> dict[str, float]:
        """Return the forecast CPU seconds per event of each wagon, by name. The forecast is the maximum over datasets.

        Trials that are too short for a measurement are ignored.
        """
        grid = self._registry.grid()
        found: dict[str, float] = {}
        for trial in self.last(sorted(grid.enabled)).values():
            for one in trial.outcome.wagons if trial.outcome else []:
                if one.cpu_s_per_event * one.events >= TRIAL_CPU_TELLING_S:
                    found[one.name] = max(found.get(one.name, 0.0), one.cpu_s_per_event)
        return found

    def history(self, wagon: str, dataset: str, count: int = 20) -> list[Trial]:
        """Return the last ``count`` trials of a wagon on a dataset, newest first."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT ?"  # noqa: S608
        with self._database.reading() as connection:
            return [_trial(row) for row in connection.execute(query, (wagon, dataset, count))]

    def trial(self, number: int) -> Trial:
        """Return the trial with this number. Raises NoSuchEntryError."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE number = ?"  # noqa: S608 - constant
        with self._database.reading() as connection:
            row = connection.execute(query, (number,)).fetchone()
        if row is None:
            raise NoSuchEntryError(f"no trial {number}")
        return _trial(row)

    def key_of(self, wagon: str, dataset: str) -> str:
        """Return the trial key of the current versions of a wagon and a dataset.

        Raises NoSuchEntryError, OptionError.
        """
        return self._wanted(wagon, dataset).key

    def _wanted(self, wagon: str, dataset: str) -> _Wanted:
        wagons = self._registry.with_required(self._passed(dataset) if wagon == TRAIN else [wagon])
        return _Wanted(wagons, self._registry.dataset(dataset)[0], wagon == TRAIN)

    def _passed(self, dataset: str) -> list[str]:
        """Return the wagons for the trial of a dataset's train. Raises NoSuchEntryError for fewer than two wagons."""
        enabled = sorted(wagon for wagon, on in self._registry.grid().enabled if on == dataset)
        with self._database.reading() as connection:
            passed = last_passed(connection, enabled, dataset)
        wagons = of_now(passed, lambda wagon: self.key_of(wagon, dataset))
        if len(wagons) < 2:
            raise NoSuchEntryError(f"fewer than two wagons passed their trials on {dataset}")
        return wagons

    def _keep_trying(self) -> None:
        while not self._is_stopped.is_set():
            self._is_wanted.clear()
            try:
                is_idle = not self._try_next() and not self._queue_trains()
                self._trouble = ""
            except Exception as error:  # noqa: BLE001 - retried later, for example if the disk is full
                self._trouble = trouble_of(error, "trials")
            if self._trouble:
                self._is_stopped.wait(TRIAL_PAUSE_S)
                continue
            if is_idle:
                self._is_wanted.wait()

    def _queue_trains(self) -> int:
        """Queue trials of trains whose current wagons have not been tried together.

        Return the number of queued trials.
        """
        if self._running.no_trials:
            return 0
        enabled = self._registry.grid().enabled
        with self._database.reading() as connection:
            states = datasets_to_try(connection, enabled)
        queued = 0
        for dataset in sorted(one for one, state in states.items() if self._looked_at.get(one) != state):
            # key_of raises NoSuchEntryError if fewer than two wagons have passed, or if the dataset was removed.
            with suppress(NoSuchEntryError):
                key = self.key_of(TRAIN, dataset)
                with self._database.writing() as connection:
                    queued += _queue(connection, TRAIN, dataset, key, is_again=False)
        self._looked_at = states
        return queued

    def _try_next(self) -> bool:
        """Run the first trial in the queue. Returns False if the queue is empty."""
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
                # A queued wagon has interrupted the trial of the train, so queue the train again.
                with self._database.writing() as connection:
                    query = "UPDATE trials SET state = ?, began = '' WHERE number = ?"
                    connection.execute(query, (QUEUED, trial.number))
        finally:
            shutil.rmtree(self._folder / str(trial.number), ignore_errors=True)
        return True

    def _begun(self) -> Trial | None:
        """Mark the first trial in the queue as running and return it; None if the queue is empty."""
        query = f"SELECT {_COLUMNS} FROM trials WHERE state IN (?, ?) ORDER BY wagon = '', number LIMIT 1"  # noqa: S608
        self._gives_way.clear()
        if self._is_stopped.is_set():
            self._gives_way.set()
        with self._database.writing() as connection:
            # Only this thread runs trials. A trial in the state RUNNING is therefore left over from a database error.
            row = connection.execute(query, (QUEUED, RUNNING)).fetchone()
            if row is not None:
                connection.execute("UPDATE trials SET state = ?, began = ? WHERE number = ?", (RUNNING, _now(), row[0]))
        return None if row is None else _trial(row)

    def _tried(self, trial: Trial) -> TrialOutcome | None:
        """Run a trial and return its outcome; None if it was stopped."""
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
        except Exception as error:  # noqa: BLE001 - a failing trial must not block the queue
            return TrialOutcome(error=trouble_of(error, "a trial"))

    def _end(self, trial: Trial, outcome: TrialOutcome) -> None:
        with self._database.writing() as connection:
            connection.execute(
                "UPDATE trials SET state = ?, ended = ?, outcome = ? WHERE number = ?",
                (state_of(outcome), _now(), json.dumps(outcome.as_dict()), trial.number),
            )
        # In a shared control room, the outcome is untrusted, because a wagon's code could blame another wagon in the
        # same process. A blamed wagon can then still be in trains, but the trains show a note.
        if trial.wagon == TRAIN and outcome.blamed:
            self._blame(trial, outcome, only_notes=self._running.sandbox is not None)

    def changers(self, keys: Mapping[str, str], dataset: str) -> dict[str, str]:
        """Return the wagons that changed other wagons' results in the trial of a train, with the reasons.

        ``keys`` has the current trial key of each wagon, by address.
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

    def _is_unwanted(self, trial: Trial) -> bool:
        """Whether a queued trial of a train is outdated. A trial of the current wagons is queued later."""
        try:
            return trial.wagon == TRAIN and self.key_of(TRAIN, trial.dataset) != trial.key
        except NoSuchEntryError:
            return True


def _queue(connection: sqlite3.Connection, wagon: str, dataset: str, key: str, *, is_again: bool) -> int:
    """Queue a trial and return 1.

    Returns 0 without queueing if the same version is already queued or running, or if it has been tried and
    ``is_again`` is False.
    """
    query = "SELECT key, state FROM trials WHERE wagon = ? AND dataset = ? ORDER BY number DESC LIMIT 1"
    last = connection.execute(query, (wagon, dataset)).fetchone()
    if last is not None and last[0] == key and (not is_again or last[1] in (QUEUED, RUNNING)):
        return 0
    # Delete queued trials of outdated versions.
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
    """Return the number and key of each wagon's last trial on a dataset. Omits wagons that did not pass the trial."""
    found = {}
    for wagon in wagons:
        row = connection.execute(_LAST, (wagon, dataset)).fetchone()
        if row is not None and row[2] in (DONE, WARNED):
            found[wagon] = (int(row[0]), str(row[1]))
    return found


def of_now(passed: Mapping[str, tuple[int, str]], key_of: Callable[[str], str]) -> list[str]:
    """Return the wagons of ``last_passed`` that have not changed since their trials, sorted by address.

    Returns at most TRAIN_TRIAL_WAGONS_MAX wagons: those with the most recent trials.
    """
    found = []
    for wagon, (number, key) in passed.items():
        # A wagon that was concurrently removed or broken has no key.
        with suppress(BranchlineError):
            if key_of(wagon) == key:
                found.append((number, wagon))
    return sorted(wagon for _, wagon in sorted(found)[-TRAIN_TRIAL_WAGONS_MAX:])


def whys_of(outcome: TrialOutcome, addresses: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the reasons why blamed wagons must not share a train, by wagon address.

    ``outcome`` is from the trial of a train. ``addresses`` maps the wagons' names in this train to their addresses.
    """
    whys: dict[str, list[str]] = {}
    for one in outcome.blamed:
        # The outcome is untrusted, because it comes from a process with user code, and may name unknown wagons.
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
    """Mark the single trials of blamed wagons as failed, with the reasons from the trial of their train.

    ``addresses`` maps the wagons' names in the train to their addresses, and ``keys`` maps addresses to trial keys.
    ``on`` is the dataset. Returns the addresses of the wagons whose trials were marked as failed.
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
    """Return the datasets with at least two enabled wagons and no queued or running trial of a single wagon.

    The values are the number of the dataset's last trial and the number of the registry's last change. If both numbers
    are unchanged, the wagons do not have to be tried together again.
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
