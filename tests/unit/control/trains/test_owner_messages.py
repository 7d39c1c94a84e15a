"""What a process that works as another user says is taken in its form, or refused."""

from __future__ import annotations

import pytest

from branchline.control.sandbox.owner_call import OwnerAnswer, StartRequest
from branchline.records.sensors.status import TrainStatus

RUNNING = OwnerAnswer(TrainStatus(status="running", events=7), "line\n", is_alive=True, can_resume=False)


@pytest.mark.parametrize("answer", [RUNNING, OwnerAnswer(), OwnerAnswer(error="no such folder")])
def test_an_answer_arrives_as_it_was_sent(answer: OwnerAnswer) -> None:
    assert OwnerAnswer.from_json(answer.as_json().encode()) == answer


def test_a_request_arrives_as_it_was_sent() -> None:
    request = StartRequest({"wagons.py": "class A: pass\n"}, ["branchline", "run", "-o", "out"])
    assert StartRequest.from_json(request.as_json()) == request


@pytest.mark.parametrize(
    ("content", "part"),
    [
        (b"", "it is not JSON"),
        (b"[]", "it is not a JSON object"),
        (b"\xff", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b'{"log": 1}', "log is 1, expected str"),
        (b'{"is_alive": "yes"}', "is_alive is 'yes', expected bool"),
        (b'{"status": []}', "its status cannot be read"),
        (b'{"status": {"status_version": 10000}}', "its status cannot be read: the status has version 10000"),
        (b'{"status": {"status_version": 1, "events": "many"}}', "its status cannot be read: events is 'many'"),
        (b'{"error": {"a": 1}}', "error is {'a': 1}, expected str"),
    ],
)
def test_an_answer_of_another_form_is_refused_with_what_cannot_be_read(content: bytes, part: str) -> None:
    with pytest.raises(ValueError, match=part):
        OwnerAnswer.from_json(content)
