"""`branchline report`, and an option of commands that report to a control room."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from branchline.base.environment import REPORT_TO
from branchline.base.exit_codes import EXIT_INCOMPLETE, EXIT_OK
from branchline.base.quantities import counted
from branchline.cli.parameters import Argument, Option, option_like
from branchline.cli.printing import log, print_out
from branchline.errors import OptionError
from branchline.reading.locations import shown_command
from branchline.records.sending.message import TRACE
from branchline.records.sensors.record import FAILED, FINISHED, JobRecord
from branchline.records.sensors.status import TrainStatus
from branchline.trains.run_options import RunOptions

if TYPE_CHECKING:
    from branchline.records.sending.address import ReportTarget
    from branchline.records.sending.outbox import SentReports
    from branchline.records.sending.reporter import Reporter
    from branchline.records.sending.spool import Spool
    from branchline.tracing.facts import Summary

ReportTo = Annotated[str | None, option_like(RunOptions, "report_to")]


class ReportedCommand:
    """Reports a traced program to a control room; if ``reporter`` is None, all methods do nothing."""

    def __init__(self, reporter: Reporter | None) -> None:
        self._reporter = reporter
        self._begin_s = time.monotonic()

    def begin(self) -> None:
        """Report the start of the program."""
        if self._reporter is not None:
            self._begin_s = time.monotonic()
            self._reporter.note(TrainStatus(subjobs=1, running=1))
            self._reporter.begin()

    def end(self, summary: Summary) -> None:
        """Report the end of the program, with the summary of its trace."""
        if self._reporter is not None:
            from branchline.tracing.traced_record import TracedReads

            reads = TracedReads.of(summary)
            self._reporter.read(reads.files, reads.sites)
            self._end(reads.record, TrainStatus(bytes_read=reads.record.totals.bytes_read, status=reads.record.status))

    def fail(self, error: BaseException) -> None:
        """Report that tracing the program failed."""
        if self._reporter is not None and self._reporter.has_begun:
            self._end(None, TrainStatus(status=FAILED, errors=[f"{type(error).__name__}: {error}"]))

    def _end(self, record: JobRecord | None, status: TrainStatus) -> None:
        reporter, self._reporter = self._reporter, None
        if reporter is None:
            return
        seconds = time.monotonic() - self._begin_s if record is None else record.wall_s
        count = int(status.status == FINISHED)
        status = replace(status, seconds=seconds, phase="write", subjobs=1, done=count, failed=1 - count)
        for sentence in reporter.end(record, status):
            log(sentence)


@contextmanager
def command_reported(command: Sequence[str], report_to: str | None) -> Iterator[ReportedCommand]:
    """Report the program that is traced inside the ``with`` block. Raises OptionError for an invalid address."""
    from branchline.records.sending.address import ReportTarget
    from branchline.records.sending.message import identity_of
    from branchline.records.sending.reporter import Reporter
    from branchline.records.sending.spool import Spool

    target = ReportTarget.of(report_to)
    reporter = None
    if target is not None:
        identity = identity_of(TRACE, name=Path(command[0]).name, command=shown_command(command))
        reporter = Reporter(identity, target, Spool.of_user(), say=log)
    reported = ReportedCommand(reporter)
    try:
        yield reported
    except BaseException as error:
        reported.fail(error)
        raise


def send(
    out: Annotated[
        Path | None, Argument(metavar="OUT", help="Directory of a submitted train (default: the user's own spool).")
    ] = None,
    to: Annotated[str | None, Option("--to", metavar="URL", help=f"The control room (default: ${REPORT_TO}).")] = None,
) -> int:
    """Send reports of earlier jobs that could not be sent; the exit code is 3 if some are still waiting.

    Examples:
        Send the reports of jobs that ran while the control room was down:
            branchline report send --to https://room.example:8443
        Send the reports of a submitted train:
            branchline report send out

    """
    from contextlib import closing

    from branchline.records.sending.address import ReportTarget
    from branchline.records.sending.client import Sender
    from branchline.records.sending.outbox import send_left

    target, spool = ReportTarget.of(to), _spool(out)
    if target is None:
        servers = sorted({one.server() for one in spool.sources()} - {""})
        hint = (
            f"give --to; reports are waiting for {', '.join(servers)}"
            if servers
            else "give --to; no reports are waiting"
        )
        raise OptionError("no control room to send reports to", hint=hint)
    with closing(Sender(target)) as sender:
        found = send_left(spool, sender)
    for line in _lines(found, target, spool):
        print_out(line)
    if found.sent.why_waiting:
        log(f"reports cannot be sent to {target.url} now: {found.sent.why_waiting}")
    return EXIT_INCOMPLETE if found.waiting or found.sent.refused or found.sent.damaged else EXIT_OK


def _spool(out: Path | None) -> Spool:
    from branchline.records.sending.spool import Spool

    if out is not None:
        from branchline.trains.submitted.submission_folder import BatchFolder

        return Spool(BatchFolder(out).reports)
    spool = Spool.of_user()
    if spool is None:
        raise OptionError("no home directory with reports", hint="set XDG_STATE_HOME")
    return spool


def _lines(found: SentReports, target: ReportTarget, spool: Spool) -> Iterator[str]:
    sent = found.sent
    yield f"sent to {target.url}: {counted(sent.taken, 'report')}"
    if found.waiting:
        yield f"still waiting: {counted(found.waiting, 'report')}"
    if sent.refused:
        yield f"rejected: {counted(sent.refused, 'report')}: {sent.why_refused}; see {spool.folder / 'refused'}"
    if sent.damaged:
        yield f"lost, because their files cannot be read: {counted(sent.damaged, 'report')}"
    for server, count in sorted(found.elsewhere.items()):
        yield f"waiting for {server or 'a control room with an unknown address'}: {counted(count, 'report')}"
