"""Everything that wagons returned, in formats that need neither Branchline nor ROOT to read.

``results/<wagon>.json`` holds the wagon's numbers, texts, lists and dicts as they were. Where a part has a file of its
own, ``{"file": "results/..."}`` stands in its place: histograms as UHI JSON, NumPy arrays as ``.npz``, awkward arrays
and data frames as Parquet. ``hist.Hist(json.load(file, object_hook=uhi.io.json.object_hook))`` reads a histogram
back, ``branchline.load`` everything.
"""

from __future__ import annotations

import json
import math
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import awkward
import numpy

from branchline.base.extras import left_out
from branchline.base.whole_files import whole_file, write_whole
from branchline.records.result_files.outputs import ARRAY, COLUMNS, HISTOGRAM, TABLE, Part

#: Above this many cells a histogram is stored as zipped .npy; JSON would be ten times as large and slow.
JSON_CELLS_MAX = 1_000_000

RESULTS = "results"


class Written(NamedTuple):
    """Where a part went: files relative to the output directory, the format's name, a note for the reader."""

    files: list[str]
    format: str
    note: str | None = None


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


#: What awkward, pandas and pyarrow raise for columns that Parquet has no type for.
_NOT_PARQUET = (TypeError, ValueError, NotImplementedError, AssertionError)
AWKWARD_JSON: Any = {
    "nan_string": "nan",
    "posinf_string": "inf",
    "neginf_string": "-inf",
    "complex_record_fields": ("real", "imag"),
}


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
