"""What a train run gives back: results, the record of the job, and how it ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from branchline.base.exit_codes import EXIT_ERROR, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK
from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import count, counted, duration
from branchline.errors import PartialResultError
from branchline.records.sensors.record import FAILED, JobRecord
from branchline.records.sensors.sensor_list import SensorRow, rows_of
from branchline.trains.subjobs.share_result import JobError

# Errors below the table in a notebook, and in warnings; `errors` has all of them.
ERRORS_SHOWN = 5
# Wagons and files that a warning names.
NAMES_SHOWN = 20


@dataclass(repr=False)
class TrainResult:
    """The result of a train.

    ``outputs`` are the sums of the wagons by name, after ``postprocess``; ``record`` is the record of the job, and
    ``job`` the same as a dict. ``errors`` are sentences on what stopped the job and why wagons failed; ``out`` is the
    directory of results, and ``written`` are the files there. Times in the record are seconds, sizes bytes. A train
    that is not complete is a result too, and its ``outputs`` are of the part that was done: ``raise_error`` raises
    unless all is well.

        result = branchline.run(wagons, "data/*.root", "out")
        result.outputs["spectra"]["pt"].plot()
        print(result.record.events, result.record.wall_s, result.errors)
    """

    outputs: dict[str, Any]
    record: JobRecord
    stopped_by: JobError | None = None
    out: Path | None = None
    written: list[Path] = field(default_factory=list)
    _close_clock: Callable[[JobRecord], None] | None = None

    def __repr__(self) -> str:
        wagons = ", ".join(self.outputs)
        return f"<TrainResult {self.record.status}: {counted(self.record.events, 'event')} through {wagons}>"

    def _repr_html_(self) -> str:
        record = self.record
        rows = [
            (one.name, count(one.events), duration(one.seconds), "" if one.error is None else one.error.message)
            for one in record.wagons[:HTML_ROWS]
        ]
        title = f"{record.status}: {counted(record.events, 'event')} in {duration(record.wall_s)}"
        more = len(record.wagons) - len(rows)
        rest = [f"{counted(more, 'more wagon')} in record.wagons"] if more else []
        rest += [f"results in {self.out}"] if self.out is not None else []
        rest += self.errors[:ERRORS_SHOWN]
        return html_table(title, ("wagon", "events", "time in it", "error"), rows, "; ".join(rest))

    @property
    def job(self) -> dict[str, Any]:
        """The record as job.json holds it; a new dict each time, which changes nothing in the record."""
        return self.record.as_dict()

    @property
    def sensors(self) -> list[SensorRow]:
        """The rows of sensors.parquet: a value with its unit for each sensor of the job, a file, a wagon, ..."""
        return rows_of(self.record)

    @property
    def errors(self) -> list[str]:
        """Each thing that went wrong, in one sentence."""
        return errors_of(self.record)

    @property
    def exit_code(self) -> int:
        """0 if all is well; 1 if an error stopped the job or nothing was processed; 3 if a wagon failed or files were
        skipped; 130 if interrupted.
        """
        if self.record.interrupted:
            return EXIT_INTERRUPTED
        if self.record.errors or self.record.status == FAILED:
            return EXIT_ERROR
        failed = any(wagon.error is not None for wagon in self.record.wagons)
        return EXIT_INCOMPLETE if failed or self.record.skipped else EXIT_OK

    def close_clock(self) -> None:
        """Brings the wall time, CPU time and phase "write" of the job up to now; called before job.json is written."""
        if self._close_clock is not None:
            self._close_clock(self.record)

    def raise_error(self) -> None:
        """Raises unless the whole train is done, that is where ``exit_code`` is not 0.

        What stopped the job is raised as it was: a BadFileError, a StorageError, an InternalError and so on. For wagons
        that failed and files that were left out it is a PartialResultError, after Ctrl-C a KeyboardInterrupt.

            branchline.run(wagons, "data/*.root", "out").raise_error()
        """
        if self.stopped_by is not None:
            raise self.stopped_by.error
        if self.exit_code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt(incomplete(self.record))
        if self.exit_code != EXIT_OK:
            out = None if self.out is None else str(self.out)
            raise PartialResultError(incomplete(self.record), path=out, hint="outputs has what was done")


def incomplete(record: JobRecord) -> str:
    """What a train that is not complete lacks, with the names of wagons and files, and the first errors."""
    failed = [one.name for one in record.wagons if one.error is not None]
    skipped = [one.path for one in record.skipped]
    lacks = ["it was interrupted"] if record.interrupted else []
    lacks += [f"{counted(len(failed), 'wagon')} failed ({_named(failed)})"] if failed else []
    lacks += [f"{counted(len(skipped), 'file')} left out ({_named(skipped)})"] if skipped else []
    what = "this train is not complete"
    errors = errors_of(record)
    more = len(errors) - ERRORS_SHOWN
    rest = [f"and {counted(more, 'more error')}"] if more > 0 else []
    return "; ".join([f"{what}: {', '.join(lacks)}" if lacks else what, *errors[:ERRORS_SHOWN], *rest])


def _named(names: list[str]) -> str:
    more = len(names) - NAMES_SHOWN
    return ", ".join([*names[:NAMES_SHOWN], *([f"and {count(more)} more"] if more > 0 else [])])


def errors_of(record: JobRecord) -> list[str]:
    """Each thing that went wrong in a job, in one sentence."""
    sentences = [error.message for error in record.errors]
    sentences += [wagon.error.sentence(wagon.name) for wagon in record.wagons if wagon.error is not None]
    for skipped in record.skipped:
        lost = skipped.entries_lost
        events = "an unknown number of events" if lost is None else f"{count(lost)} events"
        sentences.append(f"skipped {skipped.path}, {events} lost: {skipped.error}")
    return sentences
