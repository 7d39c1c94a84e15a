"""Generates the JSON Schemas of job.json and of a train's status from their dataclasses.

``python -m branchline.records.sensors.schema`` writes the schema files.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from collections.abc import Hashable
from pathlib import Path
from typing import TypeAlias

from branchline.base.plain import DataclassInstance, field_types
from branchline.records.sensors.record import FAILED, FINISHED, PARTIAL, RUNNING, SCHEMA_VERSION, JobRecord
from branchline.records.sensors.status import DIED, STATUS_VERSION, STOPPED, TrainStatus

#: A JSON Schema, or a part of one.
JsonSchema: TypeAlias = dict[str, object]

SCHEMA_FILE = Path(__file__).with_name("job.schema.json")
STATUS_SCHEMA_FILE = Path(__file__).with_name("status.schema.json")
_SIMPLE: dict[object, str] = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def job_schema() -> JsonSchema:
    """Return the schema of job.json (draft 2020-12).

    The schema allows additional fields, because later versions may add fields.
    """
    definitions: JsonSchema = {}
    schema, properties = _of_dataclass(JobRecord, definitions)
    properties["schema_version"] = {"const": SCHEMA_VERSION}
    properties["status"] = {"enum": [RUNNING, FINISHED, PARTIAL, FAILED]}
    schema["required"] = ["schema_version", "branchline", "status", "host", "started"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "job.json",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }


def status_schema() -> JsonSchema:
    """Return the schema of the output of `branchline status --json`."""
    definitions: JsonSchema = {}
    schema, properties = _of_dataclass(TrainStatus, definitions)
    properties["status_version"] = {"const": STATUS_VERSION}
    properties["status"] = {"enum": [RUNNING, FINISHED, PARTIAL, FAILED, DIED, STOPPED]}
    properties["phase"] = {"enum": ["run", "merge", "write"]}
    schema["required"] = ["status_version", "status"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "status.json",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text(schema: JsonSchema) -> str:
    """Return the content of a schema file."""
    return json.dumps(schema, indent=1) + "\n"


def _of_dataclass(kind: type[DataclassInstance], definitions: JsonSchema) -> tuple[JsonSchema, JsonSchema]:
    """Return the schema of a dataclass, and its properties."""
    properties: JsonSchema = {name: _of(one, definitions) for name, one in field_types(kind).items()}
    # Fields without a default are required.
    required = [
        one.name
        for one in dataclasses.fields(kind)
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    ]
    described: JsonSchema = {
        "type": "object",
        "description": inspect.cleandoc(kind.__doc__ or ""),
        "properties": properties,
    }
    if required:
        described["required"] = required
    return described, properties


def _of(kind: Hashable, definitions: JsonSchema) -> JsonSchema:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is object:
        return {}
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if origin is list:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if origin is types.UnionType:
        return {"anyOf": [_of(one, definitions) for one in arguments]}
    if not isinstance(kind, type) or not dataclasses.is_dataclass(kind):
        raise TypeError(f"{kind} has no JSON schema")
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        definitions[kind.__name__], _ = _of_dataclass(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(job_schema()), encoding="utf-8")
    STATUS_SCHEMA_FILE.write_text(schema_text(status_schema()), encoding="utf-8")
