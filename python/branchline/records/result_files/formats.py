"""Everything that wagons returned, in formats that need neither Branchline nor ROOT to read.

``results/<wagon>.json`` holds the wagon's numbers, texts, lists and dicts as they were. Where a part has a file of its
own, ``{"file": "results/..."}`` stands in its place: histograms as UHI JSON, NumPy arrays as ``.npz``, awkward arrays
and data frames as Parquet. ``hist.Hist(json.load(file, object_hook=uhi.io.json.object_hook))`` reads a histogram
back; ``read_part``, which ``branchline.load`` uses, reads every part as what the wagon returned.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import awkward
import boost_histogram
import numpy

from branchline.base.imports import left_out, require
from branchline.base.whole_files import whole_file, write_whole
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.records.result_files.outputs import ARRAY, COLUMNS, HISTOGRAM, TABLE, Part, take_apart
from branchline.records.result_files.result_forms import form_of, made_again
from branchline.records.sensors.record_parts import ResultRecord

#: The folder of results.
RESULTS = "results"
#: Above this many cells a histogram is stored as zipped .npy; JSON would be ten times as large and slow.
JSON_CELLS_MAX = 1_000_000
#: Errors of awkward, pandas and pyarrow for columns that Parquet has no type for.
_NOT_PARQUET = (TypeError, ValueError, NotImplementedError, AssertionError)
#: Options of awkward for JSON, the same for writing and reading.
AWKWARD_JSON: Any = {
    "nan_string": "nan",
    "posinf_string": "inf",
    "neginf_string": "-inf",
    "complex_record_fields": ("real", "imag"),
}


class Written(NamedTuple):
    """Where a part went: files relative to the output directory, the format's name, a note for the reader."""

    files: list[str]
    format: str
    note: str | None = None


# --- writing ----------------------------------------------------------------------------------------------------------


def write_part(out_dir: Path, part: Part) -> Written:
    """Write one part below ``out_dir/results``.

    Raises StorageError.
    """
    stem = Path(RESULTS, *part.path)
    if part.kind == HISTOGRAM:
        return _write_histogram(out_dir, stem, part.value)
    if part.kind == ARRAY:
        return _write_array(out_dir, stem, part.value)
    if part.kind == COLUMNS:
        return _write_columns(out_dir, stem, part.value)
    assert part.kind == TABLE, part.kind
    return _write_table(out_dir, stem, part.value)


def write_plain(out_dir: Path, name: str, content: Any) -> str:
    """Write the plain data of one wagon to ``results/<name>.json``; returns the path relative to ``out_dir``."""
    relative = Path(RESULTS, f"{name}.json")
    write_whole(out_dir / relative, json_bytes(content))
    return str(relative)


def json_bytes(content: Any) -> bytes:
    """Return data as JSON text, a line per small item, in UTF-8 that every reader takes."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", errors="backslashreplace") + b"\n"


def _with_suffix(stem: Path, suffix: str) -> Path:
    """Return ``stem`` with a suffix put behind it; a point in the name stays part of the name."""
    return stem.with_name(stem.name + suffix)


def _write_histogram(out_dir: Path, stem: Path, value: Any) -> Written:
    import boost_histogram.serialization
    import uhi.io.zip

    content: Any = boost_histogram.serialization.to_uhi(value)
    if content["storage"]["type"] in ("mean", "weighted_mean"):
        # UHI has the variance in place of the sum that a bin keeps. For a bin of one entry it is undefined, the sum is
        # zero, and so is the sum that a reader computes from a variance of zero.
        storage = dict(content["storage"])
        storage["variances"] = numpy.nan_to_num(storage["variances"], nan=0.0)
        content = {**content, "storage": storage}
    if math.prod(axis.extent for axis in value.axes) > JSON_CELLS_MAX:
        relative = _with_suffix(stem, ".zip")
        with (
            whole_file(out_dir / relative) as temporary,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            uhi.io.zip.write(archive, stem.name, content)
        return Written([str(relative)], "UHI zip")
    relative = _with_suffix(stem, ".json")
    text = json.dumps(content, default=_uhi_default)
    write_whole(out_dir / relative, text.encode("utf-8", errors="backslashreplace") + b"\n")
    return Written([str(relative)], "UHI JSON")


def _uhi_default(value: Any) -> Any:
    """Encode what JSON does not know; an axis may carry any Python object as its metadata."""
    import uhi.io.json

    try:
        return uhi.io.json.default(value)
    except TypeError:
        return repr(value)


def _write_array(out_dir: Path, stem: Path, value: Any) -> Written:
    relative = _with_suffix(stem, ".npz")
    arrays = {"values": value}
    if isinstance(value, numpy.ma.MaskedArray):
        arrays = {"values": numpy.ma.getdata(value), "mask": numpy.ma.getmaskarray(value)}
    with whole_file(out_dir / relative) as temporary:
        numpy.savez_compressed(temporary, allow_pickle=False, **arrays)
    return Written([str(relative)], "NumPy arrays")


def _write_columns(out_dir: Path, stem: Path, value: Any) -> Written:
    if isinstance(value, awkward.Record):
        relative = _with_suffix(stem, ".json")
        content = json.loads(awkward.to_json(value, **AWKWARD_JSON))
        write_whole(out_dir / relative, json_bytes(content))
        return Written([str(relative)], "JSON")
    no_parquet = left_out("Parquet", "pyarrow")
    if no_parquet is not None:
        return _write_buffers(out_dir, stem, value, no_parquet)
    relative = _with_suffix(stem, ".parquet")
    try:
        with whole_file(out_dir / relative) as temporary:
            awkward.to_parquet(value, str(temporary))
    except _NOT_PARQUET as error:
        return _write_buffers(out_dir, stem, value, f"not as Parquet: {error}")
    return Written([str(relative)], "Parquet")


def _write_buffers(out_dir: Path, stem: Path, value: Any, note: str) -> Written:
    """Write an awkward array as its buffers and its form: ``awkward.from_buffers(form, length, buffers)``."""
    form, length, buffers = awkward.to_buffers(awkward.to_packed(value))
    arrays, described = _with_suffix(stem, ".npz"), _with_suffix(stem, ".json")
    with whole_file(out_dir / arrays) as temporary:
        numpy.savez_compressed(temporary, allow_pickle=False, **buffers)
    content = {"form": form.to_dict(), "length": int(length), "buffers": str(arrays)}
    write_whole(out_dir / described, json_bytes(content))
    return Written([str(described), str(arrays)], "awkward buffers", note.splitlines()[0])


def _write_table(out_dir: Path, stem: Path, value: Any) -> Written:
    relative = _with_suffix(stem, ".parquet")
    try:
        table = _arrow_table(value)
    except (*_NOT_PARQUET, ModuleNotFoundError) as error:
        # A column of mixed Python objects has no Arrow type. pandas' own JSON keeps the table's schema and index.
        relative = _with_suffix(stem, ".json")
        frame = value.to_frame() if hasattr(value, "to_frame") else value
        content = json.loads(frame.to_json(orient="split", default_handler=str))
        write_whole(out_dir / relative, json_bytes(content))
        return Written([str(relative)], "JSON table", f"not as Parquet: {error}".splitlines()[0])
    import pyarrow.parquet

    with whole_file(out_dir / relative) as temporary:
        pyarrow.parquet.write_table(table, temporary)
    return Written([str(relative)], "Parquet")


def _arrow_table(value: Any) -> Any:
    import pyarrow

    if isinstance(value, pyarrow.Table):
        return value
    frame = value.to_frame() if hasattr(value, "to_frame") else value
    # Parquet's columns have names of text only; a Series may have none.
    frame = frame.rename(columns=str)
    return pyarrow.Table.from_pandas(frame)


# --- reading ----------------------------------------------------------------------------------------------------------


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
        return {"type": name, "labels": _plain_labels(labels), "form": form_of(labels)}
    return None


def _plain_labels(labels: list[Any]) -> list[Any]:
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


def _read_histogram(_: Path, path: Path, row: ResultRecord) -> Any:
    require("uhi")
    import uhi.io.json

    content = json.loads(path.read_text(encoding="utf-8"), object_hook=uhi.io.json.object_hook)
    return _of_uhi(content, row)


def _read_zipped_histogram(_: Path, path: Path, row: ResultRecord) -> Any:
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


def _read_array(_: Path, path: Path, _row: ResultRecord) -> Any:
    with numpy.load(path, allow_pickle=False) as arrays:
        if "mask" in arrays:
            return numpy.ma.MaskedArray(arrays["values"], arrays["mask"])
        return arrays["values"]


def _read_parquet(_: Path, path: Path, row: ResultRecord) -> Any:
    require("pyarrow")
    if row.kind == COLUMNS:
        return awkward.from_parquet(str(path))
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    return table if row.form == "Table" else _labelled(table.to_pandas(), row.form)


def _read_json_table(_: Path, path: Path, row: ResultRecord) -> Any:
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


def _read_record(_: Path, path: Path, _row: ResultRecord) -> Any:
    return awkward.from_json(path.read_text(encoding="utf-8"), **AWKWARD_JSON)


def _read_buffers(out_dir: Path, path: Path, _row: ResultRecord) -> Any:
    content = read_json(path)
    with numpy.load(out_dir / content["buffers"], allow_pickle=False) as buffers:
        return awkward.from_buffers(content["form"], content["length"], dict(buffers))


_READERS: dict[str, Callable[[Path, Path, ResultRecord], Any]] = {
    "UHI JSON": _read_histogram,
    "UHI zip": _read_zipped_histogram,
    "NumPy arrays": _read_array,
    "Parquet": _read_parquet,
    "JSON": _read_record,
    "JSON table": _read_json_table,
    "awkward buffers": _read_buffers,
}
