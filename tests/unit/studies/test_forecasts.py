"""Forecasts beside the studies: what each is made of, and that all pages are those of the records."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from studies import forecasts, pages, records
from studies.forecasts import CASES, Case, JobCost, forecast
from studies.published import all_studies
from studies.yard.disks import HARD_DISK
from studies.yard.links import WideArea

ON_DISKS = Case("any", {}, (), HARD_DISK)


def test_jobs_that_compute_share_the_cores() -> None:
    cost = JobCost(cpu_s=1.0, bytes_=1e6, calls=100)
    one, many = (forecast(ON_DISKS, {"jobs": str(jobs), "disks": "4"}, cost, cores=2) for jobs in (1, 8))
    assert one.makespan_s == pytest.approx(1.0, rel=0.05)
    assert many.makespan_s == pytest.approx(4.0, rel=0.05)
    assert many.cpu_efficiency == pytest.approx(0.25, rel=0.05)


def test_jobs_that_read_share_their_disks() -> None:
    cost = JobCost(cpu_s=0.001, bytes_=70e6, calls=100)
    rates = [forecast(ON_DISKS, {"jobs": "4", "disks": str(disks)}, cost, cores=2).bytes_per_s for disks in (1, 2, 4)]
    assert rates == pytest.approx([70e6, 140e6, 280e6], rel=0.05)


def test_each_call_over_a_link_takes_a_round_trip() -> None:
    case = Case("any", {}, (), way=WideArea(50, 10))
    point = forecast(case, {}, JobCost(cpu_s=0.5, bytes_=20e6, calls=30), cores=2)
    assert point.makespan_s == pytest.approx(30 * 0.05 + 2.0 + 0.5, rel=0.02)


def test_a_case_without_a_place_is_refused() -> None:
    with pytest.raises(ValueError, match="neither a disk nor a link"):
        forecast(Case("any", {}, ()), {}, JobCost(1.0, 1.0, 1), cores=2)


def test_every_case_is_measured_from_one_job_and_stands_in_the_table() -> None:
    text = forecasts.page(all_studies(), records.RECORDS)
    for case in CASES:
        record = records.read(case.study)
        assert record is not None
        assert record.result is not None
        known = [one for one in record.result.arms if one.levels == case.known]
        assert [one.levels.get("jobs", "1") for one in known] == ["1"], case
    rows = [line for line in text.splitlines() if line.startswith("| [")]
    assert len(rows) == sum(len(case.of) for case in CASES)


def test_a_study_that_was_not_measured_has_no_forecast(tmp_path: Path) -> None:
    text = forecasts.page(all_studies(), tmp_path)
    assert text.count("not measured") == len(CASES)


def test_what_is_said_of_the_machine_is_of_its_record(tmp_path: Path) -> None:
    record = records.read(CASES[0].study)
    assert record is not None
    records.write(replace(record, machine=replace(record.machine, cores=64)), tmp_path)
    text = forecasts.page(all_studies(), tmp_path)
    assert "wait for our 64 cores" in text
    assert "two cores" not in text


def test_the_pages_are_those_of_the_records(tmp_path: Path) -> None:
    pages.write(tmp_path, records.RECORDS)
    written = {one.name: one.read_bytes() for one in tmp_path.iterdir()}
    kept = {one.name: one.read_bytes() for one in pages.FOLDER.iterdir()}
    different = sorted(name for name in written.keys() | kept.keys() if written.get(name) != kept.get(name))
    assert different == [], "python -m studies --pages-only writes them"
