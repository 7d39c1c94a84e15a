"""The result of a train run: outputs, job record, and status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from branchline.base.exit_codes import EXIT_ERROR, EXIT_INCOMPLETE, EXIT_INTERRUPTED, EXIT_OK
from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import count, counted, duration
from branchline.errors import PartialResultError
from branchline.records.report.troubles import errors_of
from branchline.records.sensors.record import FAILED, JobRecord
from branchline.records.sensors.sensor_list import SensorRow, rows_of
from branchline.trains.subjobs.share_result import JobError
from branchline.trains.wagons.faults import source_line

# Maximum number of errors shown below the table in notebooks, and in warnings. `errors` has all of them.
ERRORS_SHOWN = 5
# Maximum number of wagons or files named in a warning.
NAMES_SHOWN = 20


@dataclass(repr=False)
class TrainResult:
    """The result of a train.

    - ``outputs`` are the results of the wagons by name, after ``postprocess``.
    - ``record`` is the job record, and ``job`` is the same record as a dict. Times are in seconds, sizes in bytes.
    - ``errors`` are sentences that say what stopped the job and why wagons failed.
    - ``out`` is the output directory, and ``written`` are the files in it.

    An incomplete train also returns a result, whose ``outputs`` cover the events that were processed. ``raise_error``
    raises an error unless the train is complete.

        result = branchline.run(wagons, "data/*.root", "out")
        result.outputs["spectra"]["pt"].plot()
        print(result.record.events, result.record.wall_s, result.errors)
    """

    outputs: dict[str, object]
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
        table = html_table(title, ("wagon", "events", "time in it", "error"), rows, "; ".join(rest))
        # Imported late, because most results are not shown in a notebook.
        from branchline.records.diagnosis.diagnosis import diagnosis

        return f"{table}<div>{escape(diagnosis(record))}</div>{self._pictures()}"

    def _pictures(self) -> str:
        from branchline.records.diagnosis.figures import events_note
        from branchline.records.pictures.inline_pictures import histograms_in, pictures_html
        from branchline.records.pictures.meaning import Title

        found = [(wagon, *one) for wagon, output in self.outputs.items() for one in histograms_in(output)]
        return pictures_html(
            (Title(wagon, "/".join(path), events_note(self.record, wagon, path)), one) for wagon, path, one in found
        )

    @property
    def job(self) -> dict[str, object]:
        """The job record as stored in job.json. Each call returns a new dict, so changes do not affect the record."""
        return self.record.as_dict()

    @property
    def sensors(self) -> list[SensorRow]:
        """The rows of sensors.parquet. Each row is the value, with its unit, of a sensor of the job, a file, a wagon or
        another object.
        """
        return rows_of(self.record)

    @property
    def errors(self) -> list[str]:
        """All errors, as one sentence each."""
        return errors_of(self.record)

    @property
    def exit_code(self) -> int:
        """The exit code of the job.

        - 0 on success
        - 1 if an error stopped the job, or if nothing was processed
        - 3 if a wagon failed or files were skipped
        - 130 if the job was interrupted
        """
        if self.record.interrupted:
            return EXIT_INTERRUPTED
        if self.record.errors or self.record.status == FAILED:
            return EXIT_ERROR
        failed = any(wagon.error is not None for wagon in self.record.wagons)
        return EXIT_INCOMPLETE if failed or self.record.skipped else EXIT_OK

    def close_clock(self) -> None:
        """Update the wall time, the CPU time and the phase "write" in the record. Called before job.json is written."""
        if self._close_clock is not None:
            self._close_clock(self.record)

    def raise_error(self) -> None:
        """Raise an error unless the train is complete, that is, unless ``exit_code`` is 0.

        An error that stopped the job is raised unchanged, such as BadFileError, StorageError or InternalError. Failed
        wagons and skipped files raise PartialResultError; an interruption raises KeyboardInterrupt.

            branchline.run(wagons, "data/*.root", "out").raise_error()
        """
        if self.stopped_by is not None:
            raise self.stopped_by.error
        if self.exit_code == EXIT_INTERRUPTED:
            raise KeyboardInterrupt(incomplete(self.record))
        if self.exit_code != EXIT_OK:
            out = None if self.out is None else str(self.out)
            error = PartialResultError(incomplete(self.record), path=out, hint="the partial results are in outputs")
            for wagon in self.record.wagons[:NAMES_SHOWN]:
                if wagon.error is not None and (line := source_line(wagon.error)):
                    error.add_note(f"wagon {wagon.name}, {line}")
            raise error


def incomplete(record: JobRecord) -> str:
    """Describe what is missing from an incomplete train: failed wagons, skipped files, and the first errors."""
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
