"""Trains that were ordered: started, followed, ended, kept."""

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
from branchline.control.trains.room_reports import TABLES as REPORT_TABLES
from branchline.control.trains.room_reports import RoomReports, Take
from branchline.control.trains.runner import ReportTo, Runner, Standing
from branchline.control.trains.train import (
    CANCELLED,
    ENDS,
    FAILED,
    FINISHED,
    HERE,
    PARTIAL,
    RUNNING,
    STARTING,
    WAITING,
    Planned,
    Train,
    TrainOrder,
    note_riders,
)
from branchline.control.trains.train import TABLES as RIDER_TABLES
from branchline.control.trials.trial import DONE, WARNED, Needs, needs_of, together
from branchline.control.trials.trials import Trial, Trials
from branchline.errors import BranchlineError, OptionError
from branchline.records.sensors.status import DIED, STOPPED, TrainStatus

TABLES = f"""
CREATE TABLE IF NOT EXISTS trains (
    number INTEGER PRIMARY KEY, content TEXT NOT NULL, state TEXT NOT NULL, process INTEGER NOT NULL DEFAULT 0,
    began TEXT NOT NULL DEFAULT '', ended TEXT NOT NULL DEFAULT '', why TEXT NOT NULL DEFAULT '');
CREATE INDEX IF NOT EXISTS trains_by_state ON trains (state, number);
{RIDER_TABLES}{REPORT_TABLES}"""
_COLUMNS = "number, content, state, process, began, ended, why"
#: The number of no train: what keeps all of them from being followed.
_ALL = 0


class Trains:
    """All trains of a control room. A thread follows those that run, from ``start`` to ``stop``; they go on without
    it.
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
        # Whoever starts a train again, or takes over what it left, has its lock: results are not replaced beneath it.
        self._in_hand: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)
        self._troubles: dict[int, str] = {}

    def start(self, report_to: ReportTo | None = None) -> None:
        """Begins to follow trains; those that the server had just begun when it was killed are begun again."""
        self._runners.own.report_to = report_to
        self._thread = threading.Thread(target=self._follow, name="branchline-trains", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ends following; trains go on."""
        self._is_stopped.set()
        if self._thread is not None:
            self._thread.join()

    @property
    def trouble(self) -> str:
        """Which trains cannot be followed now, or why none can; empty if all can."""
        return "; ".join(f"train {number}: {why}" if number else why for number, why in sorted(self._troubles.items()))

    def refused(self, place: str = "") -> str:
        """Why this control room runs no trains at a place, or at none; empty if it does."""
        return self._runners.refused(place)

    def order(self, order: TrainOrder, who: Person, clone_of: int = 0, planned: Planned | None = None) -> int:
        """Orders a train and gives its number. It begins at once, or waits for an operator where it is too large.

        Raises OptionError for wagons that did not pass their trials on this dataset, RefusedError, NoSuchEntryError,
        and what the note of a plan raises.
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
        """An operator has a train begin that waits for it. Raises RefusedError, ConflictError, NoSuchEntryError."""
        if not who.is_operator:
            raise RefusedError(f"{who.name} may not approve trains", hint="ask an operator")
        self._runners.of(self.train(number).order)
        if not self._set(number, (WAITING,), STARTING):
            raise ConflictError(f"train {number} does not wait for approval")
        self._begin(number)

    def cancel(self, number: int, who: Person) -> None:
        """Ends a train; what is done is kept. Raises RefusedError, NoSuchEntryError, ConflictError, BatchError."""
        train = self.train(number)
        who.check_owns(train.order.owner)
        if train.is_over:
            raise ConflictError(f"train {number} has ended already")
        if train.state != WAITING:
            self._runners.of(train.order).cancel(train, self.folder(number))
        self._set(number, (WAITING, STARTING, RUNNING), CANCELLED, why=f"by {who.name}")

    def again(self, number: int, who: Person) -> None:
        """Runs what is missing of a train that did not finish; what is done is not run again.

        Raises RefusedError, NoSuchEntryError, ConflictError.
        """
        train = self.train(number)
        who.check_owns(train.order.owner)
        if not self._in_hand[number].acquire(timeout=TRAIN_IN_HAND_S):
            raise ConflictError(
                f"what train {number} left is being taken over", hint="try again in a minute", retry=True
            )
        try:
            self._go_on(train)
        finally:
            self._in_hand[number].release()

    def _go_on(self, train: Train) -> None:
        number, runner, folder = train.number, self._runners.of(train.order), self.folder(train.number)
        can_resume = runner.can_resume(train, folder)
        if not self._set(number, (PARTIAL, FAILED, CANCELLED), RUNNING if can_resume else STARTING):
            raise ConflictError(f"nothing is missing of train {number}, or it runs")
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
        """Orders the same train again, of the wagons and the dataset as they are now. Raises what ``order`` raises."""
        order = self.train(number).order
        return self.order(TrainOrder(**{**to_plain(order), "owner": who.name}), who, clone_of=number)

    def train(self, number: int) -> Train:
        """One train. Raises NoSuchEntryError."""
        with self._database.reading() as connection:
            return _found(connection, number)

    def earlier(self, train: Train, count: int = 20) -> list[Train]:
        """Trains of the same wagons and dataset that ended with results before this one was ordered, newest first."""
        query = (
            f"SELECT {_COLUMNS} FROM trains WHERE number < ? AND state IN (?, ?)"  # noqa: S608 - ours
            " AND json_extract(content, '$.order.dataset') = ? AND json_extract(content, '$.order.wagons') = json(?)"
            " ORDER BY number DESC LIMIT ?"
        )
        order = train.order
        given = (train.number, FINISHED, PARTIAL, order.dataset, json.dumps(order.wagons), count)
        with self._database.reading() as connection:
            return [_train(row) for row in connection.execute(query, given)]

    def trains(self, first: int = 0, count: int = 50) -> tuple[list[Train], int]:
        """Some of the trains, the newest first, and how many there are."""
        query = f"SELECT {_COLUMNS} FROM trains ORDER BY number DESC LIMIT ? OFFSET ?"  # noqa: S608 - ours
        with self._database.reading() as connection:
            rows = [_train(row) for row in connection.execute(query, (count, first))]
            [total] = connection.execute("SELECT count(*) FROM trains").fetchone()
        return rows, int(total)

    def folder(self, number: int) -> Path:
        """The folder of a train."""
        return self._folder / str(number)

    def results(self, train: Train) -> Path:
        """The directory of its results."""
        return runner.results_of(self.folder(train.number), train.order)

    def number_of(self, results: Path) -> int:
        """The train whose results a directory has; 0 if it is none of them."""
        try:
            folder, _ = results.relative_to(self._folder).parts
            train = self.train(int(folder))
        except (ValueError, NoSuchEntryError):
            return 0
        return train.number if self.results(train) == results else 0

    def job(self, train: Train) -> str:
        """The job that a train was last reported as; empty if it was not."""
        if self._is_shared:
            # Anybody may report a job with this name, command and place of results.
            return self._reports.job(train.number)
        query = "SELECT job FROM jobs WHERE started >= ? AND out = ? ORDER BY started DESC, id DESC LIMIT 1"
        with self._database.reading() as connection:
            row = connection.execute(query, (train.ordered, str(self.results(train)))).fetchone()
        return "" if row is None else str(row[0])

    def status(self, train: Train) -> TrainStatus | None:
        """The state of its run, as `branchline status` says it; None as long as there is none."""
        with suppress(BranchlineError):
            return self._runners.of(train.order).shown(train, self.folder(train.number))
        return None

    def log(self, train: Train) -> str:
        """The end of what its process wrote to its terminal."""
        with suppress(BranchlineError):
            return self._runners.of(train.order).log(train, self.folder(train.number))
        return ""

    def _composed(
        self, train: Train, wagons: Sequence[WholeWagon], dataset: DatasetEntry, changers: Mapping[str, str]
    ) -> Train:
        """A train with the next number, whose folder is whole: what is in the database can be started, whenever the
        server is killed. What an order left that did not come so far is replaced.
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
        """The trials of the wagons of an order. Raises OptionError unless all passed as they are now."""
        passed = {}
        trials = self._trials.last([(one, order.dataset) for one in order.wagons])
        for address in order.wagons:
            trial = trials.get((address, order.dataset))
            if trial is None or trial.state not in (DONE, WARNED):
                how = "was not tried" if trial is None else f"is {trial.state} in its trial"
                raise OptionError(f"{address} {how} on {order.dataset}", hint="only wagons that passed can ride")
            if trial.key != self._trials.key_of(address, order.dataset):
                raise OptionError(
                    f"{address} or {order.dataset} has changed since its trial", hint="wait for the new one"
                )
            passed[address] = trial
        return passed

    def _begin(self, number: int) -> None:
        """Starts the process of a train that is to start. One that another thread starts is left to it."""
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
            # Where this cannot be noted now, the thread that follows trains does it later.
            with suppress(BranchlineError):
                self._reports.end(train, None, TrainStatus(status=FAILED, errors=[str(error)]))
            self._set(number, (STARTING,), FAILED, why=str(error))
            return
        if not self._set(number, (STARTING,), RUNNING, process=process):
            # It was cancelled meanwhile.
            with suppress(BranchlineError):
                runner.cancel(replace(train, process=process), folder)

    def _set(
        self, number: int, before: Sequence[str], state: str, *, why: str = "", process: int | None = None
    ) -> bool:
        """Changes the state of a train if it is one of those before; whether it was."""
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
            except Exception as error:  # noqa: BLE001 - no train would be followed any more, as where the disk was full
                self._troubles[_ALL] = trouble_of(error, "trains")
            if self._is_stopped.wait(TRAIN_LOOK_S):
                return
            seconds += TRAIN_LOOK_S

    def _look_at_due(self, seconds: float) -> None:
        for train in self._followed():
            # A batch system is asked seldom.
            due_s = TRAIN_LOOK_S if train.order.place == HERE else TRAIN_SUBMITTED_LOOK_S
            if seconds - self._looked_s.get(train.number, -due_s) >= due_s:
                self._look_soon(train, seconds)

    def _look_soon(self, train: Train, seconds: float) -> None:
        """Looks at a train that nobody looks at. A process of another user may take its time: it keeps no other train
        waiting, nor the end of the server.
        """
        self._looking = {number: one for number, one in self._looking.items() if one.is_alive()}
        if train.number in self._looking or len(self._looking) >= OWNER_LOOKS_AT_ONCE:
            return
        self._looked_s[train.number] = seconds
        thread = threading.Thread(target=self._look_or_say, args=(train,), name="branchline-look", daemon=True)
        self._looking[train.number] = thread
        thread.start()

    def _look_or_say(self, train: Train) -> None:
        """What cannot be looked at now, as on a full disk, is looked at again."""
        try:
            with self._in_hand[train.number]:
                # It may have been run again meanwhile.
                if self.train(train.number).state == train.state:
                    self._look(train)
            self._troubles.pop(train.number, None)
        except Exception as error:  # noqa: BLE001 - a fault of ours must not end the thread: no train would ever end
            self._troubles[train.number] = trouble_of(error, "trains")

    def _look(self, train: Train) -> None:
        """Notes how a train stands, and its end. One that was cancelled is over when its process is gone."""
        folder = self.folder(train.number)
        runner = self._runners.of(train.order)
        found = runner.look(train, folder)
        status = found.status
        if found.is_alive or (status is not None and not status.is_over and status.status != DIED):
            if status is not None and not runner.reports_itself:
                self._reports.note(train, status)
            return
        # The process is gone, so nothing follows.
        end = self._ended(train, runner, found)
        if not runner.reports_itself:
            end = self._reported(train, end, status)
        self._set(train.number, (RUNNING,), end.state, why=end.why)

    def _ended(self, train: Train, runner: Runner, found: Standing) -> _End:
        """How a train has ended, with its results taken over. Raises BranchlineError where they can be taken later."""
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
            why = f"its record says that it is {status.status!r:.40}, which is no end"
        return _End(FAILED, f"{why}; what is done is kept")

    def _reported(self, train: Train, end: _End, status: TrainStatus | None) -> _End:
        """The end, once it was reported for a train that cannot do so."""
        why = train.why or end.why
        last = replace(
            status or TrainStatus(),
            status=STOPPED if train.state == CANCELLED else end.state,
            errors=[why] if why else [],
        )
        record = record_of(self.results(train)) if end.has_record else None
        unread = "its record cannot be read" if end.has_record and record is None else ""
        refused = self._reports.end(train, record, last) or unread
        left_out = f"its reads are not among the jobs: {refused}" if refused else ""
        return replace(end, why="; ".join(one for one in (end.why, left_out) if one))

    def _followed(self) -> list[Train]:
        """The trains that run, and those that were cancelled whose processes may not be gone; none while the database
        cannot be read, which pages say.
        """
        with suppress(BranchlineError):
            running = self._in_state(RUNNING)
            at_work = self._reports.at_work() - {one.number for one in running}
            others = [self.train(number) for number in sorted(at_work)]
            return running + [one for one in others if one.is_over]
        return []

    def _in_state(self, state: str) -> list[Train]:
        query = f"SELECT {_COLUMNS} FROM trains WHERE state = ? ORDER BY number"  # noqa: S608 - ours
        with self._database.reading() as connection:
            return [_train(row) for row in connection.execute(query, (state,))]


@dataclass(frozen=True)
class _End:
    """How a train has ended: its state, why, and whether there is a record of it."""

    state: str
    why: str
    has_record: bool = False


def _too_large(forecast: Needs, place: str, planned: Planned) -> str:
    """Why an operator has to approve a train; empty if nobody has to."""
    seconds_max = min(planned.seconds_max or TRAIN_SECONDS_APPROVED, TRAIN_SECONDS_APPROVED)
    if forecast.seconds > seconds_max:
        return f"it will take {duration(forecast.seconds)}, more than {duration(seconds_max)}"
    # Elsewhere workers are on machines that the batch system chooses by what they need; a plan may be stricter.
    memory_max = planned.memory_max_bytes or (TRAIN_MEMORY_APPROVED_BYTES if place == HERE else 0)
    memory_max = min(memory_max, TRAIN_MEMORY_APPROVED_BYTES) if place == HERE else memory_max
    if memory_max and forecast.memory_bytes > memory_max:
        return f"it will take {size(forecast.memory_bytes)} of memory, more than {size(memory_max)}"
    return ""


def _found(connection: sqlite3.Connection, number: int) -> Train:
    query = f"SELECT {_COLUMNS} FROM trains WHERE number = ?"  # noqa: S608 - columns are ours
    row = connection.execute(query, (number,)).fetchone()
    if row is None:
        raise NoSuchEntryError(f"there is no train {number}")
    return _train(row)


def _train(row: Sequence[object]) -> Train:
    number, content, state, process, began, ended, why = row
    plain = json.loads(str(content))
    plain |= {"number": number, "state": state, "process": process, "began": began, "ended": ended, "why": why}
    train: Train = from_plain(Train, plain)
    return train


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
