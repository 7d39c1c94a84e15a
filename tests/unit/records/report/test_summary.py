"""What the terminal says about a job."""

from __future__ import annotations

from typing import Any

from tests.unit.records.report.from_json import of_json

from branchline.records.diagnosis.diagnosis import diagnosis as diagnosis_of_record
from branchline.records.report.job_summary import summary as summary_of_record

diagnosis = of_json(diagnosis_of_record)
summary = of_json(summary_of_record)


def test_a_job_in_two_lines(job: dict[str, Any]) -> None:
    assert summary(job) == [
        "finished: 60 000 events in 12.4 s, 4 839 events/s, 6.19 MB/s read from storage",
        diagnosis(job),
    ]


def test_events_that_are_missing_are_told(job: dict[str, Any]) -> None:
    job.update(status="partial", events=52_500)
    assert summary(job)[0].startswith("partial: 52 500 of 60 000 events in 12.4 s, ")


def test_a_job_without_events_has_no_second_line(job: dict[str, Any]) -> None:
    job.update(status="failed", events=0)
    assert summary(job) == ["failed: 0 of 60 000 events in 12.4 s, 0 events/s, 6.19 MB/s read from storage"]
    assert summary({}) == ["failed: 0 events in 0 s"]


def test_copies_on_this_machine_and_remarks_of_the_storage_are_told(job: dict[str, Any]) -> None:
    job["totals"] |= {"cached_bytes": 30_000_000, "bytes_read": 1_500_000}
    job["storage_remarks"] = [{"text": "not cached: no room", "files": 3}]
    assert summary(job)[2:4] == [
        "30.0 MB came from copies on this machine, 1.50 MB from storage.",
        "not cached: no room (3 files).",
    ]
