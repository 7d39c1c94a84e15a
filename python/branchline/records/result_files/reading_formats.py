"""Reads back what ``open_formats`` wrote: each part of an output as what the wagon returned."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import awkward
import boost_histogram
import numpy

from branchline.base.extras import require
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.records.result_files.formats import AWKWARD_JSON
from branchline.records.result_files.outputs import COLUMNS, HISTOGRAM, TABLE, Part, take_apart
from branchline.records.result_files.result_forms import form_of, made_again
from branchline.records.sensors.result_record import ResultRecord


def part_form(part: Part) -> Any:
    """Return what ``read_part`` must know of a part besides its format: its class, and labels that are no texts."""
    value = part.value
    if part.kind == HISTOGRAM:
        # A class of somebody's own, as one derived from hist's, comes back as that of hist.
        is_hist = any(one.__module__.partition(".")[0] == "hist" for one in type(value).__mro__)
        return "hist.Hist" if is_hist else "boost_histogram.Histogram"
    if part.kind == TABLE:
        name = type(value).__name__
        labels = [value.name] if name == "Series" else list(value.columns) if name == "DataFrame" else []
        if all(type(one) is str for one in labels):
            return name
        return {"type": name, "labels": _plain(labels), "form": form_of(labels)}
    return None


def _plain(labels: list[Any]) -> list[Any]:
    plain: list[Any] = take_apart("", labels, lambda part: repr(part.value), ())
    return plain


def read_part(out_dir: Path, row: ResultRecord) -> Any:
    """Return a part that ``write_part`` wrote below ``out_dir``.

    Raises MissingFileError, StorageError, BadFileError for a file that is not what was written, and MissingPackageError
    where the package that reads it is not installed.
    """
    path = out_dir / row.files[0]
    return read_result(path, lambda: _READERS[row.format](out_dir, path, row))


def read_result(path: Path, read: Callable[[], Any]) -> Any:
    """Return what ``read`` gives, with errors that name the file."""
    try:
        return read()
    except FileNotFoundError:
        what = "this file of a result is not there any more"
        raise MissingFileError(what, path=str(path), hint="run the train again") from None
    except OSError as error:
        raise StorageError(f"a result cannot be read: {error}", path=str(path)) from error
    except ImportError:
        raise
    except Exception as error:  # what a library raises for damaged bytes may be anything
        what = f"this file of a result is damaged: {type(error).__name__}: {error}"
        raise BadFileError(what, path=str(path), hint="run the train again") from error


def read_json(path: Path) -> Any:
    """Return the content of a JSON file. Raises what opening and parsing it raise."""
    return json.loads(path.read_text(encoding="utf-8"))


def _histogram(_: Path, path: Path, row: ResultRecord) -> Any:
    require("uhi")
    import uhi.io.json

    content = json.loads(path.read_text(encoding="utf-8"), object_hook=uhi.io.json.object_hook)
    return _of_uhi(content, row)


def _zipped_histogram(_: Path, path: Path, row: ResultRecord) -> Any:
    require("uhi")
    import uhi.io.zip

    with zipfile.ZipFile(path) as archive:
        return _of_uhi(uhi.io.zip.read(archive, path.name.removesuffix(".zip")), row)


def _of_uhi(content: Any, row: ResultRecord) -> Any:
    if row.form == "boost_histogram.Histogram":
        return boost_histogram.Histogram(content)
    require("hist")
    import hist

    return hist.Hist(content)


def _array(_: Path, path: Path, _row: ResultRecord) -> Any:
    with numpy.load(path, allow_pickle=False) as arrays:
        if "mask" in arrays:
            return numpy.ma.MaskedArray(arrays["values"], arrays["mask"])
        return arrays["values"]


def _parquet(_: Path, path: Path, row: ResultRecord) -> Any:
    require("pyarrow")
    if row.kind == COLUMNS:
        return awkward.from_parquet(str(path))
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    return table if row.form == "Table" else _labelled(table.to_pandas(), row.form)


def _json_table(_: Path, path: Path, row: ResultRecord) -> Any:
    require("pandas")
    import pandas

    content = read_json(path)
    frame = pandas.DataFrame(content["data"], index=content["index"], columns=content["columns"])
    return _labelled(frame, row.form)


def _labelled(frame: Any, form: Any) -> Any:
    """Return a frame of pandas with the labels that Parquet cannot hold, or its one column as a Series."""
    name = form["type"] if isinstance(form, dict) else form
    labels = list(frame.columns)
    if isinstance(form, dict):
        labels = made_again(form["labels"], form["form"], _no_part, {})
    if name == "Series":
        return frame.iloc[:, 0].rename(labels[0])
    return frame.set_axis(labels, axis=1)


def _no_part(name: str) -> Any:
    raise KeyError(name)


def _record(_: Path, path: Path, _row: ResultRecord) -> Any:
    return awkward.from_json(path.read_text(encoding="utf-8"), **AWKWARD_JSON)


def _buffers(out_dir: Path, path: Path, _row: ResultRecord) -> Any:
    content = read_json(path)
    with numpy.load(out_dir / content["buffers"], allow_pickle=False) as buffers:
        return awkward.from_buffers(content["form"], content["length"], dict(buffers))


_READERS: dict[str, Callable[[Path, Path, ResultRecord], Any]] = {
    "UHI JSON": _histogram,
    "UHI zip": _zipped_histogram,
    "NumPy arrays": _array,
    "Parquet": _parquet,
    "JSON": _record,
    "JSON table": _json_table,
    "awkward buffers": _buffers,
}
