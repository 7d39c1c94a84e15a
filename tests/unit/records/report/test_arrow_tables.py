"""Small tables for Arrow are those that Arrow makes of the same lists, and nothing loads pandas for them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest

from branchline.records.result_files.job_files import table_of

SCHEMA = pyarrow.schema([("text", pyarrow.string()), ("number", pyarrow.float64()), ("count", pyarrow.int64())])


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 1000])
def test_the_table_is_the_one_that_arrow_makes(count: int) -> None:
    columns = {
        "text": [("", None, "\u00b5 \u2192 e", "px")[number % 4] for number in range(count)],
        "number": [(0.1, 2, None, float("inf"), -0.0)[number % 5] for number in range(count)],
        "count": [(1, None, 2**62, -7)[number % 4] for number in range(count)],
    }
    made = table_of(columns, SCHEMA)
    made.validate(full=True)
    assert made.equals(pyarrow.table(columns, schema=SCHEMA))


def test_names_in_no_encoding_are_escaped() -> None:
    made = table_of({"text": ["a\udcffb"], "number": [1.0], "count": [1]}, SCHEMA)
    made.validate(full=True)
    assert made.column("text").to_pylist() == ["a\\udcffb"]


def test_what_a_column_cannot_hold_is_refused() -> None:
    good = {"text": ["a"], "number": [1.0], "count": [1]}
    for wrong, error in (
        ({"number": ["a"]}, ValueError),
        ({"count": [2**63]}, OverflowError),
    ):
        with pytest.raises(error):
            table_of({**good, **wrong}, SCHEMA)
    with pytest.raises(KeyError):
        table_of({"day": []}, pyarrow.schema([("day", pyarrow.date32())]))


def test_sensors_are_written_without_pandas(tmp_path: Path) -> None:
    code = (
        "import sys\n"
        "from pathlib import Path\n"
        "from branchline.records.result_files.job_files import load_parquet, write_sensors\n"
        "from branchline.records.sensors.sensor_list import SensorRow\n"
        "load_parquet()\n"
        "write_sensors(Path(sys.argv[1]), [SensorRow('job', 'all', 'bytes_read', 7.0, 'B')])\n"
        "assert 'pyarrow' in sys.modules\n"
        "sys.exit('pandas' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert (tmp_path / "sensors.parquet").is_file()
