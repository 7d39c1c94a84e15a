"""The JSON Schemas of job.json and of a train's state, made from their dataclasses: ``python -m
branchline.records.sensors.schema``.
"""

from __future__ import annotations

import dataclasses
import inspect
import json
import types
import typing
from pathlib import Path
from typing import Any, TypeAlias

from branchline.base.plain import field_types
from branchline.records.sensors.record import FAILED, FINISHED, PARTIAL, RUNNING, SCHEMA_VERSION, JobRecord
from branchline.records.sensors.status import DIED, STATUS_VERSION, STOPPED, TrainStatus

#: What JSON Schema allows in one place depends on another: no type says it.
JsonSchema: TypeAlias = dict[str, Any]

SCHEMA_FILE = Path(__file__).with_name("job.schema.json")
STATUS_SCHEMA_FILE = Path(__file__).with_name("status.schema.json")
_SIMPLE = {str: "string", int: "integer", float: "number", bool: "boolean", types.NoneType: "null"}


def job_schema() -> JsonSchema:
    """The schema (draft 2020-12). It allows other fields, since a later Branchline may add some."""
    definitions: JsonSchema = {}
    schema = _of_dataclass(JobRecord, definitions)
    schema["properties"]["schema_version"] = {"const": SCHEMA_VERSION}
    schema["properties"]["status"] = {"enum": [RUNNING, FINISHED, PARTIAL, FAILED]}
    schema["required"] = ["schema_version", "branchline", "status", "host", "started"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "job.json",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }


def status_schema() -> JsonSchema:
    """The schema of what `branchline status --json` prints, alike."""
    definitions: JsonSchema = {}
    schema = _of_dataclass(TrainStatus, definitions)
    schema["properties"]["status_version"] = {"const": STATUS_VERSION}
    schema["properties"]["status"] = {"enum": [RUNNING, FINISHED, PARTIAL, FAILED, DIED, STOPPED]}
    schema["properties"]["phase"] = {"enum": ["run", "merge", "write"]}
    schema["required"] = ["status_version", "status"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "status.json",
        **schema,
        "$defs": dict(sorted(definitions.items())),
    }


def schema_text(schema: JsonSchema) -> str:
    """A schema as its file next to this one has it."""
    return json.dumps(schema, indent=1) + "\n"


def _of_dataclass(kind: Any, definitions: JsonSchema) -> JsonSchema:
    properties = {name: _of(one, definitions) for name, one in field_types(kind).items()}
    # Fields without a default are required.
    required = [
        one.name
        for one in dataclasses.fields(kind)
        if one.default is dataclasses.MISSING and one.default_factory is dataclasses.MISSING
    ]
    described = {"type": "object", "description": inspect.cleandoc(kind.__doc__ or ""), "properties": properties}
    return described | ({"required": required} if required else {})


def _of(kind: Any, definitions: JsonSchema) -> JsonSchema:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return {}
    if kind in _SIMPLE:
        return {"type": _SIMPLE[kind]}
    if origin is list:
        return {"type": "array", "items": _of(arguments[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1], definitions)}
    if origin is types.UnionType:
        return {"anyOf": [_of(one, definitions) for one in arguments]}
    if kind.__name__ not in definitions:
        definitions[kind.__name__] = {}
        definitions[kind.__name__] = _of_dataclass(kind, definitions)
    return {"$ref": f"#/$defs/{kind.__name__}"}


if __name__ == "__main__":
    SCHEMA_FILE.write_text(schema_text(job_schema()), encoding="utf-8")
    STATUS_SCHEMA_FILE.write_text(schema_text(status_schema()), encoding="utf-8")
