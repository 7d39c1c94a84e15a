"""`branchline.load`: loads the results in a directory, in the form in which the wagons returned them, or scaled to a
luminosity.

Scaling multiplies results, including their errors, by the factor of each sample. The stored results are unchanged.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from branchline.base.checks import folder_path
from branchline.base.imports import require
from branchline.base.notebook import HTML_ROWS, html_table
from branchline.base.quantities import count, counted
from branchline.errors import DatasetError, MissingFileError, NoSuchKeyError, PartialResultError
from branchline.records.sensors.record import FINISHED, RUNNING, JobRecord, WagonRecord
from branchline.records.sensors.record_parts import ResultRecord, SampleRecord
from branchline.trains.out_folder.claim import JOBS, SUBMISSION
from branchline.trains.out_folder.state import job_of
from branchline.trains.sums.cutflow import Cutflow
from branchline.trains.tables.table import TableFile

# Names under which the stored results refer to the classes Cutflow and TableFile.
_CUTFLOW = f"{Cutflow.__module__}.{Cutflow.__qualname__}"
_TABLE_FILE = f"{TableFile.__module__}.{TableFile.__qualname__}"
#: Names of category axes that may contain samples, as commonly used in Python analyses.
SAMPLE_AXES = ("dataset", "sample", "process")
# Maximum number of names in a cell of a notebook's table.
_OBJECTS_SHOWN = 6


def load(out: str | os.PathLike[str], *, partial: bool = False) -> Results:
    """Load the results of a train from its directory, by wagon. The train may have run locally, on a cluster or in a
    batch system.

    Results have the form in which the wagons returned them: histograms are ``hist.Hist`` (or boost_histogram's, if the
    wagon used these), and NumPy and awkward arrays, pandas frames, Arrow tables, dicts with their keys, tuples, sets
    and numbers are restored. Exceptions: a ``branchline.Table`` becomes a ``TableFile``, NumPy numbers become Python
    numbers, and objects of your own classes become dicts of their fields.

    Each result is read on first use. ``partial=True`` also returns results that cover only a part of the events.

        results = branchline.load("out")
        results["spectra"]["pt"].plot()

    Raises MissingFileError if the directory contains no train, and PartialResultError if the train is not finished.
    """
    folder = Path(folder_path("the directory of results", out))
    job = job_of(folder)
    if job is None or job.status == RUNNING:
        what = "this directory contains no results of a train"
        if job is not None or (folder / JOBS / SUBMISSION).is_file():
            raise PartialResultError(
                "this train is not finished", path=str(folder), hint=f"see branchline status {out}", retry=True
            )
        hint = "give the directory that branchline run -o, or branchline.run(..., out), wrote"
        raise MissingFileError(what, path=str(folder), hint=hint)
    return Results(folder, job, partial=partial)


class Results(Mapping[str, Any]):
    """The results of a train by wagon, created by ``branchline.load`` and read from the directory on first use.

    ``out`` is the directory, ``record`` is the job record. Loading a result raises NoSuchKeyError for an unknown wagon,
    PartialResultError for a result that does not cover all events or could not be written, MissingFileError for a
    deleted file, and BadFileError for a damaged file.

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
            hint = f"did you mean {near[0]!r}?" if near else f"choose one of {', '.join(self._wagons)}"
            raise NoSuchKeyError(f"this train had no wagon {wagon!r}", path=str(self.out), hint=hint)
        parts = [one for one in self.record.results if one.wagon == wagon]
        if not self._takes_partial:
            self._refuse_partial(row, parts)
        top = next((one for one in parts if one.key == "" and one.files), None)
        if top is None:
            raise PartialResultError(
                f"wagon {wagon!r} has no result: {self._why(row)}", path=str(self.out), hint="run the train again"
            )
        require("boost_histogram", "uhi")
        from branchline.records.result_files.formats import read_json, read_part, read_result
        from branchline.records.result_files.result_forms import made_again

        if top.kind != "data":
            return read_part(self.out, top)
        files = {one.files[0]: one for one in parts if one.files and one is not top}
        path = self.out / top.files[0]
        plain = read_result(path, lambda: read_json(path))
        makers = {_TABLE_FILE: self._table, _CUTFLOW: lambda fields: Cutflow(**fields)}
        return made_again(plain, top.form, lambda name: read_part(self.out, files[name]), makers)

    def normalised(self, wagon: str) -> Any:
        """Return the result of a wagon with simulated samples scaled to the luminosity; ``results[wagon]`` is unscaled.

        Samples are the keys of a dict (``by_dataset``), or the categories of a histogram's axis ``dataset``, ``sample``
        or ``process``. Means, strings and tables are not scaled.

        Raises DatasetError if the list of datasets lacks information, and the errors of ``results[wagon]``.

            branchline.load("out").normalised("spectrum")["ttbar"].plot()
        """
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
        """Return the names of a wagon's first histograms, arrays and tables as text."""
        found = [one.key or one.kind for one in self.record.results if one.wagon == wagon and one.kind != "data"]
        more = [f"{len(found) - _OBJECTS_SHOWN} more"] if len(found) > _OBJECTS_SHOWN else []
        return ", ".join([*found[:_OBJECTS_SHOWN], *more])

    def _refuse_partial(self, row: WagonRecord, parts: list[ResultRecord]) -> None:
        lost = next((one for one in parts if not one.files), None)
        if row.status == FINISHED and lost is None:
            return
        what = f"the result of wagon {row.name!r} is partial: {self._why(row)}"
        if row.status == FINISHED and lost is not None:
            what = f"{lost.key or 'the result'} of wagon {row.name!r} is {lost.note}"
        hint = "run the train again, or load it with partial=True"
        raise PartialResultError(what, path=str(self.out), hint=hint)

    def _why(self, row: WagonRecord) -> str:
        """Return why a result does not cover all events."""
        if row.error is not None:
            return row.error.sentence(row.name)
        expected = self.record.events_expected
        of_all = f" of {count(expected)}" if expected is not None and expected > row.events else ""
        reason = self.record.errors[0].message if self.record.errors else "the train was interrupted"
        if self.record.skipped:
            reason = f"{counted(len(self.record.skipped), 'file')} left out, the first {self.record.skipped[0].path}"
        return f"it is from {count(row.events)}{of_all} events, since {reason}"

    def _table(self, fields: Mapping[str, Any]) -> TableFile:
        """Return a table with its current path, even if the output directory was moved."""
        table = TableFile(**fields)
        if os.path.exists(table.path):
            return table
        # The path before the move, and the names of wagons and tables, may contain `tables` too.
        parts = table.path.split("/tables/")
        moved = [self.out / "tables" / "/tables/".join(parts[number:]) for number in range(1, len(parts))]
        found = next((path for path in moved if path.exists()), None)
        return table if found is None else replace(table, path=str(found))


def normalised(value: object, samples: Sequence[SampleRecord], where: str) -> Any:
    """Return a result in which the values for each sample are multiplied by the sample's factor.

    Samples are the keys of a dict (as for a wagon with ``by_dataset``), or the categories of a histogram's axis
    ``dataset``, ``sample`` or ``process``. In weighted histograms, errors are scaled too; histograms of counts are
    converted to weighted ones. Raises DatasetError if a factor is unknown, or if the values of several samples are
    added up.
    """
    by_name = {one.name: one for one in samples}
    if not by_name:
        hint = "add a sample to each dataset of the list, with its kind and cross section"
        raise DatasetError(f"the list of datasets of {where} describes no samples", hint=hint)
    scaled = _by_sample(value, by_name)
    if scaled is not None:
        return scaled
    if len(by_name) == 1:
        return times(value, factor_of(samples[0]))
    hint = "set by_dataset = True in the wagon, or fill a category axis named dataset"
    part = _added_up(value, by_name)
    within = f" in {part}" if part else ""
    raise DatasetError(f"{where} has the samples {', '.join(by_name)} added up{within}", hint=hint)


def _by_sample(value: object, names: Mapping[str, SampleRecord]) -> object:
    """Return the scaled value if it is split by sample; otherwise None."""
    if isinstance(value, Mapping):
        if value and all(key in names for key in value):
            return {key: times(one, factor_of(names[key])) for key, one in value.items()}
        inner = {key: _by_sample(one, names) for key, one in value.items()}
        return inner if inner and all(one is not None for one in inner.values()) else None
    if not hasattr(value, "axes"):
        return None
    index = sample_axis(value, names)
    if index is None:
        return None
    if _is_mean(value):
        return value
    total = weighted(value)
    view = total.view(flow=True)
    for place, label in enumerate(value.axes[index]):
        cells = (slice(None),) * index + (place,)
        factor = factor_of(names[str(label)])
        view["value"][cells] *= factor
        view["variance"][cells] *= factor**2
    return total


def sample_axis(histogram: Any, names: Mapping[str, SampleRecord]) -> int | None:
    """Return the index of the histogram axis whose categories are samples; None if there is no such axis."""
    import boost_histogram

    for index, axis in enumerate(histogram.axes):
        is_category = isinstance(axis, boost_histogram.axis.StrCategory)
        if is_category and len(axis) and getattr(axis, "name", "") in SAMPLE_AXES and set(axis) <= set(names):
            return index
    return None


def _added_up(value: object, names: Mapping[str, SampleRecord]) -> str:
    """Return the path (keys joined by slashes) of the first part of a result that is not split by sample; empty if this
    is the result itself.
    """
    if not isinstance(value, Mapping):
        return ""
    parts = ((key, one) for key, one in value.items() if _by_sample(one, names) is None)
    return next((f"{key}/{_added_up(one, names)}".rstrip("/") for key, one in parts), "")


def factor_of(sample: SampleRecord) -> float:
    """Return the scale factor of a sample. Raises DatasetError if the factor is unknown."""
    if sample.factor is None:
        raise DatasetError(f"sample {sample.name!r} cannot be normalised: {sample.note or 'no factor is recorded'}")
    return sample.factor


def times(value: Any, factor: float) -> Any:
    """Scale a result: histograms with their errors, numbers, arrays, and collections of these.

    Means, strings, sets and tables are returned unchanged.
    """
    if isinstance(value, Mapping):
        return {key: times(one, factor) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(times(one, factor) for one in value)
    if hasattr(value, "axes") and hasattr(value, "storage_type"):
        if _is_mean(value):
            return value
        total = weighted(value)
        view = total.view(flow=True)
        view["value"] *= factor
        view["variance"] *= factor**2
        return total
    if hasattr(value, "scaled"):
        return value.scaled(factor)
    if isinstance(value, int | float | complex) and not isinstance(value, bool):
        return value * factor
    if type(value).__module__ == "numpy" and getattr(getattr(value, "dtype", None), "kind", "") in "iufc":
        return value * factor
    return value


def _is_mean(histogram: Any) -> bool:
    """Return whether the bins of a histogram contain means, as in a profile. Means are not scaled."""
    return bool(histogram.kind.name == "MEAN")


def weighted(value: Any) -> Any:
    """Return a copy of a histogram of counts or weights that stores variances, so that errors can be scaled too."""
    import boost_histogram

    if value.storage_type is boost_histogram.storage.Weight:
        return value.copy()
    extra = {} if type(value) is boost_histogram.Histogram else {"name": value.name, "label": value.label}
    total = type(value)(*value.axes, storage=boost_histogram.storage.Weight(), **extra)
    variances = value.variances(flow=True)
    view = total.view(flow=True)
    view["value"] = value.values(flow=True)
    # If the histogram has no variances, assume that the values are counts.
    view["variance"] = value.values(flow=True) if variances is None else variances
    return total
