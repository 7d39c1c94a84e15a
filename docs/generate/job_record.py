"""The reference of a job's record: what `job.json` and `sensors.parquet` hold."""

from __future__ import annotations

from docs.generate.tables import code, table

from branchline.sensors import SENSORS

HEAD = """# The record of a job

Every job leaves `job.json`, its whole record, and `sensors.parquet`, the measurements of it as a table with the columns
`scope`, `name`, `sensor`, `value` and `unit`.

"""
SENSORS_HEAD = """## Sensors

What is measured. A sensor exists for the job as a whole and for the things named under "measured for".

"""


def page() -> str:
    rows = [[code(one.name), one.unit, ", ".join(one.scopes).replace("_", " "), one.description] for one in SENSORS]
    return HEAD + SENSORS_HEAD + table(["sensor", "unit", "measured for", "meaning"], rows)
