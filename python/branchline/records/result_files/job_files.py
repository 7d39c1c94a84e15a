"""job.json and sensors.parquet: the record of a job, for programs.

Tables for Arrow are made of the bytes of their columns: Arrow asks pandas about each list that it is given, and loads
it for that, which takes 0.35 s of CPU for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from branchline.base.limits import JOB_FILE_MAX_BYTES
from branchline.base.whole_files import read_plain, whole_file, write_whole
from branchline.records.result_files.outputs import Part, take_apart
from branchline.records.sensors.record import JobRecord
from branchline.records.sensors.sensor_list import SensorRow

if TYPE_CHECKING:
    import pyarrow

#: Names in the directory of a job: the report, the folder of pictures, the record, and what sensors measured.
PAGE = "report.html"
PICTURES = "pictures"
JOB = "job.json"
SENSORS = "sensors.parquet"


def write_job(out_dir: Path, job: JobRecord) -> Path:
    """Write the job's record to ``job.json``. Raises StorageError."""
    path = out_dir / JOB
    write_whole(path, job_text(job.as_dict()).encode("utf-8", errors="backslashreplace"))
    return path


def job_text(job: Mapping[str, Any]) -> str:
    """Return the record as JSON with one line for each file, branch, wagon: short, and still to be read by people."""
    return "{\n" + ",\n".join(f"{_dumps(str(key))}: {_lines(value)}" for key, value in job.items()) + "\n}\n"


def _lines(value: Any) -> str:
    if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
        return "[\n " + ",\n ".join(_dumps(item) for item in value) + "\n]"
    return _dumps(value)


def _dumps(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        # NumPy numbers, paths and infinities are rare here; only they pay for the walk.
        return json.dumps(take_apart("job", value, _refuse, ()), ensure_ascii=False, allow_nan=False)


def _refuse(part: Part) -> Any:
    """Stand in for a part that has no place in a record."""
    return repr(part.value)


def read_status(out_dir: Path) -> str | None:
    """Return the status of the job in a directory; None if there is no record that can be read."""
    try:
        job = json.loads(read_plain(out_dir / JOB, JOB_FILE_MAX_BYTES))
    except (OSError, ValueError):
        return None
    status = job.get("status") if isinstance(job, dict) else None
    return status if isinstance(status, str) else None


def earlier_files(out_dir: Path) -> Iterator[Path]:
    """Yield the files that an earlier job left in ``out_dir``, by its own record; never a path outside of it."""
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
    """Write what the sensors measured to ``sensors.parquet``, one row for each (scope, name, sensor).

    Raises StorageError.
    """
    import pyarrow.parquet

    path = out_dir / SENSORS
    schema = _sensor_schema()
    columns = {field.name: [getattr(row, field.name) for row in rows] for field in schema}
    table = table_of(columns, schema)
    with whole_file(path) as temporary:
        pyarrow.parquet.write_table(table, temporary, compression="zstd")
    return path


def _sensor_schema() -> Any:
    import pyarrow

    texts, number = pyarrow.string(), pyarrow.float64()
    return pyarrow.schema([("scope", texts), ("name", texts), ("sensor", texts), ("value", number), ("unit", texts)])


def load_parquet() -> None:
    """Load what ``write_sensors`` needs, a tenth of a second the first time."""
    import pyarrow
    import pyarrow.parquet

    schema = _sensor_schema()
    empty = table_of({name: [] for name in schema.names}, schema)
    pyarrow.parquet.write_table(empty, pyarrow.BufferOutputStream(), compression="zstd")


def table_of(columns: Mapping[str, Sequence[Any]], schema: pyarrow.Schema) -> pyarrow.Table:
    """A table with these columns of texts, numbers of 64 bits, and None for those that miss.

    What UTF-8 cannot hold of a text, as in names of files in no encoding, is escaped as in job.json. Raises KeyError
    for a kind of column that is none of these.
    """
    import pyarrow

    return pyarrow.Table.from_arrays([_column(columns[one.name], one.type) for one in schema], schema=schema)


def _column(values: Sequence[Any], kind: pyarrow.DataType) -> pyarrow.Array:
    import numpy as np
    import pyarrow

    valid = np.array([one is not None for one in values], bool)
    there = pyarrow.py_buffer(np.packbits(valid, bitorder="little"))
    if kind == pyarrow.string():
        texts = [b"" if one is None else one.encode("utf-8", errors="backslashreplace") for one in values]
        ends = np.fromiter(accumulate(map(len, texts), initial=0), np.int32, len(texts) + 1)
        buffers = [there, pyarrow.py_buffer(ends), pyarrow.py_buffer(b"".join(texts))]
    else:
        dtype = {pyarrow.float64(): np.float64, pyarrow.int64(): np.int64}[kind]
        buffers = [there, pyarrow.py_buffer(np.array([0 if one is None else one for one in values], dtype))]
    return pyarrow.Array.from_buffers(kind, len(values), buffers)
