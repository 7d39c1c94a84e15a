"""The tasks of a submitted train: what their workers get, and that all results are those of a run on this machine."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from branchline.jobs.batch.site_settings import Site
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.interruption import Interruption
from branchline.trains.out_folder.lock import claimed
from branchline.trains.plan import LoadedWagons, TrainRequest, TrainSettings
from branchline.trains.reuse.stored_train import Learning, StoredSources
from branchline.trains.running.result import TrainResult
from branchline.trains.running.train_run import run_train
from branchline.trains.subjobs.locality import MeasuresTold
from branchline.trains.subjobs.share_result import PackedWagons
from branchline.trains.subjobs.shares import ChunkSizes
from branchline.trains.submitted.finish import finish
from branchline.trains.submitted.submission import StepRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.tasks.leases import Holder, Leases
from branchline.trains.submitted.tasks.task_work import UnitWorker

WAGON = "def total(events):\n    return {'events': len(events), 'sum': int(events.x.to_numpy().sum())}\n"
FILES, EVENTS = 2, 3000


@pytest.fixture
def request_of_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TrainRequest:
    """A train over two files with two clusters each, which are cut into many more parts."""
    monkeypatch.setattr("branchline.trains.subjobs.shares.SUBJOB_MIN_BYTES", 500)
    for number in range(FILES):
        with uproot.recreate(tmp_path / f"f{number}.root") as file:
            tree = file.mktree("events", {"x": "int64"})
            for _ in range(2):
                tree.extend({"x": np.random.default_rng(number).integers(0, 1 << 40, EVENTS // 2)})
    (tmp_path / "wagon.py").write_text(WAGON, encoding="utf-8")
    settings = TrainSettings.of(workers=0, step_size=400, memory_limit="256 MiB")
    return TrainRequest(f"{tmp_path}/wagon.py:total", f"{tmp_path}/f*.root", settings)


def submitted(request: TrainRequest, folder: BatchFolder, unit_stage: int) -> Submission:
    """The train as tasks find it in its folder."""
    loaded = request.load()
    plan = request.plan(loaded)
    submission = Submission(
        id="a train",
        system="slurm",
        site=Site(),
        started="2026-01-01T00:00:00+00:00",
        submitted_s=time.time(),
        directory=os.getcwd(),
        command="",
        pictures="none",
        subjobs_count=len(plan.shares),
        plan=replace(plan, loaded=LoadedWagons((), ())),
        wagons=PackedWagons.of(loaded.wagons),
        sources=StoredSources.of(loaded.wagons, loaded.modules),
        learning=Learning(("x",), ChunkSizes(400), 0),
        unit_stage=unit_stage,
        merge_stages=(),
        tasks_max=2,
    )
    with claimed(folder.out, force=False) as claim:
        claim.begin("")
        folder.make()
        submission.write(folder)
    return submission


def work(folder: BatchFolder, submission: Submission, task: int, units: Sequence[FoldNode]) -> list[int]:
    """Works on units as a task does. Gives the sub-jobs that came back from workers."""
    name, came = f"0.0.{task}", []
    holder = Holder(name, f"attempt{task}", "here", os.getpid())
    clock = folder.accounts / f"{name}.{holder.attempt}"
    clock.write_text("here\n", encoding="utf-8")
    with closing(Leases(holder, clock)) as leases:
        worker = UnitWorker(folder, submission, leases, name, folder.logs / name, lambda _: None, MeasuresTold())
        take = worker._take

        def noting(message: Any, *rest: Any) -> None:
            if hasattr(message, "index"):
                came.append(message.index)
            take(message, *rest)

        worker._take = noting  # type: ignore[method-assign]
        worker.work(units, Interruption())
    assert not worker.failed
    return came


@pytest.mark.parametrize("unit_stage", [0, 1])
def test_parts_without_entries_need_no_worker_of_a_task(
    request_of_parts: TrainRequest, tmp_path: Path, unit_stage: int
) -> None:
    here: TrainResult = run_train(request_of_parts, Interruption())
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, unit_stage)
    units = list(submission.tree.nodes(unit_stage))
    tasks = [units[: len(units) // 2], units[len(units) // 2 :]]
    StepRecord("0.0", tuple(map(tuple, tasks))).write(folder)
    came = [index for task, nodes in enumerate(tasks) for index in work(folder, submission, task, nodes)]
    there = finish(folder, submission)
    parts = len(submission.plan.shares)
    # Those with entries, and the few that are drawn before a file is open.
    assert sum(one.subjobs for one in there.record.files) <= len(came) < parts / 2
    assert len(set(came)) == len(came)
    assert there.outputs == here.outputs
    assert there.outputs["total"]["events"] == FILES * EVENTS
    assert there.record.subjobs_done == there.record.subjobs == parts
    assert [(one.path, one.entries, one.events) for one in there.record.files] == [
        (one.path, one.entries, one.events) for one in here.record.files
    ]
    assert there.record.errors == []
