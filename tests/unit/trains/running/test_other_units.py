"""A task that has finished its units takes those of other tasks, and the results stay the same."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.trains.running.test_units import EVENTS, FILES, request_of_parts, submitted, work

from branchline.jobs.batch.site_settings import Site
from branchline.jobs.batch.task_steps import JobArray, Submitted
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.interruption import Interruption
from branchline.trains.plan import TrainRequest
from branchline.trains.running.train_run import run_train
from branchline.trains.submitted.finish import finish
from branchline.trains.submitted.submission import JobsRecord, StepRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.tasks.other_units import FOUND_MAX, OtherUnits
from branchline.trains.submitted.unit_failures import bad_nodes, causes_of
from branchline.trains.submitted.units import has_result

__all__ = ["request_of_parts"]  # a fixture


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    made = BatchFolder(tmp_path / "out")
    made.out.mkdir()
    made.make()
    return made


def units(*indices: int) -> tuple[FoldNode, ...]:
    return tuple(FoldNode(0, index) for index in indices)


STEP = StepRecord("0.0", (units(0, 1), units(2, 3, 4), units(5, 6)))


def found(others: OtherUnits) -> list[int]:
    """The units that are offered, until there are none."""
    indices = []
    while (unit := others.next()) is not None:
        indices.append(unit.index)
    return indices


def test_units_are_taken_from_the_ends_of_the_lists_and_each_once(folder: BatchFolder) -> None:
    others = OtherUnits(folder, STEP, "a")
    indices = found(others)
    assert sorted(indices) == list(range(7))
    for first, second in ((0, 1), (2, 3), (3, 4), (5, 6)):
        assert indices.index(second) < indices.index(first)
    assert found(others) == []
    orders = {tuple(found(OtherUnits(folder, STEP, attempt))) for attempt in "abcdefgh"}
    assert len(orders) > 4, "idle tasks take the same units"


def test_units_with_a_result_a_task_or_a_failure_are_left_alone(folder: BatchFolder) -> None:
    folder.result(FoldNode(0, 3)).write_bytes(b"")
    folder.failed(FoldNode(0, 5)).write_bytes(b"")
    for index in (0, 4):
        folder.lease(FoldNode(0, index)).write_bytes(b"")
    others = OtherUnits(folder, STEP, "a")
    assert set(found(others)) == {1, 2, 6}
    # A unit that its task has given back is offered later.
    folder.lease(FoldNode(0, 4)).unlink()
    assert found(others) == [4]


def test_the_folder_is_not_listed_for_each_unit(folder: BatchFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    step = StepRecord("0.0", (units(*range(100)),))
    listings = []
    listed = os.listdir

    def counted(path: object) -> list[str]:
        listings.append(path)
        return listed(path)  # type: ignore[call-overload]

    monkeypatch.setattr("branchline.trains.submitted.tasks.other_units.os.listdir", counted)
    assert len(found(OtherUnits(folder, step, "a"))) == 100
    assert len(listings) == 100 / FOUND_MAX + 1


@pytest.mark.parametrize("unit_stage", [0, 1])
def test_an_idle_task_does_the_work_of_one_that_has_not_started(
    request_of_parts: TrainRequest, tmp_path: Path, unit_stage: int, capfd: pytest.CaptureFixture[str]
) -> None:
    here = run_train(request_of_parts, Interruption())
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, unit_stage)
    tasks = halves(submission, unit_stage)
    step = StepRecord("0.0", tasks)
    step.write(folder)
    work(folder, submission, 0, tasks[0], step)
    assert all(has_result(folder, one, submission.id) for one in submission.tree.nodes(unit_stage))
    assert "taken from another task" in capfd.readouterr().out
    assert work(folder, submission, 1, tasks[1], step) == []
    assert not list(folder.units.glob("*.lease"))
    there = finish(folder, submission)
    assert there.outputs == here.outputs
    assert there.outputs["total"]["events"] == FILES * EVENTS
    assert there.record.errors == []


def test_a_task_whose_units_fail_takes_none_of_others(request_of_parts: TrainRequest, tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, 0)
    tasks = halves(submission, 0)
    StepRecord("0.0", tasks).write(folder)
    for path in tmp_path.glob("f0.root"):
        path.unlink()
    with pytest.raises(AssertionError):
        work(folder, submission, 0, tasks[0], StepRecord("0.0", tasks))
    assert not any(has_result(folder, one, submission.id) for one in tasks[1])


def test_no_unit_is_taken_shortly_before_the_time_limit(
    request_of_parts: TrainRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, 0)
    tasks = halves(submission, 0)
    step = StepRecord("0.0", tasks)
    with monkeypatch.context() as patched:
        patched.setenv("SLURM_JOB_END_TIME", str(int(time.time())))
        work(folder, submission, 0, tasks[0], step)
    # HTCondor does not say when the task ends.
    work(folder, replace(submission, system="htcondor", site=Site(time="100")), 0, tasks[0], step)
    assert not any(has_result(folder, one, submission.id) for one in tasks[1])
    monkeypatch.setenv("SLURM_JOB_END_TIME", str(int(time.time() + 3600)))
    work(folder, submission, 0, tasks[0], step)
    assert all(has_result(folder, one, submission.id) for one in tasks[1])


def test_the_cause_is_that_of_the_task_that_took_the_unit(request_of_parts: TrainRequest, tmp_path: Path) -> None:
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, 0)
    unit = FoldNode(0, 1)
    step = StepRecord("0.0", (units(0), (unit,)))
    jobs = Submitted("slurm", (JobArray("1"),))
    JobsRecord(0, jobs, time.time(), (step,)).write(folder)
    (folder.accounts / "0.0.1.exit").write_text("0\n")
    (folder.accounts / "0.0.0.exit").write_text("137\n")
    folder.taken(unit).write_text("0.0.0")
    assert "signal 9" in causes_of(folder, submission, {unit: ""})[unit].message
    for wrong in ("1.0.0", "0.0.99", "0.0.x", "", "\n" * 500):
        folder.taken(unit).write_text(wrong)
        assert "without writing a result" in causes_of(folder, submission, {unit: ""})[unit].message


def halves(submission: Submission, unit_stage: int) -> tuple[tuple[FoldNode, ...], ...]:
    found: Sequence[FoldNode] = list(submission.tree.nodes(unit_stage))
    return tuple(found[: len(found) // 2]), tuple(found[len(found) // 2 :])


def test_a_task_that_found_no_work_says_nothing_about_its_node(folder: BatchFolder) -> None:
    for task, (node, code) in enumerate([("n1", 0), ("n2", 126), ("n2", 126), ("n2", 126), ("n2", 0)]):
        (folder.accounts / f"0.0.{task}.node").write_text(f"{node}\n")
        (folder.accounts / f"0.0.{task}.exit").write_text(f"{code}\n")
    assert bad_nodes(folder) == ()
    folder.idle("0.0.4").touch()
    assert bad_nodes(folder) == ("n2",)
