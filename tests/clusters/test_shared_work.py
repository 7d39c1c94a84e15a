"""Idle tasks of a train on a real Slurm take work of other tasks."""

from __future__ import annotations

from typing import Any

import pytest
from tests.clusters.farm import Train, files_of
from tests.clusters.slurm_trains import (
    FILES,
    TIMEOUT_S,
    log_of,
    original,
    own_python,
    submit,
    train,
)

from branchline.trains.submitted.submission_folder import BatchFolder

__all__ = ["original", "submit", "train"]  # fixtures


def test_idle_tasks_do_the_work_of_a_slow_node(
    submit: Any, train: Train, original: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The others have done all the work when this node begins, also on a busy machine.
    own_python(train, monkeypatch, '[ "$SLURMD_NODENAME" = n2 ] && sleep 40')
    submitted = submit("--tasks", FILES)
    status = submitted.wait(TIMEOUT_S)
    assert (status.done, status.failed, status.ended) == (FILES, 0, "finished"), status
    assert files_of(submitted.out) == files_of(original.folder / "local")
    folder = BatchFolder(submitted.out)
    nodes = {one.name.removesuffix(".node"): one.read_text().strip() for one in folder.accounts.glob("0.0.*.node")}
    slow = [task for task, node in nodes.items() if node == "n2"]
    assert slow
    assert all("already done" in log_of(submitted, task) for task in slow)
    assert any("taken from another task" in log_of(submitted, task) for task in nodes.keys() - slow)
