"""Reports of a running train to a control room."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.base.environment import REPORT_TO
from branchline.jobs.where import OnDask, OnExecutor
from branchline.reading.locations import without_secrets
from branchline.records.sending.message import TRAIN, JobIdentity
from branchline.records.sensors.record import FAILED, JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.trains.out_folder.state import status_at_end
from branchline.trains.subjobs.locality import MeasuresTold

if TYPE_CHECKING:
    from branchline.records.sending.address import ReportTarget
    from branchline.records.sending.reporter import Reporter
    from branchline.records.sending.spool import Spool
    from branchline.trains.plan import TrainPlan
    from branchline.trains.subjobs.share_result import ReadRecords


@dataclass(frozen=True)
class ReportsTo:
    """The control room to which a train sends its reports. If reports cannot be sent, ``say_at_once`` is called with a
    message immediately, from another thread, and ``say_at_end`` at the end of the train.
    """

    target: ReportTarget
    say_at_once: Callable[[str], None] | None = None
    say_at_end: Callable[[str], None] = lambda _: None

    @classmethod
    def of(
        cls, address: str | None, say_at_once: Callable[[str], None] | None, say_at_end: Callable[[str], None]
    ) -> ReportsTo | None:
        """Return the control room for reports; None if there is none. If ``address`` is None, the address is taken from
        the environment. Raises OptionError.
        """
        if address is None and not os.environ.get(REPORT_TO):
            return None
        # Imported late, because most runs report to no control room.
        from branchline.records.sending.address import ReportTarget

        target = ReportTarget.of(address)
        return None if target is None else cls(target, say_at_once, say_at_end)

    def reporter(
        self, identity: JobIdentity, spool: Spool | None, source: str = "job", told: MeasuresTold | None = None
    ) -> Reporter:
        """Create the reporter for a process of the job. Measures sent by the control room are passed to ``told``."""
        from branchline.records.sending.reporter import Reporter

        tell = None if told is None else told.tell
        return Reporter(identity, self.target, spool, source=source, say=self.say_at_once, tell=tell)


class ReportedTrain:
    """Sends the reports of a train from this process, and has the measures that the process received. Without a control
    room, the methods do nothing.
    """

    def __init__(
        self, to: ReportsTo | None, reporter: Reporter | None = None, told: MeasuresTold | None = None
    ) -> None:
        self.told = told or MeasuresTold("" if to is None else to.target.why_refused)
        self._to = to
        self._reporter = reporter
        self._last: TrainStatus | None = None

    def begin(self, plan: TrainPlan, command: str, out: Path | None) -> None:
        """Report that the train has started."""
        if self._to is not None:
            from branchline.records.sending.spool import Spool

            self._reporter = self._to.reporter(identity_of_train(plan, command, out), Spool.of_user(), told=self.told)
            self._reporter.read(plan.looked_at, [])
            self._reporter.begin()

    def note(self, now: TrainStatus) -> None:
        """Report the current state of the train."""
        if self._reporter is not None:
            self._last = now
            self._reporter.note(now)

    def read(self, reads: ReadRecords) -> None:
        """Report read records."""
        if self._reporter is not None:
            # Leave out records of files that only an earlier run read: this run reused their results.
            self._reporter.read([one for one in reads.files if one.subjobs or not one.subjobs_reused], reads.sites)

    def end(self, record: JobRecord) -> None:
        """Report the end of the train."""
        self._end(record, status_at_end(record))

    def fail(self, error: BaseException) -> None:
        """Report that the train ended without a job record."""
        why = f"{type(error).__name__}: {error}"
        self._end(None, replace(self._last or TrainStatus(), status=FAILED, errors=[why]))

    def leave(self) -> None:
        """Report that this process is done. Other processes of the train continue."""
        self._end(None, None)

    def _end(self, record: JobRecord | None, status: TrainStatus | None) -> None:
        # Forget the reporter first: a second Ctrl-C then ends the wait instead of starting a new one.
        reporter, self._reporter = self._reporter, None
        if reporter is not None and self._to is not None:
            for sentence in reporter.end(record, status):
                self._to.say_at_end(sentence)


@contextmanager
def reported(to: ReportsTo | None) -> Iterator[ReportedTrain]:
    """Report the train that runs in the block. If the block raises an error, the train is reported as failed."""
    train = ReportedTrain(to)
    try:
        yield train
    except BaseException as error:
        train.fail(error)
        raise


def identity_of_train(
    plan: TrainPlan, command: str, out: Path | None, *, place: str = "", job: str = ""
) -> JobIdentity:
    """Return the identity of a train. ``place`` is the batch system to which the train was submitted, ``job`` is the ID
    of the batch job.
    """
    from branchline.records.sending.message import identity_of

    datasets = dict.fromkeys(one.dataset for one in plan.dataset if one.dataset)
    wagons = [one.name for one in plan.loaded.wagons]
    if not place:
        where = plan.settings.place
        place = "dask" if isinstance(where, OnDask) else "executor" if isinstance(where, OnExecutor) else "here"
    return identity_of(
        TRAIN,
        job=job,
        name="" if out is not None else ", ".join(wagons),
        command=" ".join(without_secrets(word) for word in command.split(" ")),
        place=place,
        out=out,
        wagons=wagons,
        datasets=datasets,
    )
