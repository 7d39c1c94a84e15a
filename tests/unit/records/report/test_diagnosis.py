"""The one sentence on what limits a job, case by case, from records with consistent numbers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.records.report.from_json import of_json

from branchline.records.diagnosis.diagnosis import diagnosis as diagnosis_of_record

diagnosis = of_json(diagnosis_of_record)

Maker = Callable[..., dict[str, Any]]

#: Records of real runs on a machine of two cores, shortened to what the sentence is drawn from.
RECORDS = Path(__file__).parent / "records"


def test_decompression_names_the_codec_and_the_few_branches_that_hold_most_of_it(job: dict[str, Any]) -> None:
    job["workers"] = 8
    assert diagnosis(job) == (
        "62 % of the time went into decompressing zlib: at 7.34 MB/s a core, and "
        "4 of 21 branches (particle_px, particle_py, particle_pz, particle_energy) hold 71 % of it."
    )


def test_a_wagon_that_waits_for_a_core_names_what_held_it_up(job_with: Maker) -> None:
    job = job_with(phases={"wagons": 0.9, "wait": 0.1}, cpu_s=24.8, machine_cpu_s=98.0, machine_cpu_count=8)
    job["wagons"] = job["wagons"][2:]
    job["wagons"][0].update(cpu_s=0.6 * job["wagons"][0]["seconds"], core_wait_s=0.4 * job["wagons"][0]["seconds"])
    assert diagnosis(job).endswith(
        "its CPU was busy 60 % of the time, and for 40 % it waited for a core, "
        "since other programs used 5.9 of the 8 cores."
    )


def test_shares_of_a_wagon_never_add_up_to_more_than_its_time(job_with: Maker) -> None:
    job = job_with(phases={"wagons": 0.9, "wait": 0.1}, cpu_s=24.8, machine_cpu_s=98.0, machine_cpu_count=8)
    job["wagons"] = job["wagons"][2:]
    seconds = job["wagons"][0]["seconds"]
    # The clocks are read one after the other, and records of older versions counted waits of other phases too.
    job["wagons"][0].update(cpu_s=0.22 * seconds, core_wait_s=0.82 * seconds)
    assert "its CPU was busy only 21 % of the time, and for 79 % it waited for a core" in diagnosis(job)
    job["wagons"][0].update(cpu_s=0.225 * seconds, core_wait_s=0.775 * seconds)
    assert "its CPU was busy only 22 % of the time, and for 78 % it waited for a core" in diagnosis(job)
    job["wagons"][0].update(cpu_s=0.355 * seconds, core_wait_s=0.355 * seconds)
    assert "its CPU was busy only 36 % of the time, and for 35 % it waited for a core" in diagnosis(job)


def test_zstd_is_named(job: dict[str, Any]) -> None:
    job["workers"] = 8
    for branch in job["branches"]:
        branch["codec"] = "zstd"
    assert diagnosis(job).startswith("62 % of the time went into decompressing zstd: at 7.34 MB/s a core, and 4 of")
    assert diagnosis(job).endswith("hold 71 % of it.")


def test_several_codecs_are_all_named(job: dict[str, Any]) -> None:
    for branch in job["branches"][:2]:
        branch["codec"] = "lzma"
    assert "decompressing zlib and LZMA:" in diagnosis(job)


def test_an_even_spread_over_branches_is_said(job: dict[str, Any]) -> None:
    for branch in job["branches"]:
        branch["decompress_s"] = 1.0
    assert "decompressing zlib: at 10.7 MB/s a core, and it is spread over 21 branches" in diagnosis(job)


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
        "980 read calls of 61.2 kB on average, 2.00 MB/s within a call, 99 % of the total reading time."
    )


def test_waiting_for_large_calls_says_how_fast_they_are(job_with: Maker) -> None:
    elements = [{"name": "/mnt/nfs", "files": 24, "bytes_read": 76_800_000, "read_calls": 48, "fetch_s": 30.0}]
    sentence = diagnosis(job_with(phases={"wait": 0.7, "wagons": 0.3}, storage_elements=elements, cpu_s=4.0))
    assert "from the file system at /mnt/nfs: 48 read calls of 1.60 MB on average, 2.56 MB/s within a call." in sentence


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
        "its CPU was busy only 10 % of the time, so it waits for something external: a file, a network, a lock."
    )
    job["wagons"][0]["cpu_s"] = 1.2
    assert "'correlations': its CPU was busy 63 % of the time" in diagnosis(job)


def test_too_little_data_for_so_many_workers(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"start": 0.61, "decompress": 0.39}, wall_s=1.6, workers=8))
    assert sentence == (
        "There is too little data to say what limits this job: its 60 000 events took 624 ms, "
        "and starting and writing results the other 61 % of 1.60 s."
    )


def test_starting_that_takes_long_is_told_by_itself(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"start": 0.61, "decompress": 0.39}, wall_s=60.0, workers=1))
    assert sentence.startswith("61 % of the time went into starting: imports and other steps that do not grow with")


def test_many_small_files(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"plan": 0.5, "decompress": 0.2, "wagons": 0.3}, files_count=1000))
    assert sentence == (
        "50 % of the time went into opening files and planning their reading: "
        "1 000 files of 4.20 MB on average, 25 ms each."
    )


def test_merging_names_the_wagon_with_the_large_output(job_with: Maker) -> None:
    job = job_with(phases={"merge": 0.6, "wagons": 0.4})
    job["wagons"][0]["output_bytes"] = 1_200_000_000
    assert diagnosis(job) == (
        "60 % of the time went into merging results: the wagon 'spectra' returns 1.20 GB in the end, "
        "added up over 24 chunks."
    )


def test_writing_counts_the_pictures(job_with: Maker) -> None:
    job = job_with(phases={"write": 0.6, "wagons": 0.4}, results=[{"picture": "pictures/a.svg"}] * 36)
    assert (
        diagnosis(job) == "60 % of the time went into writing results: 36 pictures of histograms, at most 207 ms each."
    )


def test_idle_workers_for_want_of_sub_jobs(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"idle": 0.6, "decompress": 0.4}, subjobs=3, workers=8))
    assert sentence == (
        "60 % of the time went into workers that had nothing to do: there were 3 sub-jobs for 8 workers."
    )


def test_idle_workers_for_want_of_balance(job_with: Maker) -> None:
    job = job_with(phases={"idle": 0.6, "decompress": 0.4})
    for index, row in enumerate(job["worker_phases"]):
        row["idle"] = job["wall_s"] * (0.0 if index == 0 else 0.8)
    assert "the busiest of 4 had work for 12.4 s, the least busy for 2.48 s." in diagnosis(job)


def test_time_between_the_steps_is_admitted(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"other": 0.5, "wagons": 0.3, "decompress": 0.2}))
    assert sentence == (
        "50 % of the time went into what Branchline does between these steps: 72 chunks were handed to wagons."
    )


def test_no_single_step(job_with: Maker) -> None:
    sentence = diagnosis(job_with(phases={"wagons": 0.36, "decompress": 0.34, "wait": 0.2, "start": 0.1}))
    assert sentence == (
        "No single step limits this job: 36 % of the time went into 3 wagons, 34 % into decompressing zlib "
        "and 20 % into waiting for data from local."
    )


def test_idle_workers_among_several_steps_are_counted_once(job_with: Maker) -> None:
    job = job_with(phases={"wagons": 0.37, "idle": 0.33, "decompress": 0.3})
    for index, row in enumerate(job["worker_phases"]):
        row["idle"] = job["wall_s"] * (0.0 if index == 0 else 0.44)
    sentence = diagnosis(job)
    assert "33 % into workers that had nothing to do and 30 % into decompressing zlib; the busiest of 4 had" in sentence
    assert sentence.count("33 %") == sentence.count("nothing to do") == 1


def test_too_short_to_say(job_with: Maker) -> None:
    assert diagnosis(job_with(wall_s=0.31)) == (
        "There is too little data to say what limits this job: its 60 000 events took 288 ms."
    )


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
        "All 3 wagons stopped with an error, 'jets' first, after 2 500 of 60 000 events, so the times are not "
        "meaningful: ValueError: no jets in jets."
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


REAL_RUNS = {
    "cpu_heavy_wagon": (
        "62 % of the time went into 3 wagons: 'correlations' takes 70 % of it, and it is limited by the CPU."
    ),
    "cpu_heavy_wagon_busy_machine": (
        "85 % of the time went into 2 wagons: 'Pairs' takes 100 % of it, and its CPU was busy only 48 % of "
        "the time, and for 52 % it waited for a core, since other programs used 1.5 of the 2 cores."
    ),
    "few_events": (
        "There is too little data to say what limits this job: its 125 events took 102 ms, and starting and "
        "writing results the other 92 % of 1.23 s."
    ),
    "large_output": (
        "45 % of the time went into merging results: the wagon 'Collects' returns 32.0 MB in the end, added "
        "up over 24 chunks."
    ),
    "lzma": ("77 % of the time went into decompressing LZMA: at 18.5 MB/s a core, and it is spread over 7 branches."),
    "many_tiny_files": (
        "51 % of the time went into the wagon 'Three': it is called for 400 chunks of only 50 events each, "
        "and each call takes 3.5 ms, mostly a fixed cost."
    ),
    "one_long_file": (
        "53 % of the time went into the wagon 'Uneven': its CPU was busy only 48 % of the time, and for 52 "
        "% it waited for a core, since other programs used 1.4 of the 2 cores; 26 % more went into workers "
        "that had nothing to do: the busiest of 2 had work for 9.35 s (7.06 s of it with "
        "'collisions-010.root' alone), the least busy for 4.21 s."
    ),
    "slow_storage_few_branches": (
        "78 % of the time went into waiting for data from the file system at /: 24 read calls of 2.96 MB on "
        "average, 8.74 MB/s within a call, 61 % of the bytes belong to branches that no wagon needs."
    ),
    "too_many_workers": (
        "There is too little data to say what limits this job: its 3 000 events took 705 ms, and starting "
        "and writing results the other 77 % of 3.11 s."
    ),
    "wagon_that_sleeps": (
        "87 % of the time went into the wagon 'Asks': its CPU was busy only < 0.1 % of the time, so it "
        "waits for something external: a file, a network, a lock."
    ),
}


@pytest.mark.parametrize("name", REAL_RUNS)
def test_a_real_run_names_its_cause_and_its_share(name: str) -> None:
    assert diagnosis(json.loads((RECORDS / f"{name}.json").read_text())) == REAL_RUNS[name]


def test_every_record_of_a_real_run_is_judged() -> None:
    assert {path.stem for path in RECORDS.iterdir()} == set(REAL_RUNS)
