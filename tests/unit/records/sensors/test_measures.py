"""What a job makes of an answer of a control room, whatever is in it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from branchline.base.limits import MEASURE_SECONDS_MAX, MEASURE_TEXT_MAX, MEASURES_IN_FORCE_MAX
from branchline.records.sensors.job_measures import (
    AVOID,
    MEASURES_VERSION,
    STAGE,
    JobMeasure,
    JobMeasures,
    MeasureRecord,
    added_measures,
    measures_in,
)

JOB = "a" * 32
GOOD = JobMeasure(3, AVOID, "root://bad.example", "example", 60.0)


def answer(*in_force: Any, version: Any = MEASURES_VERSION, job: Any = JOB) -> bytes:
    given = {"job": job, "measures_version": version, "in_force": list(in_force)}
    return json.dumps({"taken": True, "measures": given}).encode()


def plain(**changed: Any) -> dict[str, Any]:
    return {**vars(GOOD), **changed}


def test_measures_come_as_they_were_sent() -> None:
    told = JobMeasures(JOB, in_force=[GOOD])
    assert measures_in(json.dumps({"taken": True, "measures": told.as_dict()}).encode(), JOB) == told


def test_an_answer_without_measures_says_that_none_are_in_force() -> None:
    assert measures_in(b'{"taken": true}', JOB) == JobMeasures(JOB)


@pytest.mark.parametrize(
    "given",
    [
        plain(kind="a-kind-of-later"),
        plain(kind=[AVOID]),
        plain(number=0),
        plain(number="1"),
        plain(number=True),
        plain(storage_element=""),
        plain(storage_element="x" * (MEASURE_TEXT_MAX + 1)),
        plain(storage_element="a\x1b[31m"),
        plain(site=None, storage_element=7),
        plain(seconds_left=-1),
        plain(seconds_left=MEASURE_SECONDS_MAX + 1),
        plain(seconds_left=float("nan")),
        plain(seconds_left=float("inf")),
        {},
        [],
        None,
        "avoid-element",
    ],
)
def test_what_is_not_understood_is_ignored_and_counted(given: Any) -> None:
    assert measures_in(answer(given, plain()), JOB) == JobMeasures(JOB, in_force=[GOOD], ignored=1)


def test_fields_of_later_do_not_matter() -> None:
    assert measures_in(answer(plain(colour="red")), JOB) == JobMeasures(JOB, in_force=[GOOD])


@pytest.mark.parametrize("version", [MEASURES_VERSION + 1, 0, "1", None, True, 1e300])
def test_a_later_version_is_ignored_and_counted(version: Any) -> None:
    told = measures_in(answer(plain(), plain(number=4), version=version), JOB)
    assert told == JobMeasures(JOB, ignored=2)


def test_more_than_may_be_in_force_are_ignored_and_counted() -> None:
    told = measures_in(answer(*(plain(number=number) for number in range(1, 1001))), JOB)
    assert told is not None
    assert (len(told.in_force), told.ignored) == (MEASURES_IN_FORCE_MAX, 1000 - MEASURES_IN_FORCE_MAX)


@pytest.mark.parametrize(
    "given",
    [
        b"",
        b"[]",
        b"7",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"taken": true, "measures": ' + b"9" * 10_000 + b"}",
        b'{"taken": true, "measures": []}',
        b'{"taken": true, "measures": {"job": "other", "in_force": []}}',
        answer(plain(), job=None),
        answer(plain(), job="b" * 32),
        json.dumps({"measures": {"job": JOB, "in_force": {"0": 1}, "measures_version": 1}}).encode(),
    ],
    ids=range(11),
)
def test_what_is_for_another_job_or_no_answer_changes_nothing(given: bytes) -> None:
    assert measures_in(given, JOB) is None


def test_a_measure_means_an_element_or_replicas_below_a_place() -> None:
    element = JobMeasure(1, AVOID, "root://se.a")
    assert element.concerns("root://se.a", "root://se.a//f")
    assert element.concerns("", "root://se.a//f")
    assert not element.concerns("root://se.a:1094", "root://se.a:1094//f")
    replica = JobMeasure(1, STAGE, "/data/new/")
    assert replica.concerns("/data (ext4)", "/data/new/f.root")
    assert not replica.concerns("/data (ext4)", "/data/newer/f.root")


def test_records_of_a_measure_add_up() -> None:
    parts = [
        MeasureRecord(2, files=3, first="2026-01-01T10", last="2026-01-01T11"),
        MeasureRecord(1, files=1),
        MeasureRecord(2, without_other=1, first="2026-01-01T09", last="2026-01-01T09"),
    ]
    first, second = added_measures(parts)
    assert first == MeasureRecord(1, files=1)
    assert second == MeasureRecord(2, files=3, without_other=1, first="2026-01-01T09", last="2026-01-01T11")
    assert parts[0].without_other == 0
