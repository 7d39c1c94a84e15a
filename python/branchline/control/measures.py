"""Measures that operators switch on, undo and send to jobs, and their effect.

A measure records who switched it on, why, and until when. Its effect compares reads before and after it began. Both
come from hourly sums, so that no page reads rows of jobs.
"""

from __future__ import annotations

import json
import re
import shlex
import sqlite3
import threading
from collections.abc import Sequence
from dataclasses import astuple, dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from branchline.base.limits import (
    MEASURE_BEFORE_HOURS,
    MEASURE_HOURS,
    MEASURE_HOURS_MAX,
    MEASURE_TEXT_MAX,
    MEASURE_WHY_MAX,
    MEASURES_IN_FORCE_MAX,
)
from branchline.base.plain import from_plain, to_plain
from branchline.control.database import Database
from branchline.control.people import Person
from branchline.control.registry.revisions import MEASURE, keep_change
from branchline.control.reports.periods import ranges, text_of
from branchline.control.reports.readings import Period, Reads
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.control.trains.trains import Trains
from branchline.errors import BranchlineError, OptionError
from branchline.records.diagnosis.remedies import ACTIONS, AVOID_ELEMENT, SEND_AGAIN, STAGE_ELEMENT
from branchline.records.sensors.job_measures import JobMeasure, JobMeasures

# How a measure stands.
IN_FORCE, ENDED, UNDONE = "in force", "ended", "undone"
TABLES = """
CREATE TABLE IF NOT EXISTS measures (number INTEGER PRIMARY KEY AUTOINCREMENT, ends TEXT NOT NULL, content TEXT);
CREATE INDEX IF NOT EXISTS measures_by_end ON measures (ends);
"""
_JOB = re.compile(r"[0-9a-f]{32}")
# Batch systems, whose jobs are resumed instead of run again.
_SUBMITTED = ("slurm", "htcondor")
_SUMS = "sum(files), sum(bytes_read), sum(failures), sum(wall_s), sum(fetch_s)"


@dataclass(frozen=True)
class MeasureOrder:
    """What is to be done: ``storage_element`` is an element as pages name it, or the beginning of the locations of
    replicas up to a slash; ``site`` and ``job`` are whom it is for, empty for all. ``why`` is a person's reason,
    ``finding`` the name of the finding that proposed it.
    """

    kind: str
    storage_element: str = ""
    site: str = ""
    job: str = ""
    hours: int = MEASURE_HOURS
    why: str = ""
    finding: str = ""

    def check(self) -> None:
        """Raises OptionError for what is wrong."""
        if self.kind not in ACTIONS:
            raise OptionError(f"there is no measure {self.kind!r:.40}", hint=f"there are {', '.join(ACTIONS)}")
        if not 1 <= self.hours <= MEASURE_HOURS_MAX:
            raise OptionError(f"a measure of {self.hours} hours is impossible", hint=f"give 1 to {MEASURE_HOURS_MAX}")
        for name, text in (("storage element", self.storage_element), ("site", self.site)):
            if len(text) > MEASURE_TEXT_MAX or not text.isprintable():
                raise OptionError(f"the {name} of a measure has up to {MEASURE_TEXT_MAX} characters, all printable")
        if len(self.why) > MEASURE_WHY_MAX or len(self.finding) > MEASURE_WHY_MAX:
            raise OptionError(f"the reason of a measure has up to {MEASURE_WHY_MAX} characters")
        if self.job and not _JOB.fullmatch(self.job):
            raise OptionError(f"{self.job!r:.40} is no job", hint="take the number from the address of its page")
        if self.kind == SEND_AGAIN and not self.job:
            raise OptionError("there is no job to send again", hint="take the number from the address of its page")
        if self.kind != SEND_AGAIN and not self.storage_element:
            raise OptionError("a measure needs a storage element", hint="take the name from the page of storage")

    @property
    def what(self) -> str:
        """The measure in words."""
        if self.kind == SEND_AGAIN:
            return f"send again what failed of job {self.job}"
        verb = {AVOID_ELEMENT: "avoid", STAGE_ELEMENT: "copy files before reading from"}[self.kind]
        whom = f" for workers at {self.site}" if self.site else ""
        return f"{verb} {self.storage_element}{whom}" + (f" in job {self.job}" if self.job else "")


@dataclass(frozen=True)
class Split:
    """Reads by workers whom a measure is for: from the storage element that is meant, and from all others."""

    meant: Reads = field(default_factory=Reads)
    others: Reads = field(default_factory=Reads)


@dataclass(frozen=True)
class Measure:
    """A measure that ``who`` switched on. Times are ISO 8601, UTC. ``before`` are the reads of a day before it,
    ``hour`` those of them in the hour in which it began. ``outcome`` is what came of sending again, or the
    command to give; ``train`` is that of the control room that runs again, 0 if none.
    """

    number: int
    order: MeasureOrder
    who: str
    begins: str
    ends: str
    undone: str = ""
    undone_by: str = ""
    outcome: str = ""
    train: int = 0
    before: Split = field(default_factory=Split)
    hour: Split = field(default_factory=Split)

    def state(self, now: datetime) -> str:
        """How it stands at a time."""
        if self.undone:
            return UNDONE
        return IN_FORCE if now < datetime.fromisoformat(self.ends) else ENDED


@dataclass(frozen=True)
class Effect:
    """Reads in the day before a measure, and since it began (up to the end of the hour in which it ended)."""

    before: Split
    since: Split


class Measures:
    """All measures. What changes anything takes the person who does it. Methods raise RefusedError without the right,
    NoSuchEntryError for what is not there, OptionError for what is wrong, ConflictError for what is so already.
    """

    def __init__(self, database: Database, trains: Trains) -> None:
        self._database = database
        self._trains = trains
        self._lock = threading.Lock()
        # Every report asks for them: they are not looked up each time.
        self._in_force: list[Measure] = []
        self._look()

    def switch_on(self, order: MeasureOrder, who: Person) -> int:
        """Switches a measure on, and gives its number."""
        _check_may(who)
        order.check()
        now = datetime.now(UTC)
        found = self._job(order.job) if order.job else None
        with self._database.writing() as connection:
            _refuse_twice(_in_force(connection, now), order)
            before, hour = reads_before(connection, order, now)
            ends = _text(now + timedelta(hours=order.hours))
            made = connection.execute("INSERT INTO measures (ends) VALUES (?)", (ends,))
            number = int(made.lastrowid or 0)
            measure = Measure(number, order, who.name, _text(now), ends, before=before, hour=hour)
            if order.kind == SEND_AGAIN and found is not None:
                measure = self._with_way(measure, found)
            _keep(connection, who, None, measure)
        self._look()
        if measure.train:
            self._run_again(measure, who)
        return number

    def undo(self, number: int, who: Person) -> None:
        """Ends a measure now; a train that was sent again is cancelled. What jobs have read stays as it is."""
        _check_may(who)
        measure = self.measure(number)
        now = datetime.now(UTC)
        if measure.state(now) != IN_FORCE:
            raise ConflictError(f"measure {number} is {measure.state(now)} already")
        if measure.train:
            self._trains.cancel(measure.train, who)
        with self._database.writing() as connection:
            before = _found(connection, number)
            if before.undone:
                raise ConflictError(f"measure {number} is undone already")
            _keep(connection, who, before, replace(before, undone=_text(now), undone_by=who.name))
        self._look()

    def told(self, job: str) -> JobMeasures:
        """What an answer to a report of a job says."""
        now = datetime.now(UTC)
        with self._lock:
            found = [one for one in self._in_force if one.order.job in ("", job) and one.state(now) == IN_FORCE]
        return JobMeasures(job, in_force=[_for_job(one, now) for one in found if one.order.kind != SEND_AGAIN])

    def measure(self, number: int) -> Measure:
        """One measure."""
        with self._database.reading() as connection:
            return _found(connection, number)

    def measures(self, first: int = 0, count: int = 50) -> tuple[list[Measure], int]:
        """Some of the measures, the newest first, and how many there are."""
        query = "SELECT content FROM measures ORDER BY number DESC LIMIT ? OFFSET ?"
        with self._database.reading() as connection:
            found = [_measure(content) for (content,) in connection.execute(query, (count, first))]
            [total] = connection.execute("SELECT count(*) FROM measures").fetchone()
        return found, int(total)

    def effect(self, measure: Measure) -> Effect:
        """What was read before a measure, and since."""
        with self._database.reading() as connection:
            return effect(connection, measure)

    def _look(self) -> None:
        """Looks up which are in force. Of several that look at once the last one has seen what the others did."""
        with self._lock, self._database.reading() as connection:
            self._in_force = _in_force(connection, datetime.now(UTC))

    def _job(self, job: str) -> tuple[str, str, str]:
        """The command of a job, its directory, and where it runs."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT command, out, place FROM jobs WHERE job = ?", (job,)).fetchone()
        if row is None:
            raise NoSuchEntryError(f"no job {job} has reported")
        return str(row[0]), str(row[1]), str(row[2])

    def _with_way(self, measure: Measure, job: tuple[str, str, str]) -> Measure:
        """How a job is sent again: by the control room if it is one of its trains, else by a command."""
        command, out, place = job
        train = self._trains.number_of(Path(out)) if out else 0
        if train:
            return replace(measure, train=train, outcome=f"train {train} runs what is missing")
        if place in _SUBMITTED:
            return replace(measure, outcome=f"give: branchline resume {shlex.quote(out)}")
        if not command or not out:
            return replace(measure, outcome="its owner has to run it again: it keeps no results to go on from")
        forced = "" if "--force" in command.split() else " --force"
        return replace(measure, outcome=f"give: {command}{forced}")

    def _run_again(self, measure: Measure, who: Person) -> None:
        """Has a train run what is missing. If it cannot, the measure says so, and is undone."""
        try:
            self._trains.again(measure.train, who)
        except BranchlineError as error:
            failed = replace(measure, outcome=str(error), undone=_text(datetime.now(UTC)), undone_by=who.name)
            with self._database.writing() as connection:
                _keep(connection, who, measure, failed)
            self._look()
            raise


def _check_may(who: Person) -> None:
    if not who.is_operator:
        raise RefusedError(f"{who.name} may not change measures", hint="ask an operator")


def _in_force(connection: sqlite3.Connection, now: datetime) -> list[Measure]:
    query = "SELECT content FROM measures WHERE ends > ? ORDER BY number"
    found = [_measure(content) for (content,) in connection.execute(query, (_text(now),))]
    return [one for one in found if one.state(now) == IN_FORCE]


def _refuse_twice(in_force: Sequence[Measure], order: MeasureOrder) -> None:
    if order.kind == SEND_AGAIN:
        return  # It may fail again.
    in_force = [one for one in in_force if one.order.kind != SEND_AGAIN]
    if len(in_force) >= MEASURES_IN_FORCE_MAX:
        what = f"there are {MEASURES_IN_FORCE_MAX} measures in force, and not more"
        raise ConflictError(what, hint="undo one that helps nothing")
    for one in in_force:
        if _aim(one.order) == _aim(order):
            raise ConflictError(f"measure {one.number} does that until {one.ends[:16]} UTC", hint="undo it first")


def _keep(connection: sqlite3.Connection, who: Person, before: Measure | None, after: Measure) -> None:
    connection.execute("UPDATE measures SET content = ? WHERE number = ?", (json.dumps(to_plain(after)), after.number))
    plain = [None if one is None else json.dumps(_as_changed(one), sort_keys=True) for one in (before, after)]
    keep_change(connection, who.name, MEASURE, str(after.number), *plain)


def _aim(order: MeasureOrder) -> tuple[str, str, str, str]:
    return order.kind, order.storage_element, order.site, order.job


def _for_job(measure: Measure, now: datetime) -> JobMeasure:
    order = measure.order
    left_s = (datetime.fromisoformat(measure.ends) - now).total_seconds()
    return JobMeasure(measure.number, order.kind, order.storage_element, order.site, left_s)


def _as_changed(measure: Measure) -> dict[str, object]:
    """What the list of changes shows."""
    plain: dict[str, object] = to_plain(measure)
    return {name: value for name, value in plain.items() if name not in ("number", "before", "hour", "who") and value}


def _found(connection: sqlite3.Connection, number: int) -> Measure:
    row: Sequence[str] | None = connection.execute(
        "SELECT content FROM measures WHERE number = ?", (number,)
    ).fetchone()
    if row is None:
        raise NoSuchEntryError(f"there is no measure {number}")
    return _measure(row[0])


def _measure(content: str) -> Measure:
    measure: Measure = from_plain(Measure, json.loads(content))
    return measure


def reads_before(connection: sqlite3.Connection, order: MeasureOrder, now: datetime) -> tuple[Split, Split]:
    """The reads of a day up to now, and those of them in this hour."""
    first, end = now - timedelta(hours=MEASURE_BEFORE_HOURS), now + timedelta(hours=1)
    return _reads(connection, order, first, end), _reads(connection, order, now, end)


def effect(connection: sqlite3.Connection, measure: Measure) -> Effect:
    """What was read before and since."""
    begin, end = datetime.fromisoformat(measure.begins), datetime.fromisoformat(measure.undone or measure.ends)
    hours = _reads(connection, measure.order, begin, end + timedelta(hours=1))
    since = Split(_minus(hours.meant, measure.hour.meant), _minus(hours.others, measure.hour.others))
    return Effect(measure.before, since)


def _reads(connection: sqlite3.Connection, order: MeasureOrder, begin: datetime, end: datetime) -> Split:
    """The reads of whole hours: from that with ``begin`` to before that with ``end``."""
    period = Period(text_of(begin.astimezone(UTC)), text_of(end.astimezone(UTC)))
    query = (
        f"SELECT element = ?, {_SUMS} FROM sums"  # noqa: S608 - ours
        " WHERE size = ? AND begin >= ? AND begin < ? AND (? = '' OR site = ?) GROUP BY 1"
    )
    found = {True: Reads(), False: Reads()}
    for one in ranges(period):
        given = (order.storage_element, one.size, one.begin, one.end, order.site, order.site)
        for meant, *sums in connection.execute(query, given):
            found[bool(meant)] = _plus(found[bool(meant)], Reads(0, *sums))
    return Split(found[True], found[False])


def _plus(first: Reads, second: Reads) -> Reads:
    return Reads(*(one + other for one, other in zip(astuple(first), astuple(second), strict=True)))


def _minus(reads: Reads, part: Reads) -> Reads:
    """What is left. Sums of seconds differ in their last bits: nothing is below zero."""
    return Reads(
        0,
        max(0, reads.files - part.files),
        max(0, reads.bytes_read - part.bytes_read),
        max(0, reads.failures - part.failures),
        max(0.0, reads.wall_s - part.wall_s),
        max(0.0, reads.fetch_s - part.fetch_s),
    )


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
