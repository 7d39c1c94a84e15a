"""Writes a job's output: results, pictures, records and the report."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, Protocol

import boost_histogram

from branchline.base.checks import instance_of
from branchline.base.imports import left_out
from branchline.base.texts import is_short_of_memory, message_of
from branchline.base.whole_files import failed_writing
from branchline.errors import BranchlineError, InternalError, StorageError, WagonError
from branchline.records.diagnosis.advice import Advice
from branchline.records.diagnosis.figures import events_note, first_only
from branchline.records.pictures.meaning import Title, remark_on
from branchline.records.pictures.svg_pictures import write_light_picture
from branchline.records.result_files.formats import RESULTS, part_form, write_part, write_plain
from branchline.records.result_files.job_files import (
    JOB,
    PAGE,
    SENSORS,
    earlier_files,
    load_parquet,
    write_job,
    write_sensors,
)
from branchline.records.result_files.outputs import HISTOGRAM, Part, is_part, take_apart
from branchline.records.result_files.result_forms import form_of
from branchline.records.sensors.record import FINISHED, PARTIAL, JobFault, JobRecord
from branchline.records.sensors.record_parts import ResultRecord
from branchline.records.sensors.sensor_list import SensorRow
from branchline.writing.objects.forms import FILE_NAME, InRoot, write_root_file
from branchline.writing.objects.root_names import SafeNames

#: Formats in which histograms are drawn. Drawing a PNG in addition to the SVG doubles the time.
Pictures = Literal["svg", "both", "none"]
SVG: Pictures = "svg"
SVG_AND_PNG: Pictures = "both"
NO_PICTURES: Pictures = "none"
#: Maximum number of pictures per job: drawing takes up to 0.1 s each, so more would take minutes.
PICTURES_MAX = 300


#: A function that returns advice on how to speed up a job, given the job's record.
Adviser = Callable[[JobRecord], Sequence[Advice]]


class Result(Protocol):
    """The parts of a finished job that `write_out` needs."""

    @property
    def outputs(self) -> dict[str, object]: ...
    @property
    def record(self) -> JobRecord: ...
    @property
    def sensors(self) -> list[SensorRow]: ...
    def close_clock(self) -> None: ...


def write_out(
    out_dir: Path,
    result: Result,
    was_asked_to_stop: Callable[[], bool] = lambda: False,
    pictures: Pictures = SVG,
    advise: Adviser | None = None,
) -> list[Path]:
    """Write the results, pictures, records and report of a job into ``out_dir``; return the paths written.

    Adds ``results`` (a record of each output) and ``written`` (relative paths) to ``result.record``. If the directory
    has the job.json of an earlier job, the files listed there are deleted first. The job's clock stops just before the
    records are written, so that the records, the report and the terminal show the same time.

    Each file is written atomically. If writing a file fails, the remaining files are still written, the job is marked
    as partial, and the first error is raised at the end: a StorageError, a WagonError for a wagon's output, or an
    InternalError. A picture that cannot be drawn is not an error: the record has a note instead.

    Ctrl-C skips the remaining results and pictures, marks the job as partial, and writes the records.
    ``was_asked_to_stop`` returns whether a library suppressed a Ctrl-C. ``pictures`` selects the picture formats.
    ``advise`` is called once the record is complete; the report shows the advice.
    """
    writing = _Writing(Path(out_dir), result.record, was_asked_to_stop, pictures)
    try:
        writing.everything(result)
    except KeyboardInterrupt:
        writing.cut_off()
    result.record.results = writing.results
    result.record.left_out = writing.left_out()
    # Loading the libraries that write the records takes longer than writing, so it has to count towards the job's time.
    writing.load()
    result.close_clock()
    writing.records(result, advise)
    if writing.error is not None:
        raise writing.error
    return [writing.out_dir / name for name in result.record.written]


class _Writing:
    """The progress of writing one job's output: a record for each result, and the first error."""

    def __init__(
        self, out_dir: Path, job: JobRecord, was_asked_to_stop: Callable[[], bool], pictures: Pictures
    ) -> None:
        self._job = job
        self._pictures = pictures
        self._no_sensors = left_out(f"{SENSORS} is", "pyarrow")
        # Set when the first histogram that needs matplotlib is found.
        self._no_pictures: str | None = None
        self._no_page = left_out(f"{PAGE} is", "jinja2", "markupsafe")
        self.out_dir = out_dir
        self._was_asked_to_stop = was_asked_to_stop
        self.results: list[ResultRecord] = []
        self.error: BranchlineError | None = None
        self._not_written: set[str] = set()
        self._wagon_names = SafeNames()
        self._histograms: list[tuple[Part, ResultRecord]] = []

    def left_out(self) -> list[str]:
        """Return a sentence for each file that is not written because a package is not installed."""
        return list(filter(None, (self._no_pictures, self._no_sensors, self._no_page)))

    def load(self) -> None:
        """Load the libraries that write the records."""
        if self._no_sensors is None:
            with self.attempt(SENSORS):
                load_parquet()
        if self._no_page is None:
            with self.attempt(PAGE):
                from branchline.records.report.report_page import load_template

                load_template()

    def everything(self, result: Result) -> None:
        """Write the results and pictures of the job."""
        with self.attempt("the directory"), failed_writing(self.out_dir):
            self.out_dir.mkdir(parents=True, exist_ok=True)
            for path in list(earlier_files(self.out_dir)):
                path.unlink(missing_ok=True)
        for wagon, output in result.outputs.items():
            with self.attempt("an output", wagon):
                self.output(wagon, output)
        with self.attempt(FILE_NAME):
            self.root_file()
        if self._pictures != NO_PICTURES:
            with self.attempt("pictures"):
                self.pictures()

    def cut_off(self) -> None:
        """Record that the results are only partly written because the user pressed Ctrl-C."""
        self._job.interrupted = True
        message = "interrupted while writing results: results without a file are lost"
        self._failed(JobFault("KeyboardInterrupt", message))

    @contextmanager
    def attempt(self, name: str, wagon: str | None = None) -> Iterator[None]:
        """Suppress a failure to write ``name``, marking the job as partial and recording the error.

        If ``wagon`` is given, ``name`` is the output of that wagon. It may contain user-defined objects, which may
        raise any exception when they are written.
        """
        try:
            yield
        except BranchlineError as error:
            self._not_written.add(name)
            self._keep(error, "")
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - other files must still be written
            self._not_written.add(name)
            text = f"{type(error).__name__}: {message_of(error)}"
            if is_short_of_memory(error):
                kept: BranchlineError = StorageError(f"{name} could not be written: not enough memory ({text})")
            elif wagon is not None:
                kept = WagonError(f"wagon {wagon}: its output could not be written: {text}")
            else:
                hint = f"please report it with the traceback in {JOB}"
                kept = InternalError(f"{name} could not be written: {text}", hint=hint)
            kept.__cause__ = error
            self._keep(kept, "".join(traceback.format_exception(error)))

    def _keep(self, error: BranchlineError, lines: str) -> None:
        """Remember the first error, which is raised at the end, and add every error to the record."""
        self.error = self.error or error
        self._failed(JobFault(type(error).__name__, str(error), error.path, lines))

    def _failed(self, fault: JobFault) -> None:
        if self._job.status == FINISHED:
            self._job.status = PARTIAL
        self._job.errors.append(fault)

    def output(self, wagon: str, output: object) -> None:
        """Write one wagon's output in open formats."""
        name = self._wagon_names.give(wagon)
        plain = take_apart(wagon, output, self._part, (name,))
        if not is_part(output):
            row = self._note(wagon, "", "data")
            row.files, row.form = [write_plain(self.out_dir, name, plain)], form_of(output)

    def _part(self, part: Part) -> dict[str, str]:
        """Write a part of an output; return the reference to the part for the wagon's JSON file."""
        row = self._note(part.wagon, part.title, part.kind)
        if part.kind == HISTOGRAM:
            # Added first, so that the histogram may still be written to results.root if writing the part fails.
            self._histograms.append((part, row))
        try:
            row.files, row.format, row.note = write_part(self.out_dir, part)
            row.form = part_form(part)
        except StorageError:
            raise
        except Exception as error:  # noqa: BLE001 - user-defined objects may raise any exception
            reason = f"{type(error).__name__}: {error}"
            row.note = f"not in {RESULTS}: {reason}"
            what = f"wagon {part.wagon}: {part.title or 'its output'} could not be written: {reason}"
            self._keep(WagonError(what), "".join(traceback.format_exception(error)))
            return {"error": reason}
        return {"file": row.files[0]}

    def _note(self, wagon: str, key: str, kind: str) -> ResultRecord:
        row = ResultRecord(wagon, key, kind)
        self.results.append(row)
        return row

    def root_file(self) -> None:
        """Write results.root with every histogram for which ROOT has a class."""
        histograms = [(part.path, instance_of(part.value, boost_histogram.Histogram)) for part, _ in self._histograms]
        in_root: list[InRoot] = write_root_file(self.out_dir, histograms)
        for (_, row), form in zip(self._histograms, in_root, strict=True):
            row.root = form.names
            _add_note(row, form.note)

    def pictures(self) -> None:
        """Draw the first PICTURES_MAX histograms."""
        for part, row in self._histograms[:PICTURES_MAX]:
            if self._was_asked_to_stop():
                raise KeyboardInterrupt
            try:
                self._picture(part, row)
            except StorageError:
                raise
            except Exception as error:  # noqa: BLE001 - a histogram that cannot be drawn is still a result
                _add_note(row, f"no picture: {type(error).__name__}: {error}")
        for _, row in self._histograms[PICTURES_MAX:]:
            _add_note(row, f"no picture: only the first {PICTURES_MAX} histograms are drawn")

    def _picture(self, part: Part, row: ResultRecord) -> None:
        events = events_note(self._job, part.wagon, part.key)
        events += ", the first only" if first_only(self._job) else ""
        histogram = instance_of(part.value, boost_histogram.Histogram)
        title = Title(part.wagon, part.title, events)
        with_png = self._pictures == SVG_AND_PNG
        row.picture = None if with_png else write_light_picture(self.out_dir, part.path, histogram, title)
        if row.picture is None:
            self._no_pictures = left_out("pictures of some histograms are", "matplotlib", "mplhep")
            if self._no_pictures is not None:
                return
            # Imported late: loading matplotlib takes a second, and jobs with only simple histograms do not need it.
            from branchline.records.pictures.matplotlib_pictures import write_picture

            row.picture = write_picture(self.out_dir, part.path, histogram, title, with_png=with_png)
        _add_note(row, remark_on(histogram))

    def records(self, result: Result, advise: Adviser | None) -> None:
        """Write sensors.parquet, report.html and job.json from the same record.

        job.json is written last, because it also lists the failures to write the other two files.
        """
        self._job.written = self.written()
        if self._no_sensors is None:
            with self.attempt(SENSORS):
                write_sensors(self.out_dir, result.sensors)
        if self._no_page is None:
            with self.attempt(PAGE):
                from branchline.records.report.report_page import write_page

                write_page(self.out_dir, self._job, advise(self._job) if advise else ())
        self._job.written = self.written()
        with self.attempt(JOB):
            write_job(self.out_dir, self._job)

    def written(self) -> list[str]:
        """Return the paths of all files that were written, relative to the output directory."""
        names = [FILE_NAME]
        for table in self._job.tables:
            names += table.files
        for row in self.results:
            names += row.files
            if row.picture is not None:
                names.append(row.picture)
                if self._pictures == SVG_AND_PNG:
                    names.append(str(Path(row.picture).with_suffix(".png")))
        names.append(JOB)
        names += [SENSORS] if self._no_sensors is None else []
        names += [PAGE] if self._no_page is None else []
        return [name for name in names if name not in self._not_written]


def _add_note(row: ResultRecord, note: str | None) -> None:
    """Append a note to an output's existing notes."""
    row.note = "; ".join(filter(None, (row.note, note))) or None
