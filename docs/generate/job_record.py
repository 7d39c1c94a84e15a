"""Generates the reference of a job's record: the fields of `job.json` and the sensors in `sensors.parquet`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generate.tables import code, table

from branchline.records.sensors.schema import job_schema
from branchline.records.sensors.sensor_list import SENSORS

HEAD = """# The record of a job

Every job writes its complete record to `job.json`, and its measurements to `sensors.parquet`, a table with the columns
`scope`, `name`, `sensor`, `value` and `unit`. Times are wall-clock seconds, or CPU seconds if the name contains `cpu`.
Sizes are bytes.

The JSON Schema of `job.json` is `job.schema.json` in `branchline.records.sensors`. A later version of Branchline may
add fields. The field `schema_version` increases if a field is removed or its meaning changes.

"""
SENSORS_HEAD = """## Sensors

The quantities that a job measures. "Measured for" lists the units that have a value of the sensor.

"""


def page() -> str:
    return HEAD + "\n".join(_records(job_schema())) + "\n" + _sensors()


def _sensors() -> str:
    rows = [[code(one.name), one.unit, ", ".join(one.scopes).replace("_", " "), one.description] for one in SENSORS]
    return SENSORS_HEAD + table(["sensor", "unit", "measured for", "meaning"], rows)


def _records(schema: Mapping[str, Any]) -> Iterator[str]:
    yield _record("job.json", schema)
    for name, one in schema["$defs"].items():
        yield _record(name, one)


def _record(name: str, schema: Mapping[str, Any]) -> str:
    rows = [[code(field), _type(one)] for field, one in schema["properties"].items()]
    described = schema.get("description", "").replace("``", "`")
    return f"## {name}\n\n{described}\n\n{table(['field', 'value'], rows)}"


def _type(schema: Mapping[str, Any]) -> str:
    if "const" in schema:
        return code(str(schema["const"]))
    if "enum" in schema:
        return ", ".join(code(str(one)) for one in schema["enum"])
    if "anyOf" in schema:
        return " or ".join(_type(one) for one in schema["anyOf"])
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("type") == "object":
        return f"mapping of names to {_type(schema['additionalProperties'])}"
    return {"integer": "integer", "number": "number", "string": "string", "boolean": "boolean"}.get(
        schema.get("type", ""), schema.get("type", "any value")
    )
