"""What a process that works as another user says is taken in its form, or refused."""

from __future__ import annotations

import json

import pytest

from branchline.control.trains.owner_messages import OwnerAnswer, StartRequest
from branchline.sensors import TrainStatus

RUNNING = OwnerAnswer(TrainStatus(status="running", events=7), "line\n", is_alive=True, can_resume=False)


@pytest.mark.parametrize("answer", [RUNNING, OwnerAnswer(), OwnerAnswer(error="no such folder")])
def test_an_answer_arrives_as_it_was_sent(answer: OwnerAnswer) -> None:
    assert OwnerAnswer.from_json(answer.as_json().encode()) == answer


def test_a_request_arrives_as_it_was_sent() -> None:
    request = StartRequest({"wagons.py": "class A: pass\n"}, ["branchline", "run", "-o", "out"])
    assert StartRequest.from_json(request.as_json()) == request


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"\xff",
        b"[" * 100_000,
        b'{"log": 1}',
        b'{"is_alive": "yes"}',
        b'{"status": []}',
        b'{"status": {"status_version": 10000}}',
        json.dumps({"status": {"status_version": 1, "events": "many"}}).encode(),
        b'{"error": {"a": 1}}',
    ],
)
def test_an_answer_of_another_form_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError):
        OwnerAnswer.from_json(content)
