"""Measures: temporary corrective actions against storage problems. Operators switch on measures, and jobs apply them.

A measure records who switched it on, why, and until when. The effect of a measure compares reads before and after its
start. These reads come from hourly sums, so pages do not have to read the rows of single jobs.
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
from branchline.control.reports.readings import Period, ReadTotals
from branchline.control.room_errors import ConflictError, NoSuchEntryError, RefusedError
from branchline.control.trains.trains import Trains
from branchline.errors import BranchlineError, OptionError
from branchline.jobs.batch.system import BATCH_SYSTEMS
from branchline.records.diagnosis.remedies import ACTIONS, AVOID_ELEMENT, SEND_AGAIN, STAGE_ELEMENT
from branchline.records.sensors.job_measures import JobMeasure, JobMeasures

# States of a measure (a corrective action).
IN_FORCE, ENDED, UNDONE = "in force", "ended", "undone"
_JOB = re.compile(r"[0-9a-f]{32}")
_SUMS = "sum(files), sum(bytes_read), sum(failures), sum(wall_s), sum(fetch_s)"


@dataclass(frozen=True)
class MeasureOrder:
    """The parameters of a measure.

    - ``storage_element``: a storage element's name as on pages, or a prefix of replica locations that ends with a
      slash.
    - ``site``: the measure applies only to workers at this site; empty for all sites.
    - ``job``: the measure applies only to this job; empty for all jobs.
    - ``hours``: how long the measure lasts.
    - ``why``: the reason that a person entered.
    - ``finding``: name of the finding that proposed the measure; or empty.
    """

    kind: str
    storage_element: str = ""
    site: str = ""
    job: str = ""
    hours: int = MEASURE_HOURS
    why: str = ""
    finding: str = ""

    def check(self) -> None:
        """Raise OptionError for invalid parameters."""
        job_hint = "copy the 32 digits from the address of the job's page"
        if self.kind not in ACTIONS:
            raise OptionError(f"unknown measure {self.kind!r:.40}", hint=f"choose one of {', '.join(ACTIONS)}")
        if not 1 <= self.hours <= MEASURE_HOURS_MAX:
            raise OptionError(f"a measure must last 1 to {MEASURE_HOURS_MAX} hours, got {self.hours}")
        for name, text in (("storage element", self.storage_element), ("site", self.site)):
            if len(text) > MEASURE_TEXT_MAX or not text.isprintable():
                raise OptionError(f"the {name} of a measure can have at most {MEASURE_TEXT_MAX} printable characters")
        if len(self.why) > MEASURE_WHY_MAX or len(self.finding) > MEASURE_WHY_MAX:
            raise OptionError(f"the reason of a measure can have at most {MEASURE_WHY_MAX} characters")
        if self.job and not _JOB.fullmatch(self.job):
            raise OptionError(f"invalid job {self.job!r:.40}", hint=job_hint)
        if self.kind == SEND_AGAIN and not self.job:
            raise OptionError("missing job to send again", hint=job_hint)
        if self.kind != SEND_AGAIN and not self.storage_element:
            raise OptionError("a measure needs a storage element", hint="copy the name from the storage page")

    @property
    def what(self) -> str:
        """A description of what the measure does."""
        if self.kind == SEND_AGAIN:
            return f"rerun the failed sub-jobs of job {self.job}"
        verb = {AVOID_ELEMENT: "avoid", STAGE_ELEMENT: "copy files before reading from"}[self.kind]
        whom = f" for workers at {self.site}" if self.site else ""
        return f"{verb} {self.storage_element}{whom}" + (f" in job {self.job}" if self.job else "")


@dataclass(frozen=True)
class Split:
    """Reads by the workers to which a measure applies.

    ``meant`` are reads from the measure's storage element, ``others`` are reads from all other storage elements.
    """

    meant: ReadTotals = field(default_factory=ReadTotals)
    others: ReadTotals = field(default_factory=ReadTotals)


@dataclass(frozen=True)
class Measure:
    """A measure that ``who`` switched on. Times are ISO 8601, UTC.

    ``before`` are the reads in the day before the measure began. ``hour`` are the reads in the hour in which the
    measure began, up to its start. If the measure reruns a job, ``outcome`` says how the job is rerun or which command
    a person has to run, and ``train`` is the number of the train that the control room reruns (0 if none).
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
        """Return the measure's state at the time ``now``: IN_FORCE, ENDED or UNDONE."""
        if self.undone:
            return UNDONE
        return IN_FORCE if now < datetime.fromisoformat(self.ends) else ENDED


@dataclass(frozen=True)
class Effect:
    """The reads that show the effect of a measure.

    ``before`` are the reads in the day before the measure. ``since`` are the reads since the measure's start, up to the
    end of the hour in which the measure ended.
    """

    before: Split
    since: Split


class Measures:
    """All measures. Thread-safe.

    Methods raise RefusedError if the person is not an operator, NoSuchEntryError for an unknown measure or job, and
    OptionError for invalid parameters. They raise ConflictError if the measure is already in force, or no longer in
    force.
    """

    def __init__(self, database: Database, trains: Trains) -> None:
        self._database = database
        self._trains = trains
        self._lock = threading.Lock()
        # Cache of the measures in force, which the answer to each job report contains.
        self._in_force: list[Measure] = []
        self._look()

    def switch_on(self, order: MeasureOrder, who: Person) -> int:
        """Switch on a measure and return its number."""
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
        """End a measure now. If the measure reruns a train, the train is cancelled."""
        _check_may(who)
        measure = self.measure(number)
        now = datetime.now(UTC)
        if measure.state(now) != IN_FORCE:
            raise ConflictError(f"measure {number} is already {measure.state(now)}")
        if measure.train:
            self._trains.cancel(measure.train, who)
        with self._database.writing() as connection:
            before = _found(connection, number)
            if before.undone:
                raise ConflictError(f"measure {number} is already undone")
            _keep(connection, who, before, replace(before, undone=_text(now), undone_by=who.name))
        self._look()

    def told(self, job: str) -> JobMeasures:
        """Return a job's measures in force. The answer to each report of the job contains them."""
        now = datetime.now(UTC)
        with self._lock:
            found = [one for one in self._in_force if one.order.job in ("", job) and one.state(now) == IN_FORCE]
        in_force = []
        for one in found:
            if one.order.kind != SEND_AGAIN:
                left_s = (datetime.fromisoformat(one.ends) - now).total_seconds()
                order = one.order
                in_force.append(JobMeasure(one.number, order.kind, order.storage_element, order.site, left_s))
        return JobMeasures(job, in_force=in_force)

    def measure(self, number: int) -> Measure:
        """Return a measure. Raises NoSuchEntryError."""
        with self._database.reading() as connection:
            return _found(connection, number)

    def measures(self, first: int = 0, count: int = 50) -> tuple[list[Measure], int]:
        """Return a page of measures, newest first, and the total number of measures."""
        query = "SELECT content FROM measures ORDER BY number DESC LIMIT ? OFFSET ?"
        with self._database.reading() as connection:
            found = [_measure(content) for (content,) in connection.execute(query, (count, first))]
            [total] = connection.execute("SELECT count(*) FROM measures").fetchone()
        return found, int(total)

    def effect(self, measure: Measure) -> Effect:
        """Return the reads before and since the start of a measure."""
        with self._database.reading() as connection:
            return effect(connection, measure)

    def _look(self) -> None:
        """Reload the measures in force. The lock prevents a stale query result from overwriting a newer result."""
        with self._lock, self._database.reading() as connection:
            self._in_force = _in_force(connection, datetime.now(UTC))

    def _job(self, job: str) -> tuple[str, str, str]:
        """Return a job's command, output directory and place of execution. Raises NoSuchEntryError."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT command, out, place FROM jobs WHERE job = ?", (job,)).fetchone()
        if row is None:
            raise NoSuchEntryError(f"job {job} has not reported")
        return str(row[0]), str(row[1]), str(row[2])

    def _with_way(self, measure: Measure, job: tuple[str, str, str]) -> Measure:
        """Add to a measure how the job is rerun.

        The control room reruns its own trains. For other jobs, the outcome is a command for a person.
        """
        command, out, place = job
        train = self._trains.number_of(Path(out)) if out else 0
        if train:
            return replace(measure, train=train, outcome=f"train {train} runs its missing sub-jobs")
        if place in BATCH_SYSTEMS:
            return replace(measure, outcome=f"run: branchline resume {shlex.quote(out)}")
        if not command or not out:
            return replace(measure, outcome="its owner has to run it again: it has no output directory to resume from")
        forced = "" if "--force" in command.split() else " --force"
        return replace(measure, outcome=f"run: {command}{forced}")

    def _run_again(self, measure: Measure, who: Person) -> None:
        """Run the missing sub-jobs of the measure's train. A failure undoes the measure and becomes its outcome."""
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
        return  # A job may fail several times, and may be rerun each time.
    in_force = [one for one in in_force if one.order.kind != SEND_AGAIN]
    if len(in_force) >= MEASURES_IN_FORCE_MAX:
        what = f"{MEASURES_IN_FORCE_MAX} measures are in force, which is the maximum"
        raise ConflictError(what, hint="undo one first")
    for one in in_force:
        if _aim(one.order) == _aim(order):
            what = f"measure {one.number} already does this until {one.ends[:16]} UTC"
            raise ConflictError(what, hint="undo it first")


def _keep(connection: sqlite3.Connection, who: Person, before: Measure | None, after: Measure) -> None:
    connection.execute("UPDATE measures SET content = ? WHERE number = ?", (json.dumps(to_plain(after)), after.number))
    plain = [None if one is None else json.dumps(_as_changed(one), sort_keys=True) for one in (before, after)]
    keep_change(connection, who.name, MEASURE, str(after.number), *plain)


def _aim(order: MeasureOrder) -> tuple[str, str, str, str]:
    return order.kind, order.storage_element, order.site, order.job


def _as_changed(measure: Measure) -> dict[str, object]:
    """Return the fields of a measure that the change log shows."""
    plain: dict[str, object] = to_plain(measure)
    return {name: value for name, value in plain.items() if name not in ("number", "before", "hour", "who") and value}


def _found(connection: sqlite3.Connection, number: int) -> Measure:
    row: Sequence[str] | None = connection.execute(
        "SELECT content FROM measures WHERE number = ?", (number,)
    ).fetchone()
    if row is None:
        raise NoSuchEntryError(f"no measure {number}")
    return _measure(row[0])


def _measure(content: str) -> Measure:
    measure: Measure = from_plain(Measure, json.loads(content))
    return measure


def reads_before(connection: sqlite3.Connection, order: MeasureOrder, now: datetime) -> tuple[Split, Split]:
    """Return the reads of the last day, and separately the reads of the current hour."""
    first, end = now - timedelta(hours=MEASURE_BEFORE_HOURS), now + timedelta(hours=1)
    return _reads(connection, order, first, end), _reads(connection, order, now, end)


def effect(connection: sqlite3.Connection, measure: Measure) -> Effect:
    """Return the reads before and since the start of a measure."""
    begin, end = datetime.fromisoformat(measure.begins), datetime.fromisoformat(measure.undone or measure.ends)
    hours = _reads(connection, measure.order, begin, end + timedelta(hours=1))
    since = Split(_minus(hours.meant, measure.hour.meant), _minus(hours.others, measure.hour.others))
    return Effect(measure.before, since)


def _reads(connection: sqlite3.Connection, order: MeasureOrder, begin: datetime, end: datetime) -> Split:
    """Return the reads of whole hours: from the hour of ``begin`` (inclusive) to the hour of ``end`` (exclusive)."""
    period = Period(text_of(begin.astimezone(UTC)), text_of(end.astimezone(UTC)))
    query = (
        f"SELECT element = ?, {_SUMS} FROM sums"  # noqa: S608 - constant
        " WHERE size = ? AND begin >= ? AND begin < ? AND (? = '' OR site = ?) GROUP BY 1"
    )
    found = {True: ReadTotals(), False: ReadTotals()}
    for one in ranges(period):
        given = (order.storage_element, one.size, one.begin, one.end, order.site, order.site)
        for meant, *sums in connection.execute(query, given):
            found[bool(meant)] = _plus(found[bool(meant)], ReadTotals(0, *sums))
    return Split(found[True], found[False])


def _plus(first: ReadTotals, second: ReadTotals) -> ReadTotals:
    return ReadTotals(*(one + other for one, other in zip(astuple(first), astuple(second), strict=True)))


def _minus(reads: ReadTotals, part: ReadTotals) -> ReadTotals:
    """Subtract ``part`` from ``reads``. Negative differences, which rounding errors can cause, become zero."""
    return ReadTotals(
        0,
        max(0, reads.files - part.files),
        max(0, reads.bytes_read - part.bytes_read),
        max(0, reads.failures - part.failures),
        max(0.0, reads.wall_s - part.wall_s),
        max(0.0, reads.fetch_s - part.fetch_s),
    )


def _text(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
