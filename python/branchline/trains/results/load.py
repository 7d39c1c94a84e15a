"""`branchline.load`: the results in a directory, as what the wagons returned."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from branchline.base.checks import folder_path
from branchline.base.extras import require
from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import count, counted
from branchline.errors import MissingFileError, NoSuchKeyError, PartialResultError
from branchline.records.sensors.record import FINISHED, RUNNING, JobRecord, WagonRecord
from branchline.records.sensors.result_record import ResultRecord
from branchline.trains.out_folder.lock import JOBS, SUBMISSION
from branchline.trains.out_folder.state import job_of
from branchline.trains.sums.cutflow import Cutflow
from branchline.trains.tables.pieces import TableFile

_CUTFLOW = f"{Cutflow.__module__}.{Cutflow.__qualname__}"
# Names in one cell of a notebook's table.
_OBJECTS_SHOWN = 6
_TABLE_FILE = f"{TableFile.__module__}.{TableFile.__qualname__}"


def load(out: str | os.PathLike[str], *, partial: bool = False) -> Results:
    """The results of a train in its directory, wherever it ran: by wagon, as what the wagon returned.

    Histograms are ``hist.Hist`` (or of boost_histogram, if they were). NumPy and awkward arrays, frames of pandas,
    Arrow tables, dicts with their keys, tuples, sets and numbers come back as they were, a ``branchline.Table`` as the
    ``TableFile`` of its rows. Numbers of NumPy come as those of Python, objects of a class of your own as the dict of
    their fields. Each result is read when it is asked for. ``partial=True`` gives results of a part of the events, too.

        results = branchline.load("out")
        results["spectra"]["pt"].plot()

    Raises MissingFileError if no train wrote this directory, and PartialResultError if it is still at work.
    """
    folder = Path(folder_path("the directory of results", out))
    job = job_of(folder)
    if job is None or job.status == RUNNING:
        what = "there are no results of a train here"
        if job is not None or (folder / JOBS / SUBMISSION).is_file():
            raise PartialResultError(
                "this train has not come to its end", path=str(folder), hint=f"see branchline status {out}", retry=True
            )
        hint = "give the directory that branchline run -o, or branchline.run(..., out), wrote"
        raise MissingFileError(what, path=str(folder), hint=hint)
    return Results(folder, job, partial=partial)


class Results(Mapping[str, Any]):
    """The results of a train by wagon, read from its directory when they are asked for; ``branchline.load`` makes it.

    ``out`` is the directory, ``record`` the record of the job. Loading one raises NoSuchKeyError for a wagon that the
    train did not have, PartialResultError for a result that is not from all events or could not be written,
    MissingFileError for a file that was removed, BadFileError for one that is damaged.

        results = branchline.load("out")
        for wagon, result in results.items():
            print(wagon, result)
    """

    def __init__(self, out: Path, record: JobRecord, *, partial: bool = False) -> None:
        self.out = out
        self.record = record
        self._takes_partial = partial
        self._wagons = {one.name: one for one in record.wagons}

    def __getitem__(self, wagon: str) -> Any:
        row = self._wagons.get(wagon)
        if row is None:
            near = get_close_matches(str(wagon), self._wagons, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"it had {', '.join(self._wagons)}"
            raise NoSuchKeyError(f"this train had no wagon {wagon!r}", path=str(self.out), hint=hint)
        parts = [one for one in self.record.results if one.wagon == wagon]
        if not self._takes_partial:
            self._refuse_partial(row, parts)
        top = next((one for one in parts if one.key == "" and one.files), None)
        if top is None:
            raise PartialResultError(
                f"of wagon {wagon!r} there is no result: {self._why(row)}", path=str(self.out), hint="run it again"
            )
        # Imported late: they import awkward and boost_histogram.
        require("boost_histogram", "uhi")
        from branchline.records.result_files.reading_formats import read_json, read_part, read_result
        from branchline.records.result_files.result_forms import made_again

        if top.kind != "data":
            return read_part(self.out, top)
        files = {one.files[0]: one for one in parts if one.files and one is not top}
        path = self.out / top.files[0]
        plain = read_result(path, lambda: read_json(path))
        makers = {_TABLE_FILE: self._table, _CUTFLOW: lambda fields: Cutflow(**fields)}
        return made_again(plain, top.form, lambda name: read_part(self.out, files[name]), makers)

    def normalised(self, wagon: str) -> Any:
        """The result of a wagon, with what is of a simulated sample scaled to the luminosity; ``results[wagon]`` stays
        the raw one. Samples are the keys of a dict (``by_dataset``), or categories of a histogram's axis ``dataset``,
        ``sample`` or ``process``. Means, texts and tables stay.

        Raises DatasetError where the list of datasets did not say what is needed, and what ``results[wagon]`` raises.

            branchline.load("out").normalised("spectrum")["ttbar"].plot()
        """
        # Imported late, as what reads the results.
        from branchline.trains.results.scaling import normalised

        return normalised(self[wagon], self.record.samples, f"the result of wagon {wagon!r}")

    def __iter__(self) -> Iterator[str]:
        return iter(self._wagons)

    def __len__(self) -> int:
        return len(self._wagons)

    def __repr__(self) -> str:
        wagons = ", ".join(self)
        return f"<Results of {counted(self.record.events, 'event')} in {self.out}: {wagons}>"

    def _repr_html_(self) -> str:
        rows = [
            (one.name, count(one.events), self._objects(one.name), "" if one.error is None else one.error.message)
            for one in list(self._wagons.values())[:HTML_ROWS]
        ]
        title = f"Results of {counted(self.record.events, 'event')} in {self.out}"
        return html_table(title, ("wagon", "events", "histograms and arrays", "error"), rows)

    def _objects(self, wagon: str) -> str:
        """What a result has besides numbers and texts, by its names in it: the first few."""
        found = [one.key or one.kind for one in self.record.results if one.wagon == wagon and one.kind != "data"]
        more = [f"{len(found) - _OBJECTS_SHOWN} more"] if len(found) > _OBJECTS_SHOWN else []
        return ", ".join([*found[:_OBJECTS_SHOWN], *more])

    def _refuse_partial(self, row: WagonRecord, parts: list[ResultRecord]) -> None:
        lost = next((one for one in parts if not one.files), None)
        if row.status == FINISHED and lost is None:
            return
        what = f"the result of wagon {row.name!r} is partial: {self._why(row)}"
        if row.status == FINISHED and lost is not None:
            what = f"of wagon {row.name!r} {lost.key or 'the result'} is {lost.note}"
        hint = "run the train again, or load it with partial=True"
        raise PartialResultError(what, path=str(self.out), hint=hint)

    def _why(self, row: WagonRecord) -> str:
        """Why a result is not from all events."""
        if row.error is not None:
            return row.error.sentence(row.name)
        expected = self.record.events_expected
        of_all = f" of {count(expected)}" if expected is not None and expected > row.events else ""
        reason = self.record.errors[0].message if self.record.errors else "the train was interrupted"
        if self.record.skipped:
            reason = f"{counted(len(self.record.skipped), 'file')} left out, the first {self.record.skipped[0].path}"
        return f"it is from {count(row.events)}{of_all} events, since {reason}"

    def _table(self, fields: Mapping[str, Any]) -> TableFile:
        """A table, also where the directory was moved since."""
        table = TableFile(**fields)
        if os.path.exists(table.path):
            return table
        below = table.path.rpartition("/tables/")[2]
        return replace(table, path=str(self.out / "tables" / below))
