"""The reference of a job's record: what `job.json` and `sensors.parquet` hold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from docs.generate.tables import code, table

from branchline.records.sensors.schema import job_schema
from branchline.records.sensors.sensor_list import SENSORS

HEAD = """# The record of a job

Every job leaves `job.json`, its whole record, and `sensors.parquet`, the measurements of it as a table with the columns
`scope`, `name`, `sensor`, `value` and `unit`. Times are wall seconds unless a name says `cpu`; sizes are bytes.

The form of `job.json` has a version, the field `schema_version`, and a JSON Schema: `job.schema.json` in
`branchline.records.sensors`. A later version of Branchline may add fields. The number grows when a field changes its
meaning or goes.

"""
SENSORS_HEAD = """## Sensors

What is measured. A sensor exists for the job as a whole and for the units named under "measured for".

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
        return f"names with {_type(schema['additionalProperties'])}"
    return {"integer": "whole number", "number": "number", "string": "text", "boolean": "true or false"}.get(
        schema.get("type", ""), schema.get("type", "any value")
    )
