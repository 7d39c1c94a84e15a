"""Order, start, monitor and cancel a control room's trains."""

from __future__ import annotations

import json
import shutil
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from branchline.base.limits import (
    TRAIN_LOOK_S,
    TRAIN_MEMORY_APPROVED_BYTES,
    TRAIN_SECONDS_APPROVED,
    TRAIN_SUBMITTED_LOOK_S,
)
from branchline.base.plain import from_plain, to_plain
from branchline.base.quantities import duration, size
from branchline.control.background_errors import trouble_of
from branchline.control.database import Database
from branchline.control.people import Person
from branchline.control.registry.entries import DatasetEntry
from branchline.control.registry.registry import Registry, SourceStore, WholeWagon
from branchline.control.registry.wagon_file import compose, names_in_train
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.control.sandbox.code_rules import CodeRunning
from branchline.control.sandbox.sandbox import OWNER_LOOKS_AT_ONCE, TRAIN_IN_HAND_S
from branchline.control.trains import runner
from branchline.control.trains.bundle import write_groups
from branchline.control.trains.choosing import Runners
from branchline.control.trains.results import record_of
from branchline.control.trains.room_reports import RoomReports, Take
from branchline.control.trains.runner import ReportTo, Runner, Standing
from branchline.control.trains.train import (
    CANCELLED,
    ENDS,
    HERE,
    STARTING,
    WAITING,
    Planned,
    Train,
    TrainOrder,
    note_riders,
)
from branchline.control.trials.trial import DONE, WARNED, Needs, needs_of, together
from branchline.control.trials.trials import Trial, Trials
from branchline.errors import BranchlineError, OptionError
from branchline.records.sensors.record import FAILED, FINISHED, PARTIAL, RUNNING
from branchline.records.sensors.status import DIED, STOPPED, TrainStatus

_COLUMNS = "number, content, state, process, began, ended, why"
#: Key, in place of a train number, for an error that prevents monitoring of all trains.
_ALL = 0


class Trains:
    """All trains of a control room.

    A thread monitors the running trains from ``start`` to ``stop``. The trains themselves continue after ``stop``.
    """

    def __init__(
        self,
        database: Database,
        registry: Registry,
        sources: SourceStore,
        trials: Trials,
        folder: Path,
        take: Take,
        running: CodeRunning | None = None,
        unix_user_of: Callable[[str], str] = lambda _person: "",
    ) -> None:
        self._database = database
        self._registry = registry
        self._sources = sources
        self._trials = trials
        self._folder = folder
        code = running or CodeRunning()
        self._is_shared = code.is_shared
        self._runners = Runners(code, unix_user_of, folder.parent)
        self._reports = RoomReports(database, take)
        self._is_stopped = threading.Event()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        self._being_started: set[int] = set()
        self._ordering = threading.Lock()
        self._looked_s: dict[int, float] = {}
        self._looking: dict[int, threading.Thread] = {}
        # Lock of each train. Restarting a train and copying its results both replace the results, so both hold the
        # lock.
        self._in_hand: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._troubles: dict[int, str] = {}

    def start(self, report_to: ReportTo | None = None) -> None:
        """Start monitoring. Also restarts trains whose start was interrupted because the server was killed."""
        self._runners.own.report_to = report_to
        self._thread = threading.Thread(target=self._follow, name="branchline-trains", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop monitoring. The trains continue to run."""
        self._is_stopped.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def trouble(self) -> str:
        """Current monitoring errors of single trains or of all trains; empty without errors."""
        return "; ".join(f"train {number}: {why}" if number else why for number, why in sorted(self._troubles.items()))

    def refused(self, place: str = "") -> str:
        """Return the reason why trains cannot run at ``place``; empty if they can.

        An empty ``place`` asks about all places: the result is empty if trains can run at any place.
        """
        return self._runners.refused(place)

    def order(self, order: TrainOrder, who: Person, clone_of: int = 0, planned: Planned | None = None) -> int:
        """Order a train and return its number. A large train waits for approval; other trains start immediately.

        Raises OptionError for invalid values and for wagons that did not pass their trials on this dataset,
        RefusedError, NoSuchEntryError, and the errors of ``planned.note``.
        """
        who.check_owns(order.owner)
        order.check()
        runner = self._runners.of(order)
        dataset, _ = self._registry.dataset(order.dataset)
        trials = self._passed(order)
        wagons = self._registry.with_required(order.wagons)
        dataset = runner.check(order, dataset, who, is_planned=planned is not None)
        forecast = together([needs_of(one.outcome) for one in trials.values()])
        why = _too_large(forecast, order.place, planned or Planned())
        train = Train(
            0,
            order,
            WAITING if why and not who.is_operator else STARTING,
            who.name,
            _now(),
            seconds=forecast.seconds,
            memory_bytes=forecast.memory_bytes,
            clone_of=clone_of,
            plan=planned.plan if planned is not None else "",
            plan_why=planned.why if planned is not None else "",
        )
        with self._ordering:
            keys = {one: trials[one].key for one in order.wagons}
            train = self._composed(train, wagons, dataset, self._trials.changers(keys, order.dataset))
            self._keep(train, why, keys, planned)
        if train.state == STARTING:
            self._begin(train.number)
        return train.number

    def approve(self, number: int, who: Person) -> None:
        """Start a train that waits for approval. Raises RefusedError, ConflictError, NoSuchEntryError."""
        if not who.is_operator:
            raise RefusedError(f"{who.name} may not approve trains", hint="ask an operator")
        self._runners.of(self.train(number).order)
        if not self._set(number, (WAITING,), STARTING):
            raise ConflictError(f"train {number} does not wait for approval")
        self._begin(number)

    def cancel(self, number: int, who: Person) -> None:
        """Cancel a train. Results of finished sub-jobs are kept.

        Raises RefusedError, NoSuchEntryError, ConflictError, BatchError.
        """
        train = self.train(number)
        who.check_owns(train.order.owner)
        if train.is_over:
            raise ConflictError(f"train {number} has already ended")
        if train.state != WAITING:
            self._runners.of(train.order).cancel(train, self.folder(number))
        self._set(number, (WAITING, STARTING, RUNNING), CANCELLED, why=f"by {who.name}")

    def again(self, number: int, who: Person) -> None:
        """Run the missing sub-jobs of a train that ended without all results.

        Raises RefusedError, NoSuchEntryError, ConflictError.
        """
        train = self.train(number)
        who.check_owns(train.order.owner)
        if not self._in_hand[number].acquire(timeout=TRAIN_IN_HAND_S):
            raise ConflictError(
                f"the results of train {number} are being copied", hint="try again in a minute", retry=True
            )
        try:
            self._go_on(train)
        finally:
            self._in_hand[number].release()

    def _go_on(self, train: Train) -> None:
        number, runner, folder = train.number, self._runners.of(train.order), self.folder(train.number)
        can_resume = runner.can_resume(train, folder)
        if not self._set(number, (PARTIAL, FAILED, CANCELLED), RUNNING if can_resume else STARTING):
            raise ConflictError(f"train {number} has no missing sub-jobs, or is running")
        if not can_resume:
            self._begin(number)
            return
        try:
            self._reports.resume(number)
            runner.resume(train, folder)
        except BranchlineError as error:
            self._set(number, (RUNNING,), FAILED, why=str(error))
            raise

    def clone(self, number: int, who: Person) -> int:
        """Order the same train again, with the current wagons and dataset. Raises the errors of ``order``."""
        order = self.train(number).order
        return self.order(replace(order, owner=who.name), who, clone_of=number)

    def train(self, number: int) -> Train:
        """Return the train with this number. Raises NoSuchEntryError."""
        with self._database.reading() as connection:
            return _found(connection, number)

    def earlier(self, train: Train, count: int = 20) -> list[Train]:
        """Return earlier trains with the same wagons and dataset that have results, newest first."""
        query = (
            f"SELECT {_COLUMNS} FROM trains WHERE number < ? AND state IN (?, ?)"  # noqa: S608 - constant
            " AND json_extract(content, '$.order.dataset') = ? AND json_extract(content, '$.order.wagons') = json(?)"
            " ORDER BY number DESC LIMIT ?"
        )
        order = train.order
        given = (train.number, FINISHED, PARTIAL, order.dataset, json.dumps(order.wagons), count)
        with self._database.reading() as connection:
            return [_train(row) for row in connection.execute(query, given)]

    def trains(self, first: int = 0, count: int = 50) -> tuple[list[Train], int]:
        """Return up to ``count`` trains, newest first, starting at index ``first``, and the total number of trains."""
        query = f"SELECT {_COLUMNS} FROM trains ORDER BY number DESC LIMIT ? OFFSET ?"  # noqa: S608 - constant
        with self._database.reading() as connection:
            rows = [_train(row) for row in connection.execute(query, (count, first))]
            [total] = connection.execute("SELECT count(*) FROM trains").fetchone()
        return rows, int(total)

    def folder(self, number: int) -> Path:
        """Return the folder of a train."""
        return self._folder / str(number)

    def results(self, train: Train) -> Path:
        """Return the result directory of a train."""
        return runner.results_of(self.folder(train.number), train.order)

    def number_of(self, results: Path) -> int:
        """Return the number of the train with this result directory; 0 if there is no such train."""
        try:
            folder, _ = results.relative_to(self._folder).parts
            train = self.train(int(folder))
        except (ValueError, NoSuchEntryError):
            return 0
        return train.number if self.results(train) == results else 0

    def job(self, train: Train) -> str:
        """Return the ID of the job that last reported this train; empty if the train was never reported."""
        if self._is_shared:
            # Do not look up the output directory, because any person could report a job with the same directory.
            return self._reports.job(train.number)
        query = "SELECT job FROM jobs WHERE started >= ? AND out = ? ORDER BY started DESC, id DESC LIMIT 1"
        with self._database.reading() as connection:
            row = connection.execute(query, (train.ordered, str(self.results(train)))).fetchone()
        return "" if row is None else str(row[0])

    def status(self, train: Train) -> TrainStatus | None:
        """Return the status of a train's run, as shown by `branchline status`; None if unknown."""
        with suppress(BranchlineError):
            return self._runners.of(train.order).shown(train, self.folder(train.number))
        return None

    def log(self, train: Train) -> str:
        """Return the end of a train's log."""
        with suppress(BranchlineError):
            return self._runners.of(train.order).log(train, self.folder(train.number))
        return ""

    def _composed(
        self, train: Train, wagons: Sequence[WholeWagon], dataset: DatasetEntry, changers: Mapping[str, str]
    ) -> Train:
        """Create a train's folder under the next free number. Return the train with this number and its command.

        The folder is complete before the train is added to the database. Each train in the database can therefore be
        started, even if the server is killed. Files of an interrupted order are replaced.
        """
        with self._database.reading() as connection:
            [last] = connection.execute("SELECT ifnull(max(number), 0) FROM trains").fetchone()
        folder = self.folder(last + 1)
        for left in folder.glob("source_*"):
            shutil.rmtree(left, ignore_errors=True)
        texts = [self._sources.text(one.source_sha256) for one in wagons]
        compose(wagons, texts, folder, by_dataset=bool(dataset.merge_groups), changers=changers)
        files = [str(write_groups(dataset, folder))] if dataset.merge_groups else dataset.files
        command = self._runners.of(train.order).command(train.order, replace(dataset, files=files), folder)
        runner.note_command(command, folder)
        return replace(train, number=last + 1, command=command, wagons=names_in_train(wagons), changers=dict(changers))

    def _keep(self, train: Train, why: str, keys: Mapping[str, str], planned: Planned | None) -> None:
        content = json.dumps(to_plain(train))
        with self._database.writing() as connection:
            connection.execute(
                "INSERT INTO trains (number, content, state, why) VALUES (?, ?, ?, ?)",
                (train.number, content, train.state, why if train.state == WAITING else ""),
            )
            if planned is not None and planned.note is not None:
                planned.note(connection, train.number)
            note_riders(connection, train.number, train.order.dataset, keys)

    def _passed(self, order: TrainOrder) -> dict[str, Trial]:
        """Return the trials of an order's wagons. Raises OptionError if a wagon's current version has not passed."""
        passed = {}
        trials = self._trials.last([(one, order.dataset) for one in order.wagons])
        for address in order.wagons:
            trial = trials.get((address, order.dataset))
            if trial is None or trial.state not in (DONE, WARNED):
                what = f"{address} has no trial on {order.dataset}"
                if trial is not None:
                    what = f"the trial of {address} on {order.dataset} is {trial.state}"
                raise OptionError(what, hint="only wagons that passed can ride")
            if trial.key != self._trials.key_of(address, order.dataset):
                raise OptionError(
                    f"{address} or {order.dataset} has changed since its trial", hint="wait for the new trial"
                )
            passed[address] = trial
        return passed

    def _begin(self, number: int) -> None:
        """Start the process of a train, unless another thread is starting it."""
        with self._starting:
            if number in self._being_started:
                return
            self._being_started.add(number)
        try:
            self._start(self.train(number))
        finally:
            with self._starting:
                self._being_started.discard(number)

    def _start(self, train: Train) -> None:
        number, folder = train.number, self.folder(train.number)
        if train.state != STARTING:
            return
        try:
            runner = self._runners.of(train.order)
            if not runner.reports_itself:
                self._reports.begin(train, self.results(train))
            process = runner.start(train, folder)
        except (BranchlineError, OSError) as error:
            # If this report fails, the monitoring thread repeats the report.
            with suppress(BranchlineError):
                self._reports.end(train, None, TrainStatus(status=FAILED, errors=[str(error)]))
            self._set(number, (STARTING,), FAILED, why=str(error))
            return
        if not self._set(number, (STARTING,), RUNNING, process=process):
            # The train was cancelled while its process started.
            with suppress(BranchlineError):
                runner.cancel(replace(train, process=process), folder)

    def _set(
        self, number: int, before: Sequence[str], state: str, *, why: str = "", process: int | None = None
    ) -> bool:
        """Change a train's state if its current state is in ``before``. Return whether the state was changed."""
        with self._database.writing() as connection:
            train = _found(connection, number)
            if train.state not in before:
                return False
            began = _now() if state == RUNNING else train.began
            ended = _now() if state in ENDS else ""
            number_of_process = train.process if process is None else process
            connection.execute(
                "UPDATE trains SET state = ?, why = ?, process = ?, began = ?, ended = ? WHERE number = ?",
                (state, why, number_of_process, began, ended, number),
            )
            return True

    def _follow(self) -> None:
        seconds, has_begun = 0.0, False
        while True:
            try:
                if not has_begun:
                    for train in self._in_state(STARTING):
                        self._begin(train.number)
                    has_begun = True
                else:
                    self._look_at_due(seconds)
                self._troubles.pop(_ALL, None)
            except Exception as error:  # noqa: BLE001 - monitoring continues after errors such as a full disk
                self._troubles[_ALL] = trouble_of(error, "trains")
            if self._is_stopped.wait(TRAIN_LOOK_S):
                return
            seconds += TRAIN_LOOK_S

    def _look_at_due(self, seconds: float) -> None:
        for train in self._followed():
            # Query batch systems less often.
            due_s = TRAIN_LOOK_S if train.order.place == HERE else TRAIN_SUBMITTED_LOOK_S
            if seconds - self._looked_s.get(train.number, -due_s) >= due_s:
                self._look_soon(train, seconds)

    def _look_soon(self, train: Train, seconds: float) -> None:
        """Check a train in a new thread, unless the train's last check or too many other checks are running.

        A check may wait for a slow process of another user, which must not delay other trains or the server's shutdown.
        """
        self._looking = {number: one for number, one in self._looking.items() if one.is_alive()}
        if train.number in self._looking or len(self._looking) >= OWNER_LOOKS_AT_ONCE:
            return
        self._looked_s[train.number] = seconds
        thread = threading.Thread(target=self._look_or_say, args=(train,), name="branchline-look", daemon=True)
        self._looking[train.number] = thread
        thread.start()

    def _look_or_say(self, train: Train) -> None:
        """Check a train. Errors, such as a full disk, are stored for the pages, and the check is repeated later."""
        try:
            with self._in_hand[train.number]:
                # The train may have been restarted while this thread waited for the lock.
                if self.train(train.number).state == train.state:
                    self._look(train)
            self._troubles.pop(train.number, None)
        except Exception as error:  # noqa: BLE001 - an internal error is shown on pages
            self._troubles[train.number] = trouble_of(error, "trains")

    def _look(self, train: Train) -> None:
        """Check a train, and store its end if the run has ended.

        Reports the state of trains that cannot send reports.
        """
        folder = self.folder(train.number)
        runner = self._runners.of(train.order)
        found = runner.look(train, folder)
        status = found.status
        if found.is_alive or (status is not None and not status.is_over and status.status != DIED):
            if status is not None and not runner.reports_itself:
                self._reports.note(train, status)
            return
        # The run has ended, so this state is final.
        end = self._ended(train, runner, found)
        if not runner.reports_itself:
            end = self._reported(train, end, status)
        self._set(train.number, (RUNNING,), end.state, why=end.why)

    def _ended(self, train: Train, runner: Runner, found: Standing) -> _End:
        """Copy an ended train's results, and return its end. Raises BranchlineError if copying should be retried."""
        folder, status = self.folder(train.number), found.status
        if status is None:
            return _End(FAILED, runner.log(train, folder) or "its process died")
        if status.status in (FINISHED, PARTIAL, FAILED):
            why = "" if status.status == FINISHED else "; ".join(status.errors) or runner.log(train, folder)
            try:
                runner.take(train, folder)
            except BranchlineError as error:
                if error.retry:
                    raise
                return _End(FAILED, str(error))
            return _End(status.status, why, has_record=True)
        why = runner.ended(train, folder) or "its process died"
        if status.status not in (DIED, STOPPED):
            why = f"its record has the status {status.status!r:.40}, which is not a final one"
        return _End(FAILED, f"{why}; finished results are kept")

    def _reported(self, train: Train, end: _End, status: TrainStatus | None) -> _End:
        """Report the end of a train that cannot send reports. Return the end, with any problem of the report added."""
        why = train.why or end.why
        last = replace(
            status or TrainStatus(),
            status=STOPPED if train.state == CANCELLED else end.state,
            errors=[why] if why else [],
        )
        record = record_of(self.results(train)) if end.has_record else None
        unread = "cannot read its record" if end.has_record and record is None else ""
        refused = self._reports.end(train, record, last) or unread
        left_out = f"its reads are missing in the statistics: {refused}" if refused else ""
        return replace(end, why="; ".join(one for one in (end.why, left_out) if one))

    def _followed(self) -> list[Train]:
        """Return running trains, and ended trains whose end has not been reported yet.

        Returns an empty list if the database cannot be read. Pages show such an error anyway.
        """
        with suppress(BranchlineError):
            running = self._in_state(RUNNING)
            at_work = self._reports.at_work() - {one.number for one in running}
            others = [self.train(number) for number in sorted(at_work)]
            return running + [one for one in others if one.is_over]
        return []

    def _in_state(self, state: str) -> list[Train]:
        query = f"SELECT {_COLUMNS} FROM trains WHERE state = ? ORDER BY number"  # noqa: S608 - constant
        with self._database.reading() as connection:
            return [_train(row) for row in connection.execute(query, (state,))]


@dataclass(frozen=True)
class _End:
    """The end of a train: its final state, the reason, and whether the train has a record."""

    state: str
    why: str
    has_record: bool = False


def _too_large(forecast: Needs, place: str, planned: Planned) -> str:
    """Return the reason why an operator has to approve a train; empty if no approval is needed."""
    seconds_max = min(planned.seconds_max or TRAIN_SECONDS_APPROVED, TRAIN_SECONDS_APPROVED)
    if forecast.seconds > seconds_max:
        return f"it will take {duration(forecast.seconds)}, more than {duration(seconds_max)}"
    # The general memory limit protects this machine and does not apply to batch systems, which choose machines with
    # enough memory. A plan's memory limit applies at any place.
    memory_max = planned.memory_max_bytes or (TRAIN_MEMORY_APPROVED_BYTES if place == HERE else 0)
    memory_max = min(memory_max, TRAIN_MEMORY_APPROVED_BYTES) if place == HERE else memory_max
    if memory_max and forecast.memory_bytes > memory_max:
        return f"it will take {size(forecast.memory_bytes)} of memory, more than {size(memory_max)}"
    return ""


def _found(connection: sqlite3.Connection, number: int) -> Train:
    query = f"SELECT {_COLUMNS} FROM trains WHERE number = ?"  # noqa: S608 - constant
    row = connection.execute(query, (number,)).fetchone()
    if row is None:
        raise NoSuchEntryError(f"no train {number}")
    return _train(row)


def _train(row: Sequence[object]) -> Train:
    number, content, state, process, began, ended, why = row
    plain = json.loads(str(content))
    plain |= {"number": number, "state": state, "process": process, "began": began, "ended": ended, "why": why}
    train: Train = from_plain(Train, plain)
    return train


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
