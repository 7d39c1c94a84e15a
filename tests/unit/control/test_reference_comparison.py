"""Jobs are compared with the reference job where both read in the same way, and nowhere else."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import awkward as ak
import pytest
from tests.unit.control.batches import identity, last
from tests.unit.control.web.server import Server
from tests.unit.lab.test_reference import SMALL, served

import branchline
from branchline.control.reference_comparison import beside_reference
from branchline.control.watched_storages import WATCHED, schedules
from branchline.lab.reference.frozen_file import write_frozen
from branchline.lab.studies.history import HistoryPoint, ReferencePoint, add_points
from branchline.records.sensors.record import AccessRecord, JobRecord, StorageRecord, WorkerPhases
from branchline.records.sensors.this_process import processor

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ELEMENT = "root://se.example.org"
JOB = JobRecord(
    started=NOW.isoformat(),
    worker_phases=[WorkerPhases(0, processor="EPYC"), WorkerPhases(1, processor="EPYC")],
    storage_elements=[StorageRecord(ELEMENT, 10, bytes_read=4_000_000_000, read_calls=1000, fetch_s=100.0)],
)


def total_met(events: ak.Array) -> float:
    return float(ak.sum(events.met))


def watched(room: Path, storage: str = f"{ELEMENT}//test", kind: str = "EPYC") -> None:
    """Three turns of the reference job, of which one does not count."""
    folder = room / WATCHED / "reference"
    folder.mkdir(parents=True)
    points = [
        HistoryPoint(
            (NOW - timedelta(days=day)).isoformat(),
            storage,
            2.0,
            samples=6,
            processor=kind,
            reference=ReferencePoint(1, 7_000_000, rate * 1e6, 4e6, 4.0, 2.0),
            is_busy=rate < 100,
        )
        for day, rate in ((4, 118), (3, 20), (2, 122))
    ]
    add_points(folder, points)


def test_a_job_is_compared_with_the_reference_at_its_storage_and_worker(tmp_path: Path) -> None:
    watched(tmp_path)
    assert beside_reference(JOB, schedules(tmp_path)) == [
        f"This job read 40.0 MB per second of reading time from {ELEMENT} with 2 workers; the reference job reads"
        " 120 MB/s there, alone, on the same type of processor (2 turns in the same week)"
    ]


def with_element(**changes: object) -> JobRecord:
    return replace(JOB, storage_elements=[replace(JOB.storage_elements[0], **changes)])  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "job",
    [
        replace(JOB, access=AccessRecord("plain")),
        replace(JOB, access=AccessRecord(throttle="latency=20ms")),
        replace(JOB, worker_phases=[WorkerPhases(0)]),
        replace(JOB, worker_phases=[*JOB.worker_phases, WorkerPhases(2, processor="Xeon")]),
        replace(JOB, worker_phases=[]),
        replace(JOB, started=(NOW + timedelta(days=8)).isoformat()),
        replace(JOB, started="some day"),
        with_element(name="root://other.example.org"),
        with_element(name="local files"),
        with_element(name=""),
        with_element(cached_bytes=1),
        with_element(read_calls=2500),
        with_element(read_calls=400),
        with_element(read_calls=0),
        with_element(fetch_s=0.5),
        with_element(bytes_read=50_000_000, read_calls=12),
    ],
)
def test_what_is_not_comparable_is_not_compared(tmp_path: Path, job: JobRecord) -> None:
    watched(tmp_path)
    assert beside_reference(job, schedules(tmp_path)) == []


@pytest.mark.parametrize(
    ("storage", "element", "is_there"),
    [
        ("/eos/test", "/eos", True),
        ("/eos2/test", "/eos", False),
        ("/eos/test", "local files", False),
        ("/eos/test", "", False),
        ("root://se.example.org//store/test", "root://se.example.org//store", True),
    ],
)
def test_a_listed_prefix_is_a_storage_element(tmp_path: Path, storage: str, element: str, is_there: bool) -> None:
    watched(tmp_path, storage)
    assert bool(beside_reference(with_element(name=element), schedules(tmp_path))) == is_there


def test_a_real_job_says_its_processor_and_storage(tmp_path: Path) -> None:
    write_frozen(tmp_path / "se", SMALL.events)
    with served(tmp_path / "se") as url:
        found = branchline.run(total_met, f"{url}/{SMALL.name}", tmp_path / "out", workers=0)
        watched(tmp_path, url, processor())
    assert found.record.events == SMALL.events
    record = found.record
    assert [one.processor for one in record.worker_phases] == [processor()]
    [element] = record.storage_elements
    assert element.name == url
    long = replace(element, bytes_read=4_000_000_000, read_calls=1000, fetch_s=100.0)
    job = replace(record, storage_elements=[long], started=NOW.isoformat())
    assert "the reference job reads 120 MB/s there" in beside_reference(job, schedules(tmp_path))[0]


def test_the_page_of_a_job_has_the_sentence(tmp_path: Path) -> None:
    watched(tmp_path / "room")
    with Server(tmp_path / "room") as server:
        job = identity()
        end = last(job, 0)
        assert end.record
        parts = {"worker_phases": JOB.worker_phases, "storage_elements": JOB.storage_elements, "started": JOB.started}
        server.report(replace(end, record=replace(end.record, **parts)))
        page = server.get(f"/jobs/{job.job}").text
    assert "This job read 40.0 MB per second of reading time from root://se.example.org" in page
