"""Wagon outputs in formats that need neither Branchline nor ROOT to read.

``results/<wagon>.json`` contains the wagon's numbers, strings, lists and dicts unchanged. Parts with files of their own
are replaced by ``{"file": "results/..."}``: histograms as UHI JSON, NumPy arrays as ``.npz``, awkward arrays and data
frames as Parquet. ``hist.Hist(json.load(file, object_hook=uhi.io.json.object_hook))`` reads a histogram back;
``read_part``, which ``branchline.load`` uses, restores every part as the wagon returned it.
"""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias, TypedDict, TypeGuard, TypeVar

import awkward
import boost_histogram
import numpy

from branchline.base.checks import instance_of
from branchline.base.imports import left_out, require
from branchline.base.plain import Json
from branchline.base.whole_files import whole_file, write_whole
from branchline.errors import BadFileError, MissingFileError, StorageError
from branchline.records.result_files.outputs import ARRAY, COLUMNS, HISTOGRAM, TABLE, Part, take_apart
from branchline.records.result_files.result_forms import form_of, made_again
from branchline.records.sensors.record_parts import ResultRecord

if TYPE_CHECKING:
    import pandas
    import pyarrow
    from uhi.typing.serialization import AnyHistogramIR

Content = TypeVar("Content")
#: A part of an output with the kind TABLE.
Table: TypeAlias = "pandas.DataFrame | pandas.Series | pyarrow.Table"

#: Name of the folder for results.
RESULTS = "results"
#: Histograms with more cells than this are stored as zipped .npy files; JSON would be ten times as large and slow.
JSON_CELLS_MAX = 1_000_000
#: Errors that awkward, pandas and pyarrow raise for columns that have no Parquet type.
_NOT_PARQUET = (TypeError, ValueError, NotImplementedError, AssertionError)


class _AwkwardJson(TypedDict):
    nan_string: str
    posinf_string: str
    neginf_string: str
    complex_record_fields: tuple[str, str]


#: Options for awkward's JSON, the same for writing and reading.
AWKWARD_JSON: _AwkwardJson = {
    "nan_string": "nan",
    "posinf_string": "inf",
    "neginf_string": "-inf",
    "complex_record_fields": ("real", "imag"),
}


class Written(NamedTuple):
    """The files of a written part (relative to the output directory), the name of their format, and a note for
    readers.
    """

    files: list[str]
    format: str
    note: str | None = None


# --- writing ----------------------------------------------------------------------------------------------------------


def write_part(out_dir: Path, part: Part) -> Written:
    """Write one part of an output below ``out_dir/results``.

    Raises StorageError.
    """
    stem = Path(RESULTS, *part.path)
    if part.kind == HISTOGRAM:
        return _write_histogram(out_dir, stem, instance_of(part.value, boost_histogram.Histogram))
    if part.kind == ARRAY:
        value = instance_of(part.value, numpy.ndarray)
        relative = _with_suffix(stem, ".npz")
        arrays = {"values": value}
        if isinstance(value, numpy.ma.MaskedArray):
            arrays = {"values": numpy.ma.getdata(value), "mask": numpy.ma.getmaskarray(value)}
        with whole_file(out_dir / relative) as temporary:
            numpy.savez_compressed(temporary, allow_pickle=False, **arrays)
        return Written([str(relative)], "NumPy arrays")
    if part.kind == COLUMNS:
        return _write_columns(out_dir, stem, part.value)
    assert part.kind == TABLE, part.kind
    return _write_table(out_dir, stem, part.value)


def write_plain(out_dir: Path, name: str, content: object) -> str:
    """Write the plain data of one wagon to ``results/<name>.json``; return the path relative to ``out_dir``."""
    relative = Path(RESULTS, f"{name}.json")
    write_whole(out_dir / relative, json_bytes(content))
    return str(relative)


def json_bytes(content: object) -> bytes:
    """Return data as JSON in valid UTF-8, with one line per small item."""
    text = json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False, default=str)
    return text.encode("utf-8", errors="backslashreplace") + b"\n"


def _with_suffix(stem: Path, suffix: str) -> Path:
    """Append a suffix to ``stem``, unlike ``Path.with_suffix``, which replaces the part of the name after a dot."""
    return stem.with_name(stem.name + suffix)


def _write_histogram(out_dir: Path, stem: Path, value: boost_histogram.Histogram) -> Written:
    import boost_histogram.serialization
    import uhi.io.zip

    content = boost_histogram.serialization.to_uhi(value)
    if content["storage"]["type"] in ("mean", "weighted_mean"):
        # A bin stores the sum of squared deviations, UHI the variance. For a bin with one entry the variance is
        # undefined and the sum is zero. Write a variance of zero, from which readers compute the same sum.
        storage = dict(content["storage"])
        storage["variances"] = numpy.nan_to_num(storage["variances"], nan=0.0)
        content = {**content, "storage": storage}
    if math.prod(value.axes.extent) > JSON_CELLS_MAX:
        relative = _with_suffix(stem, ".zip")
        with (
            whole_file(out_dir / relative) as temporary,
            zipfile.ZipFile(temporary, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            assert _is_uhi(content)
            uhi.io.zip.write(archive, stem.name, content)
        return Written([str(relative)], "UHI zip")
    relative = _with_suffix(stem, ".json")
    text = json.dumps(content, default=_uhi_default)
    write_whole(out_dir / relative, text.encode("utf-8", errors="backslashreplace") + b"\n")
    return Written([str(relative)], "UHI JSON")


def _is_uhi(content: Mapping[str, object]) -> TypeGuard[AnyHistogramIR]:
    return "uhi_schema" in content


def _uhi_default(value: object) -> object:
    """Encode objects that JSON cannot represent: an axis may have any Python object as its metadata."""
    import uhi.io.json

    try:
        return uhi.io.json.default(value)
    except TypeError:
        return repr(value)


def _write_columns(out_dir: Path, stem: Path, value: awkward.Array | awkward.Record) -> Written:
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


def _write_buffers(out_dir: Path, stem: Path, value: awkward.Array, note: str) -> Written:
    """Write an awkward array as its form and its buffers, readable by ``awkward.from_buffers(form, length,
    buffers)``.
    """
    form, length, buffers = awkward.to_buffers(awkward.to_packed(value))
    arrays, described = _with_suffix(stem, ".npz"), _with_suffix(stem, ".json")
    with whole_file(out_dir / arrays) as temporary:
        numpy.savez_compressed(temporary, allow_pickle=False, **buffers)
    content = {"form": form.to_dict(), "length": int(length), "buffers": str(arrays)}
    write_whole(out_dir / described, json_bytes(content))
    return Written([str(described), str(arrays)], "awkward buffers", note.splitlines()[0])


def _write_table(out_dir: Path, stem: Path, value: Table) -> Written:
    relative = _with_suffix(stem, ".parquet")
    try:
        table = _arrow_table(value)
    except (*_NOT_PARQUET, ModuleNotFoundError) as error:
        # Columns of mixed Python objects have no Arrow type, but pandas' own JSON format preserves them, the schema and
        # the index.
        relative = _with_suffix(stem, ".json")
        content = json.loads(_frame(value).to_json(orient="split", default_handler=str))
        write_whole(out_dir / relative, json_bytes(content))
        return Written([str(relative)], "JSON table", f"not as Parquet: {error}".splitlines()[0])
    import pyarrow.parquet

    with whole_file(out_dir / relative) as temporary:
        pyarrow.parquet.write_table(table, temporary)
    return Written([str(relative)], "Parquet")


def _arrow_table(value: Table) -> pyarrow.Table:
    import pyarrow

    if isinstance(value, pyarrow.Table):
        return value
    # Parquet requires column names that are strings; the name of a Series may be None.
    return pyarrow.Table.from_pandas(_frame(value).rename(columns=str))


def _frame(value: pandas.DataFrame | pandas.Series) -> pandas.DataFrame:
    import pandas

    return value.to_frame() if isinstance(value, pandas.Series) else value


# --- reading ----------------------------------------------------------------------------------------------------------


def part_form(part: Part) -> Json:
    """Return data that ``read_part`` needs besides the format: the part's class, and labels that are not strings."""
    value = part.value
    if part.kind == HISTOGRAM:
        # User-defined subclasses of hist.Hist are restored as hist.Hist.
        is_hist = any(one.__module__.partition(".")[0] == "hist" for one in type(value).__mro__)
        return "hist.Hist" if is_hist else "boost_histogram.Histogram"
    if part.kind == TABLE:
        name = type(value).__name__
        # The class is recognized by its name, which avoids importing pandas.
        labels = list(getattr(value, "columns", ())) if name == "DataFrame" else []
        if name == "Series":
            labels = [getattr(value, "name", None)]
        if all(type(one) is str for one in labels):
            return name
        plain_labels = take_apart("", labels, lambda label: repr(label.value), ())
        return {"type": name, "labels": plain_labels, "form": form_of(labels)}
    return None


def read_part(out_dir: Path, row: ResultRecord) -> object:
    """Return a part that ``write_part`` wrote below ``out_dir``.

    Raises MissingFileError, StorageError, BadFileError for a damaged file, and MissingPackageError if the package that
    reads the format is not installed.
    """
    path = out_dir / row.files[0]
    return read_result(path, lambda: _READERS[row.format](out_dir, path, row))


def read_result(path: Path, read: Callable[[], Content]) -> Content:
    """Return the result of ``read()``; errors name the file ``path``."""
    try:
        return read()
    except FileNotFoundError:
        what = "this result file no longer exists"
        raise MissingFileError(what, path=str(path), hint="rerun the train") from None
    except OSError as error:
        raise StorageError(f"cannot read a result: {error}", path=str(path)) from error
    except ImportError:
        raise
    except Exception as error:  # libraries may raise any exception for damaged bytes
        what = f"this result file is damaged: {type(error).__name__}: {error}"
        raise BadFileError(what, path=str(path), hint="rerun the train") from error


def read_json(path: Path) -> Json:
    """Return the content of a JSON file. Raises the exceptions of ``open`` and the JSON parser."""
    content: Json = json.loads(path.read_text(encoding="utf-8"))
    return content


def _read_histogram(_: Path, path: Path, row: ResultRecord) -> object:
    require("uhi")
    import uhi.io.json

    content = json.loads(path.read_text(encoding="utf-8"), object_hook=uhi.io.json.object_hook)
    return _of_uhi(content, row)


def _read_zipped_histogram(_: Path, path: Path, row: ResultRecord) -> object:
    require("uhi")
    import uhi.io.zip

    with zipfile.ZipFile(path) as archive:
        return _of_uhi(uhi.io.zip.read(archive, path.name.removesuffix(".zip")), row)


def _of_uhi(content: dict[str, object], row: ResultRecord) -> object:
    if row.form == "boost_histogram.Histogram":
        return boost_histogram.Histogram(content)
    require("hist")
    import hist

    return hist.Hist(content)


def _read_array(_: Path, path: Path, _row: ResultRecord) -> object:
    with numpy.load(path, allow_pickle=False) as arrays:
        if "mask" in arrays:
            return numpy.ma.MaskedArray(arrays["values"], arrays["mask"])
        return arrays["values"]


def _read_parquet(_: Path, path: Path, row: ResultRecord) -> object:
    require("pyarrow")
    if row.kind == COLUMNS:
        return awkward.from_parquet(str(path))
    import pyarrow.parquet

    table = pyarrow.parquet.read_table(path)
    return table if row.form == "Table" else _labelled(table.to_pandas(), row.form)


def _read_json_table(_: Path, path: Path, row: ResultRecord) -> object:
    require("pandas")
    import pandas

    content = instance_of(read_json(path), dict)
    frame = pandas.DataFrame(content["data"], index=content["index"], columns=content["columns"])
    return _labelled(frame, row.form)


def _labelled(frame: pandas.DataFrame, form: object) -> pandas.DataFrame | pandas.Series:
    """Return a pandas frame with its original column labels, or its only column if the part was a Series."""
    name = form["type"] if isinstance(form, dict) else form
    labels = list(frame.columns)
    if isinstance(form, dict):
        labels = instance_of(made_again(form["labels"], form["form"], _no_part, {}), list)
    if name == "Series":
        return frame.iloc[:, 0].rename(labels[0])
    return frame.set_axis(labels, axis=1)


def _no_part(name: str) -> NoReturn:
    raise KeyError(name)


def _read_record(_: Path, path: Path, _row: ResultRecord) -> object:
    return awkward.from_json(path.read_text(encoding="utf-8"), **AWKWARD_JSON)


def _read_buffers(out_dir: Path, path: Path, _row: ResultRecord) -> object:
    content = instance_of(read_json(path), dict)
    with numpy.load(out_dir / content["buffers"], allow_pickle=False) as buffers:
        return awkward.from_buffers(content["form"], content["length"], dict(buffers))


_READERS: dict[str, Callable[[Path, Path, ResultRecord], object]] = {
    "UHI JSON": _read_histogram,
    "UHI zip": _read_zipped_histogram,
    "NumPy arrays": _read_array,
    "Parquet": _read_parquet,
    "JSON": _read_record,
    "JSON table": _read_json_table,
    "awkward buffers": _read_buffers,
}
