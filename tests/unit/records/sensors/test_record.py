"""The record of a job has a schema, which is written next to it and says what job.json holds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from tests.unit.trains.wagons.conftest import write_file

from branchline import run
from branchline.base.plain import from_plain, to_plain
from branchline.reading.access import Access
from branchline.records.sensors.record import SCHEMA_VERSION, AccessRecord, JobRecord, WagonFault, WagonRecord
from branchline.records.sensors.schema import SCHEMA_FILE, STATUS_SCHEMA_FILE, job_schema, schema_text, status_schema

OLD_RECORDS = sorted((Path(__file__).parents[1] / "report" / "records").glob("*.json"))


class Counts:
    def process(self, events: Any) -> int:
        return len(events)


def test_the_schemas_are_what_the_dataclasses_say() -> None:
    for path, schema in ((SCHEMA_FILE, job_schema()), (STATUS_SCHEMA_FILE, status_schema())):
        assert path.read_text(encoding="utf-8") == schema_text(schema), (
            "run: python -m branchline.records.sensors.schema"
        )
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("path", OLD_RECORDS, ids=lambda path: path.stem)
def test_a_record_of_0_1_0_without_a_version_is_read(path: Path) -> None:
    plain = json.loads(path.read_text())
    assert "schema_version" not in plain
    record = JobRecord.from_dict(plain)
    assert record.schema_version == SCHEMA_VERSION
    assert record.events == plain["events"]
    assert [one.name for one in record.wagons] == [one["name"] for one in plain["wagons"]]
    assert [one.path for one in record.files] == [one["path"] for one in plain["files"]]
    jsonschema.validate(record.as_dict(), job_schema())


def test_a_record_comes_back_as_it_was() -> None:
    record = JobRecord(branchline="1", status="partial", events=3, phases={"wait": 0.5})
    record.wagons = [WagonRecord("w", error=WagonFault("ValueError", "no", "f.root", 0, 10))]
    plain = json.loads(json.dumps(record.as_dict()))
    assert JobRecord.from_dict(plain) == record
    assert JobRecord.from_dict({**plain, "added_later": 1}) == record


def test_settings_of_reading_of_version_1_are_read() -> None:
    """It had only those that were not the usual ones."""
    plain = {"schema_version": 1, "access": {"mode": "prefetch", "gap": 4096, "local": "direct"}}
    record = JobRecord.from_dict(plain)
    assert record.access == AccessRecord("prefetch", gap=4096, local="direct")
    assert record.access.chosen() == [("local", "direct"), ("gap", 4096)]
    assert JobRecord.from_dict(json.loads(json.dumps(record.as_dict()))) == record


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({"schema_version": SCHEMA_VERSION + 1}, "supports versions up to"),
        ({"schema_version": "1"}, "version '1'"),
        ({"schema_version": 0}, "version 0"),
        ({"schema_version": True}, "version True"),
        ({"wagons": {"name": "w"}}, "expected list, got"),
        ({"wagons": [{"seconds": 1.0}]}, "WagonRecord"),
        ({"files": [7]}, "expected Mapping, got"),
    ],
)
def test_what_is_no_record_is_refused(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        JobRecord.from_dict(plain)


def test_job_json_is_as_its_schema_says(tmp_path: Path) -> None:
    write_file(tmp_path / "f.root", 1)
    result = run([Counts()], str(tmp_path / "f.root"), tmp_path / "out", workers=0)
    plain = json.loads((tmp_path / "out" / "job.json").read_text())
    jsonschema.validate(plain, job_schema())
    assert plain["schema_version"] == SCHEMA_VERSION
    assert plain["versions"].keys() >= {"python", "numpy", "awkward"}
    [wagon] = plain["wagons"]
    assert len(wagon["code_sha256"]) == 64
    assert JobRecord.from_dict(plain) == result.record


def test_a_record_from_before_local_files_were_read_by_threads_says_how_they_were_read() -> None:
    before = JobRecord.from_dict({"schema_version": 2, "access": {"mode": "prefetch", "gap": 4096}})
    assert before.access.access() == Access(mode="prefetch", gap=4096, local="advised")
    for access in (Access(), Access(local="advised"), Access(local="threads", gap=1)):
        assert from_plain(AccessRecord, to_plain(AccessRecord.of(access))).access() == access
    assert AccessRecord.of(Access()).chosen() == []
