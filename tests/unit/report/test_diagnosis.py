"""The one sentence on what limits a job, case by case, from records with consistent numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from branchline.report import diagnosis

Maker = Callable[..., dict[str, Any]]


def test_decompression_names_the_codec_and_the_few_branches_that_hold_most_of_it(job: dict[str, Any]) -> None:
    job["workers"] = 8
    assert diagnosis(job) == (
        "62 % of the time went into decompressing zlib: "
        "4 of 21 branches (particle_px, particle_py, particle_pz, particle_energy) hold 71 % of it; "
        "the same data in zstd or LZ4 decompress several times faster."
    )


def test_free_cores_are_the_advice_when_there_are_any(job: dict[str, Any]) -> None:
    assert diagnosis(job).endswith("hold 71 % of it; more workers would help, 3.7 of 8 cores were busy.")
    job["cpu_s"] = 7.5 * job["wall_s"]
    assert "more workers" not in diagnosis(job)


def test_nothing_is_advised_against_zstd(job: dict[str, Any]) -> None:
    job["workers"] = 8
    for branch in job["branches"]:
        branch["codec"] = "zstd"
    assert diagnosis(job).startswith("62 % of the time went into decompressing zstd: 4 of 21 branches")
    assert diagnosis(job).endswith("hold 71 % of it.")


def test_several_codecs_are_all_named(job: dict[str, Any]) -> None:
    for branch in job["branches"][:2]:
        branch["codec"] = "lzma"
    assert "decompressing zlib and LZMA:" in diagnosis(job)


def test_an_even_spread_over_branches_is_said(job: dict[str, Any]) -> None:
    for branch in job["branches"]:
        branch["decompress_s"] = 1.0
    assert "decompressing zlib: it is spread over 21 branches" in diagnosis(job)


def test_one_branch_that_holds_most_is_named(job: dict[str, Any]) -> None:
    job["branches"][3]["decompress_s"] = 200.0
    assert "the branch 'particle_energy' holds 89 % of it" in diagnosis(job)


def test_decoding(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"decode": 0.55, "wagons": 0.4, "other": 0.05}))
    assert sentence.startswith("55 % of the time went into decoding: 4 of 21 branches")


def test_waiting_names_the_slowest_storage_element_its_calls_and_their_speed(job_with: Maker) -> None:
    elements = [
        {"name": "root://eos.example", "files": 20, "bytes_read": 60_000_000, "read_calls": 980, "fetch_s": 30.0},
        {"name": "/data", "files": 4, "bytes_read": 16_800_000, "read_calls": 8, "fetch_s": 0.3},
    ]
    sentence = diagnosis(job_with(phases={"wait": 0.7, "wagons": 0.3}, storage_elements=elements))
    assert sentence == (
        "70 % of the time went into waiting for data from root://eos.example: "
        "980 read calls of 61.2 kB on average, 2.00 MB/s within a call, 99 % of all the reading time; "
        "larger baskets, larger files or a nearer copy would help."
    )


def test_waiting_for_large_calls_advises_more_of_them_at_once(job_with: Maker) -> None:
    elements = [{"name": "/mnt/nfs", "files": 24, "bytes_read": 76_800_000, "read_calls": 48, "fetch_s": 30.0}]
    sentence = diagnosis(job_with(phases={"wait": 0.7, "wagons": 0.3}, storage_elements=elements, cpu_s=4.0))
    assert "from the file system at /mnt/nfs: 48 read calls of 1.60 MB on average, 2.56 MB/s within a call;" in sentence
    assert sentence.endswith("a nearer copy, or more workers that wait at the same time, would help.")


def test_a_wagon_is_named_with_its_share_and_told_to_be_limited_by_the_cpu(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"wagons": 0.72, "decompress": 0.28}, workers=8))
    assert sentence == (
        "72 % of the time went into 3 wagons: 'correlations' takes 59 % of it, and it is limited by the CPU."
    )


def test_a_wagon_that_waits_is_told_from_one_that_computes(job_with: Maker) -> None:
    job = job_with(phases={"wagons": 0.72, "decompress": 0.28})
    job["wagons"] = job["wagons"][2:]
    job["wagons"][0]["cpu_s"] = 0.19
    assert diagnosis(job) == (
        "72 % of the time went into the wagon 'correlations': "
        "its CPU was busy only 10 % of the time, so it waits for a core or for something outside."
    )
    job["wagons"][0]["cpu_s"] = 1.2
    assert diagnosis(job).endswith("'correlations': its CPU was busy 63 % of the time.")


def test_too_little_data_for_so_many_workers(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"start": 0.61, "decompress": 0.39}, wall_s=1.6, workers=8))
    assert sentence == (
        "61 % of the time went into starting 8 workers: 60 000 events (76.8 MB read) are too little for so many; "
        "fewer would finish as soon."
    )


def test_starting_of_a_single_process(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"start": 0.61, "decompress": 0.39}, wall_s=1.6, workers=1))
    assert "went into starting: 60 000 events (76.8 MB read) are too little to be limited by" in sentence


def test_many_small_files(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"plan": 0.5, "decompress": 0.2, "wagons": 0.3}, files_count=1000))
    assert sentence == (
        "50 % of the time went into opening files and planning their reading: 1 000 files of 4.20 MB on average; "
        "fewer and larger files would help."
    )


def test_merging_names_the_wagon_with_the_large_output(job_with: Maker) -> None:
    job = job_with(phases={"merge": 0.6, "wagons": 0.4})
    job["wagons"][0]["output_bytes"] = 1_200_000_000
    assert diagnosis(job) == ("60 % of the time went into merging results: the wagon 'spectra' returns 1.20 GB.")


def test_writing_counts_the_pictures(job_with: Maker) -> None:
    job = job_with(phases={"write": 0.6, "wagons": 0.4}, results=[{"picture": "pictures/a.svg"}] * 36)
    assert diagnosis(job) == "60 % of the time went into writing results: 36 pictures of histograms."


def test_idle_workers_for_want_of_sub_jobs(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"idle": 0.6, "decompress": 0.4}, subjobs=3, workers=8))
    assert sentence == (
        "60 % of the time went into workers that had nothing to do: there were 3 sub-jobs for 8 workers; "
        "fewer workers would finish as soon."
    )


def test_idle_workers_for_want_of_balance(job_with: Maker) -> None:
    job = job_with(phases={"idle": 0.6, "decompress": 0.4})
    for index, row in enumerate(job["worker_phases"]):
        row["idle"] = job["wall_s"] * (0.0 if index == 0 else 0.8)
    assert "the busiest of 4 workers had work for 12.4 s, the least busy for 2.48 s" in diagnosis(job)


def test_time_that_no_phase_accounts_for_is_admitted(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"other": 0.5, "wagons": 0.3, "decompress": 0.2}))
    assert sentence == ("50 % of the time went into what no phase accounts for: what limits this job cannot be said.")


def test_no_single_step(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"wagons": 0.36, "decompress": 0.34, "wait": 0.2, "start": 0.1}))
    assert sentence == (
        "No single step limits this job: 36 % of the time went into 3 wagons, 34 % into decompressing zlib "
        "and 20 % into waiting for data from local."
    )


def test_too_short_to_say(job_with: Maker) -> None:
    assert diagnosis(job_with(wall_s=0.31)) == "This job took 310 ms, which is too short to say what limits it."


SKIPPED = {"path": "/data/a.root", "entries_lost": 10, "error": "the file ends after 12 bytes (copy it again)"}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dataset": []}, "Nothing was processed: the dataset has no files."),
        ({}, "Nothing was processed: the 24 files of the dataset hold no events."),
        ({"interrupted": True}, "Nothing was processed: the job was interrupted after 12.4 s."),
        (
            {"errors": [{"type": "MissingFileError", "message": "/a.root: there is no such file.", "path": "/a.root"}]},
            "Nothing was processed: /a.root: there is no such file.",
        ),
        (
            {"skipped": [SKIPPED] * 24},
            "All 24 files were skipped, so nothing was processed; "
            "the first because of: the file ends after 12 bytes (copy it again).",
        ),
        (
            {"skipped": [SKIPPED], "dataset": [{}]},
            "The only file was skipped, so nothing was processed; the file ends after 12 bytes (copy it again).",
        ),
    ],
)
def test_jobs_that_processed_nothing_say_why(job_with: Maker, changes: dict[str, Any], sentence: str) -> None:
    assert diagnosis(job_with(events=0, **changes)) == sentence


def test_when_every_wagon_stopped_the_first_error_counts_more_than_the_times(job: dict[str, Any]) -> None:
    for events, wagon in zip((5000, 2500, 7500), job["wagons"], strict=True):
        wagon["error"] = {"type": "ValueError", "message": f"no jets in {wagon['name']}"}
        wagon["events"] = events
    assert diagnosis(job) == (
        "All 3 wagons stopped with an error, 'jets' first, after 2 500 of 60 000 events, so the times say little: "
        "ValueError: no jets in jets."
    )


def test_names_and_messages_from_outside_stay_short_and_on_one_line(job: dict[str, Any]) -> None:
    job["branches"][0]["name"] = "x" * 5000
    job["branches"][0]["decompress_s"] = 1e6
    assert len(diagnosis(job)) < 300
    job.update(events=0, errors=[{"message": "line\n" * 1000}])
    assert "\n" not in diagnosis(job)
    assert len(diagnosis(job)) < 300


def test_a_record_with_little_in_it_is_still_answered() -> None:
    assert diagnosis({}) == "Nothing was processed: the dataset has no files."
    assert diagnosis({"events": 5, "wall_s": 2.0, "phases": {"wait": 2.0}}) == (
        "100 % of the time went into waiting for data."
    )
