"""The report describes troubles of storage elements in sentences."""

from __future__ import annotations

from dataclasses import asdict

from tests.unit.records.report.from_json import of_json

from branchline.records.report.job_summary import summary as summary_of_record
from branchline.records.report.troubles import trouble_sentences as trouble_sentences_of_record
from branchline.records.sensors.record import TroubleRecord
from branchline.records.sensors.storage_counts import added_troubles

summary = of_json(summary_of_record)
trouble_sentences = of_json(trouble_sentences_of_record)


def test_what_several_workers_met_is_added_and_told_with_what_was_done() -> None:
    one = TroubleRecord("root://a:1094", retries=1, resets=2, lost_s=0.5)
    other = TroubleRecord("root://a:1094", timeouts=1, replicas_left=3, lost_s=60.0)
    third = TroubleRecord("https://b", wrong_answers=1, replicas_refused=1, lost_s=0.0)
    fourth = TroubleRecord("https://c", waits=2, waited_s=12.0)
    job = {"troubles": [asdict(trouble) for trouble in added_troubles([one, third, other, fourth])]}
    assert trouble_sentences(job) == [
        "At root://a:1094 1 request was not answered in time and 2 connections were refused or lost; 1 request was"
        " repeated and 3 files switched to another replica; 60.5 s lost by waiting.",
        "At https://b 1 answer was wrong; 1 replica was not used because it differs.",
        "At https://c nothing failed; 2 waits were requested by the server; 12.0 s lost by waiting.",
    ]
    assert trouble_sentences(job)[0] in summary({**job, "events": 0})


def test_a_job_without_trouble_says_nothing() -> None:
    assert trouble_sentences({}) == trouble_sentences({"troubles": []}) == []
