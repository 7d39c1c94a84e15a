"""A train that reports to a control room: what its run gives, as the reporter takes it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.jobs.where import OnDask, OnExecutor, Where
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
    """Where a train reports to, and who is told what cannot be sent: at once, from another thread, or at its end."""

    target: ReportTarget
    say_at_once: Callable[[str], None] | None = None
    say_at_end: Callable[[str], None] = lambda _: None

    @classmethod
    def of(
        cls, address: str | None, say_at_once: Callable[[str], None] | None, say_at_end: Callable[[str], None]
    ) -> ReportsTo | None:
        """At an address, or that of the environment; None for no control room. Raises OptionError."""
        from branchline.records.sending.address import ReportTarget

        target = ReportTarget.of(address)
        return None if target is None else cls(target, say_at_once, say_at_end)

    def reporter(
        self, identity: JobIdentity, spool: Spool | None, source: str = "job", told: MeasuresTold | None = None
    ) -> Reporter:
        """The reporter of a process of the job. ``told`` gets the measures of the control room."""
        from branchline.records.sending.reporter import Reporter

        tell = None if told is None else told.tell
        return Reporter(identity, self.target, spool, source=source, say=self.say_at_once, tell=tell)


class ReportedTrain:
    """The reports of a train in this process, and the measures that it was ``told``. Without a control room each method
    does nothing.
    """

    def __init__(
        self, to: ReportsTo | None, reporter: Reporter | None = None, told: MeasuresTold | None = None
    ) -> None:
        self.told = told or MeasuresTold("" if to is None else to.target.why_refused)
        self._to = to
        self._reporter = reporter
        self._last: TrainStatus | None = None

    def begin(self, plan: TrainPlan, command: str, out: Path | None) -> None:
        """The train runs from now on."""
        if self._to is not None:
            from branchline.records.sending.spool import Spool

            self._reporter = self._to.reporter(identity_of_train(plan, command, out), Spool.of_user(), told=self.told)
            self._reporter.read(plan.looked_at, [])
            self._reporter.begin()

    def note(self, now: TrainStatus) -> None:
        """The state of the train is this one now."""
        if self._reporter is not None:
            self._last = now
            self._reporter.note(now)

    def read(self, reads: ReadRecords) -> None:
        """These were read."""
        if self._reporter is not None:
            # Of files that an earlier run read there is a record, too.
            self._reporter.read([one for one in reads.files if one.subjobs or not one.subjobs_reused], reads.sites)

    def end(self, record: JobRecord) -> None:
        """The train is over."""
        self._end(record, status_at_end(record))

    def fail(self, error: BaseException) -> None:
        """The train ended without a record."""
        why = f"{type(error).__name__}: {error}"
        self._end(None, replace(self._last or TrainStatus(), status=FAILED, errors=[why]))

    def leave(self) -> None:
        """The part of this process is done; others go on."""
        self._end(None, None)

    def _end(self, record: JobRecord | None, status: TrainStatus | None) -> None:
        # A second Ctrl-C ends the wait, and does not begin another one.
        reporter, self._reporter = self._reporter, None
        if reporter is not None and self._to is not None:
            for sentence in reporter.end(record, status):
                self._to.say_at_end(sentence)


@contextmanager
def reported(to: ReportsTo | None) -> Iterator[ReportedTrain]:
    """The reports of a train that runs in the block. If it is left with an error, that is its end."""
    train = ReportedTrain(to)
    try:
        yield train
    except BaseException as error:
        train.fail(error)
        raise


def identity_of_train(
    plan: TrainPlan, command: str, out: Path | None, *, place: str = "", job: str = ""
) -> JobIdentity:
    """Who a train is. ``place`` is the batch system to which it is submitted, ``job`` its number."""
    from branchline.records.sending.message import identity_of

    datasets = dict.fromkeys(one.dataset for one in plan.dataset if one.dataset)
    wagons = [one.name for one in plan.loaded.wagons]
    return identity_of(
        TRAIN,
        job=job,
        name="" if out is not None else ", ".join(wagons),
        command=" ".join(without_secrets(word) for word in command.split(" ")),
        place=place or _place(plan.settings.on),
        out=out,
        wagons=wagons,
        datasets=datasets,
    )


def _place(where: Where | None) -> str:
    return "dask" if isinstance(where, OnDask) else "executor" if isinstance(where, OnExecutor) else "here"
