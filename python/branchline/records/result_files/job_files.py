"""Writes and reads job.json and sensors.parquet: a job's record for other programs.

Arrow tables are created from the bytes of their columns. If they were created from lists, Arrow would check for pandas
objects and import pandas for that, which takes 0.35 s of CPU time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING

from branchline.base.limits import JOB_FILE_MAX_BYTES
from branchline.base.whole_files import read_plain, whole_file, write_whole
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.sensor_list import SensorRow

if TYPE_CHECKING:
    import pyarrow

#: Names in the output directory: the report, the folder of pictures, the record and the sensor values.
PAGE = "report.html"
PICTURES = "pictures"
JOB = "job.json"
SENSORS = "sensors.parquet"


def write_job(out_dir: Path, job: JobRecord) -> Path:
    """Write the job's record to ``job.json``. Raises StorageError."""
    path = out_dir / JOB
    write_whole(path, job_text(job.as_dict()).encode("utf-8", errors="backslashreplace"))
    return path


def job_text(job: Mapping[str, object]) -> str:
    """Return the record as JSON with one line per file, branch and wagon, which is compact but readable."""
    lines = []
    for key, value in job.items():
        if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            text = "[\n " + ",\n ".join(map(_dumps, value)) + "\n]"
        else:
            text = _dumps(value)
        lines.append(f"{_dumps(str(key))}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def _dumps(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # Only if json fails: NumPy numbers, paths and infinities are rare, and converting them imports awkward.
        from branchline.records.result_files.outputs import take_apart

        # A part that a record cannot contain, such as an array, is replaced by its repr.
        plain = take_apart("job", value, lambda part: repr(part.value), ())
        return json.dumps(plain, ensure_ascii=False, allow_nan=False)


def read_status(out_dir: Path) -> str | None:
    """Return the status of the job whose output is in a directory; None without a readable record."""
    try:
        job = json.loads(read_plain(out_dir / JOB, JOB_FILE_MAX_BYTES))
    except (OSError, ValueError):
        return None
    status = job.get("status") if isinstance(job, dict) else None
    return status if isinstance(status, str) else None


def earlier_files(out_dir: Path) -> Iterator[Path]:
    """Yield the files that an earlier job wrote to ``out_dir`` according to its record.

    Paths outside of ``out_dir`` are ignored.
    """
    try:
        job = json.loads(read_plain(out_dir / JOB, JOB_FILE_MAX_BYTES))
    except (OSError, ValueError):
        return
    names = job.get("written") if isinstance(job, dict) else None
    top = out_dir.resolve()
    for name in names if isinstance(names, list) else []:
        path = (out_dir / str(name)).resolve()
        if path.is_relative_to(top) and path.is_file():
            yield path


# --- sensors, and other tables for Arrow ------------------------------------------------------------------------------


def write_sensors(out_dir: Path, rows: Sequence[SensorRow]) -> Path:
    """Write the sensor values to ``sensors.parquet``, one row per (scope, name, sensor).

    Raises StorageError.
    """
    import pyarrow.parquet

    path = out_dir / SENSORS
    schema = _sensor_schema()
    columns = {name: list(map(attrgetter(name), rows)) for name in schema.names}
    table = table_of(columns, schema)
    with whole_file(path) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd")
    return path


def _sensor_schema() -> pyarrow.Schema:
    import pyarrow

    texts, number = pyarrow.string(), pyarrow.float64()
    return pyarrow.schema([("scope", texts), ("name", texts), ("sensor", texts), ("value", number), ("unit", texts)])


def load_parquet() -> None:
    """Load the libraries for ``write_sensors`` in advance, which takes a tenth of a second."""
    import pyarrow
    import pyarrow.parquet

    schema = _sensor_schema()
    empty = table_of(dict.fromkeys(schema.names, ()), schema)
    pyarrow.parquet.write_table(empty, pyarrow.BufferOutputStream(), compression="zstd")


def table_of(columns: Mapping[str, Sequence[object]], schema: pyarrow.Schema) -> pyarrow.Table:
    """Return a table with columns of strings and 64-bit numbers; None is a missing value.

    Characters that UTF-8 cannot encode, as in file names with invalid bytes, are escaped as in job.json. Raises
    KeyError for other column types.
    """
    import pyarrow

    return pyarrow.Table.from_arrays([_column(columns[one.name], one.type) for one in schema], schema=schema)


def _column(values: Sequence[object], kind: pyarrow.DataType) -> pyarrow.Array:
    import numpy as np
    import pyarrow

    valid = np.array([one is not None for one in values], bool)
    there = pyarrow.py_buffer(np.packbits(valid, bitorder="little"))
    if kind == pyarrow.string():
        texts = [b"" if one is None else str(one).encode("utf-8", errors="backslashreplace") for one in values]
        ends = np.fromiter(accumulate(map(len, texts), initial=0), np.int32, len(texts) + 1)
        buffers = [there, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(texts))]
    else:
        dtype = {pyarrow.float64(): np.float64, pyarrow.int64(): np.int64}[kind]
        buffers = [there, pyarrow.py_buffer(np.array([0 if one is None else one for one in values], dtype))]
    return pyarrow.Array.from_buffers(kind, len(values), buffers)
