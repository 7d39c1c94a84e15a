"""Reports as bytes: what servers read, and within what they take."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import numpy as np

from branchline.base.limits import BATCH_FILES_MAX, REPORT_PLAIN_MAX_BYTES, REQUEST_MAX_BYTES
from branchline.base.plain import check_types
from branchline.records.sending.message import JobIdentity, ReportBatch, encoded, is_taken, split
from branchline.records.sensors.record import FileRecord, JobRecord, SiteReading
from branchline.records.sensors.record_parts import DatasetFile
from branchline.records.sensors.status import ElementStatus, TrainStatus


def plain(body: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(gzip.decompress(body))
    return found


def test_a_report_is_what_the_batch_says_of_itself(identity: JobIdentity) -> None:
    status = TrainStatus(events=3, elements=[ElementStatus("root://a", 1, 2)], causes={"x": 1})
    files = [FileRecord("a.root", remarks=["b"], bytes_read=7)]
    batch = ReportBatch(identity, "job", 4, "2026-01-01", status, files, [SiteReading("A", "b")], JobRecord())
    assert plain(encoded(batch)) == batch.as_dict()
    assert ReportBatch.from_dict(plain(encoded(batch))) == batch


def test_numbers_of_numpy_and_names_that_are_no_text_are_read_by_servers(identity: JobIdentity) -> None:
    files = [FileRecord("a\udcff.root", events=np.int64(3), wall_s=np.float32(0.5))]
    found = ReportBatch.from_dict(plain(encoded(ReportBatch(identity, files=files))))
    check_types(found)
    assert found.files == [FileRecord("a?.root", events=3, wall_s=0.5)]


def test_many_readings_come_in_several_reports_with_the_record_in_the_last(identity: JobIdentity) -> None:
    files = [FileRecord(f"{number}.root") for number in range(2 * BATCH_FILES_MAX + 1)]
    batch = ReportBatch(identity, number=7, files=files, sites=[SiteReading("A", "b")], record=JobRecord())
    parts = [one for one, _ in split(batch)]
    assert [one.number for one in parts] == [7, 8, 9]
    assert [path for one in parts for path in one.files] == files
    assert [len(one.sites) for one in parts] == [1, 0, 0]
    assert [one.record is not None for one in parts] == [False, False, True]
    assert all(ReportBatch.from_dict(plain(body)) == part for part, body in split(batch))


def test_a_report_that_is_too_large_is_halved_until_servers_take_it(identity: JobIdentity) -> None:
    path = "a" * (REPORT_PLAIN_MAX_BYTES // 12)
    files = [FileRecord(f"{path}{number}") for number in range(20)]
    parts = list(split(ReportBatch(identity, files=files, sites=[SiteReading("A", "b", files=20)], record=JobRecord())))
    assert len(parts) == 2
    assert all(is_taken(body) and len(body) <= REQUEST_MAX_BYTES for _, body in parts)
    assert [one.path[-2:] for part, _ in parts for one in part.files] == [one.path[-2:] for one in files]
    assert sum(one.files for part, _ in parts for one in part.sites) == 20
    assert [part.record is not None for part, _ in parts] == [False, True]


def test_a_record_that_is_too_large_goes_without_its_longest_list_and_says_so(identity: JobIdentity) -> None:
    path = "a" * 100_000
    record = JobRecord(dataset=[DatasetFile(f"{path}{number}") for number in range(800)], command="branchline run")
    [(part, body)] = split(ReportBatch(identity, record=record))
    assert part.record == replace(record, dataset=[], reuse_notes=part.record.reuse_notes)
    assert "the list dataset" in part.record.reuse_notes[0]
    assert is_taken(body)
    assert len(record.dataset) == 800
