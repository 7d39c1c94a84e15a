"""Advice for jobs from their records alone: real runs, and records with consistent numbers and one flaw."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.records.report.conftest import make_job

from branchline.records.diagnosis.advice import GAIN_MIN, PIECES_MAX, Advice, gain_between, inputs_words
from branchline.records.diagnosis.job_advice import advise_job, advise_jobs
from branchline.records.sensors.record import JobRecord

RECORDS = Path(__file__).parents[2] / "records" / "report" / "records"
Maker = Callable[..., list[Advice]]


def advise(plain: dict[str, Any]) -> list[Advice]:
    return advise_job(JobRecord.from_dict(plain))


def advised(phases: dict[str, float], **changes: Any) -> list[Advice]:
    """The advice for the usual job with other shares of its time."""
    return advise({**make_job(phases=phases), **changes})


#: The first advice for each real run; None where nothing would help.
FIRST = {
    "cpu_heavy_wagon": "pictures",
    "cpu_heavy_wagon_busy_machine": "train-split",
    "few_events": None,
    "large_output": "outputs",
    "lzma": "codec",
    "many_tiny_files": "merge",
    "one_long_file": "cores",
    "slow_storage_few_branches": "near-copy",
    "too_many_workers": "workers-fewer",
    "wagon_that_sleeps": "workers",
}


@pytest.mark.parametrize("name", FIRST)
def test_the_first_advice_for_a_real_run_is_what_was_wrong_with_it(name: str) -> None:
    found = advise(json.loads((RECORDS / f"{name}.json").read_text()))
    assert (found[0].id if found else None) == FIRST[name]
    assert len(found) <= PIECES_MAX
    assert all(one.gain.value >= GAIN_MIN and 0 < one.gain.low <= one.gain.value <= one.gain.high for one in found)
    assert [one.gain.value for one in found] == sorted((one.gain.value for one in found), reverse=True)


def test_a_slow_codec_is_named_with_its_command_and_its_cost() -> None:
    (first, *_) = advised({"decompress": 0.7, "wagons": 0.3}, workers=8)
    assert first.id == "codec"
    assert first.what == "decompressing zlib takes 70 % of the time, at 6.50 MB/s a core"
    assert "branchline recompress " in first.change
    assert first.change.endswith("-o zstd.root --codec zstd:5")
    assert "are rewritten, once" in first.cost


def test_a_job_with_zstd_and_all_cores_gets_no_advice() -> None:
    job = make_job(phases={"decompress": 0.3, "decode": 0.3, "wagons": 0.4})
    for branch in job["branches"]:
        branch["codec"] = "zstd"
    assert advise({**job, "workers": 8, "cpu_count": 8}) == []


def test_more_workers_help_only_where_cores_are_free() -> None:
    phases = {"wagons": 0.95, "decode": 0.05}
    (first, *_) = advised(phases, workers=4, cpu_count=8, machine_cpu_count=8)
    assert (first.id, first.change) == ("workers", "--workers 8")
    busy = advised(phases, workers=4, cpu_count=8, machine_cpu_count=8, machine_cpu_s=7.9 * 12.4)
    assert "workers" not in [one.id for one in busy]


def test_small_reads_of_a_plain_reader_are_to_be_planned() -> None:
    element = {"name": "root://eos.example", "files": 24, "bytes_read": 60_000_000, "read_calls": 9800, "fetch_s": 30.0}
    phases = {"wait": 0.8, "wagons": 0.2}
    (first, *_) = advised(phases, storage_elements=[element], access={"mode": "plain"}, workers=8)
    assert first.id == "access-planned"
    assert "9 800 read calls of 6.12 kB to root://eos.example, 3.1 ms each" in first.what


def test_a_client_buffer_that_reads_too_much_is_to_go() -> None:
    element = {"name": "root://eos.example", "files": 24, "bytes_read": 900_000_000, "read_calls": 200, "fetch_s": 90.0}
    access = {"mode": "plain", "read_ahead": 8_000_000}
    (first, *_) = advised({"wait": 0.9, "wagons": 0.1}, storage_elements=[element], access=access, workers=8)
    assert first.id == "access-read-ahead"


def test_a_slow_server_is_read_once_where_a_cache_keeps_it() -> None:
    element = {"name": "root://eos.example", "files": 24, "bytes_read": 76_800_000, "read_calls": 48, "fetch_s": 30.0}
    phases = {"wait": 0.8, "wagons": 0.2}
    ids = [one.id for one in advised(phases, storage_elements=[element], workers=8)]
    assert ids[0] == "near-cache"
    cached = advised(phases, storage_elements=[element], workers=8, access={"mode": "planned", "cache_dir": "/c"})
    assert "near-cache" not in [one.id for one in cached]


def test_files_elsewhere_are_to_come_from_a_near_replica() -> None:
    sites = [
        {
            "site": "GSI",
            "storage_element": "root://near",
            "nearness": "site",
            "files": 9,
            "bytes_read": 9e8,
            "fetch_s": 9,
        },
        {"site": "GSI", "storage_element": "root://far", "files": 9, "bytes_read": 9e8, "fetch_s": 90},
    ]
    found = advised({"wait": 0.8, "wagons": 0.2}, sites=sites, storage_elements=[], workers=8)
    assert found[0].id == "replicas"
    assert "root://far" in found[0].what


def test_wagons_over_the_same_files_are_to_be_one_train() -> None:
    jobs = [JobRecord.from_dict(make_job(phases={"wait": 0.5, "decompress": 0.4, "wagons": 0.1})) for _ in range(3)]
    for job in jobs:
        job.dataset = jobs[0].dataset
    (only,) = advise_jobs(jobs)
    assert only.id == "train-joined"
    assert only.gain.value == pytest.approx(0.6, abs=0.01)
    jobs[1].dataset = []
    assert advise_jobs(jobs) == []
    assert advise_jobs(jobs[:1]) == []


def test_jobs_that_did_nothing_get_no_advice() -> None:
    assert advise({}) == []
    assert advise({**make_job(), "events": 0}) == []


def test_a_gain_is_known_the_worse_the_larger_it_is() -> None:
    small, large = gain_between(10.0, 9.5, 0.15), gain_between(10.0, 2.0, 0.15)
    assert small.high - small.low < large.high - large.low
    assert small.low <= small.value <= small.high


def test_inputs_are_named_as_a_shell_takes_them() -> None:
    assert inputs_words(["/a b/c.root"]) == "'/a b/c.root'"
    assert inputs_words(["/a/1.root", "/a/2.root", "/b/1.root"]) == "/a/1.root /a/2.root /b/1.root"
    assert inputs_words([f"/{number}/f.root" for number in range(9)]) == "'/*/f.root'"


def test_branches_that_are_learned_while_others_wait_are_to_be_named() -> None:
    job = make_job(phases={"idle": 0.5, "decode": 0.2, "wagons": 0.3})
    job["files"][0]["wall_s"] = 6.0
    for number, row in enumerate(job["worker_phases"]):
        row["idle"] = 0.0 if number == 0 else 0.6 * job["wall_s"]
    (first, *_) = advise({**job, "misses": {}, "workers": 4, "cpu_count": 4})
    assert first.id == "branches"
    assert "--branches particle_px" in first.change


def test_a_file_that_one_worker_reads_alone_is_to_come_first() -> None:
    job = make_job(phases={"idle": 0.5, "decode": 0.2, "wagons": 0.3})
    job["files"][5]["wall_s"] = 9.0
    for number, row in enumerate(job["worker_phases"]):
        row["idle"] = 0.0 if number == 0 else 0.6 * job["wall_s"]
    (first, *_) = advise({**job, "workers": 4, "cpu_count": 4})
    assert first.id == "balance"
    assert "collisions_00005.root" in first.change


def test_one_heavy_wagon_is_to_have_a_train_of_its_own() -> None:
    job = make_job(phases={"wagons": 0.9, "decode": 0.1})
    job["wagons"][2]["seconds"] = 20.0
    (first, *_) = advise({**job, "workers": 4, "cpu_count": 4})
    assert first.id == "train-split"
    assert "'correlations' takes 94 % of the time of 3 wagons" in first.what


def test_arrays_that_are_returned_are_to_be_histograms_or_tables() -> None:
    job = make_job(phases={"merge": 0.6, "wagons": 0.4})
    job["wagons"][0]["output_bytes"] = 1_200_000_000
    (first, *_) = advise({**job, "workers": 4, "cpu_count": 4})
    assert first.id == "outputs"


def test_branches_that_nobody_reads_are_to_be_left_out_of_a_copy() -> None:
    element = {"name": "root://eos.example", "files": 24, "bytes_read": 400_000_000, "read_calls": 96, "fetch_s": 40.0}
    job = make_job(phases={"wait": 0.8, "wagons": 0.2})
    job["totals"] |= {"bytes_read": 400_000_000}
    access = {"mode": "planned", "cache_dir": "/cache"}
    (first, *_) = advise({**job, "storage_elements": [element], "access": access, "workers": 8})
    assert first.id == "slim"
    assert "--branches particle_px" in first.change or first.change.endswith("--branches NAMES")


def test_files_whose_results_are_reused_are_not_to_be_merged() -> None:
    job = json.loads((RECORDS / "many_tiny_files.json").read_text())
    assert "merge" in [one.id for one in advise(job)]
    for file in job["files"]:
        file |= {"subjobs": 0, "subjobs_reused": 1}
    assert "merge" not in [one.id for one in advise(job)]


def test_a_wagon_that_returns_a_histogram_is_not_told_to_return_one() -> None:
    job = json.loads((RECORDS / "large_output.json").read_text())
    (wagon,) = [one["name"] for one in job["wagons"]]
    changes = []
    for kind in ("array", "histogram"):
        job["results"] = [{"wagon": wagon, "kind": kind, "format": "ROOT"}]
        changes += [one.change for one in advise(job) if one.id == "outputs"]
    in_place_of_arrays, fewer_bins = changes
    assert in_place_of_arrays.startswith("return histograms in place of arrays")
    assert "arrays" not in fewer_bins
    assert "fewer bins" in fewer_bins


@pytest.mark.parametrize("name", ["many_tiny_files", "too_many_workers", "one_long_file"])
def test_a_job_that_lost_workers_says_nothing_of_the_next(name: str) -> None:
    job = json.loads((RECORDS / f"{name}.json").read_text())
    job["subjobs"] = 40
    assert advise(job)
    lost = {"worker": 1, "how": "was ended by SIGKILL", "subjobs": ["f.root"]}
    assert advise({**job, "workers_lost": [lost]}) == []
    # Few of many change little.
    assert advise({**job, "workers_lost": [lost], "subjobs": 4000})
