"""The states of tasks, from what squeue shows."""

from __future__ import annotations

import pytest

from branchline.jobs.batch.slurm import state_of
from branchline.jobs.batch.task_steps import JobArray, Submitted, TaskState


@pytest.mark.parametrize(
    ("state", "reason", "expected"),
    [
        ("RUNNING", "None", "running"),
        ("COMPLETING", "JobHeldUser", "running"),
        ("PENDING", "Resources", "queued"),
        ("PENDING", "QOSUsageThreshold", "queued"),
        ("PENDING", "JobHeldUser", "held"),
        ("PENDING", "JobHeldAdmin", "held"),
        ("PENDING", "JobHoldMaxRequeue", "held"),
        ("REQUEUE_HOLD", "launch failed requeued held", "held"),
        ("PENDING", "job requeued in held state", "held"),
    ],
)
def test_only_held_tasks_are_to_be_released(state: str, reason: str, expected: str) -> None:
    assert state_of(state, reason) == expected


def test_a_task_belongs_to_the_array_that_begins_before_it() -> None:
    submitted = Submitted("slurm", (JobArray("10", 0, 0), JobArray("11", 0, 1000), JobArray("12", 1, 0)))
    found = [submitted.array_of(TaskState(*one, "held")).id for one in ((0, 999), (0, 1000), (1, 5))]
    assert found == ["10", "11", "12"]
