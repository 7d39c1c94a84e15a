"""The tasks of a submitted train: what their workers get, and that all results are those of a run on this machine."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import uproot

from branchline.base.exit_codes import EXIT_ERROR, EXIT_OK
from branchline.jobs.batch.site_settings import Site
from branchline.jobs.fold_tree import FoldNode
from branchline.jobs.interruption import Interruption
from branchline.jobs.package_versions import version_text
from branchline.trains.out_folder.claim import claimed
from branchline.trains.plan import LoadedWagons, TrainRequest
from branchline.trains.reuse.stored_train import Learning, StoredSources
from branchline.trains.run_options import RunOptions
from branchline.trains.running.result import TrainResult
from branchline.trains.running.train_run import run_train
from branchline.trains.subjobs.locality import MeasuresTold
from branchline.trains.subjobs.share_result import PackedWagons
from branchline.trains.subjobs.shares import ChunkSizes
from branchline.trains.subjobs.used_inputs import PlannedCode
from branchline.trains.submitted.finish import finish
from branchline.trains.submitted.submission import StepRecord, Submission
from branchline.trains.submitted.submission_folder import BatchFolder
from branchline.trains.submitted.tasks.leases import Holder, Leases
from branchline.trains.submitted.tasks.other_units import OtherUnits
from branchline.trains.submitted.tasks.task import main
from branchline.trains.submitted.tasks.task_work import UnitWorker
from branchline.trains.submitted.units import has_result

WAGON = "def total(events):\n    return {'events': len(events), 'sum': int(events.x.to_numpy().sum())}\n"
FILES, EVENTS = 2, 3000
#: Maximum size of a file that a task can write, enough for its lease and for the memory that it shares with workers.
FULL_BYTES = 4096


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
    settings = RunOptions(workers=0, step_size=400, memory_limit="256 MiB")
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


def work(
    folder: BatchFolder, submission: Submission, task: int, units: Sequence[FoldNode], step: StepRecord | None = None
) -> list[int]:
    """Works on units as a task does, and with ``step`` on units of its other tasks. Gives the sub-jobs that came back
    from workers.
    """
    name, came = f"0.0.{task}", []
    holder = Holder(name, f"attempt{task}", "here", os.getpid())
    clock = folder.accounts / f"{name}.{holder.attempt}"
    clock.write_text("here\n", encoding="utf-8")
    with closing(Leases(holder, clock)) as leases:
        others = None if step is None else OtherUnits(folder, step, holder.attempt)
        log = folder.logs / name
        worker = UnitWorker(folder, submission, leases, name, log, lambda _: None, MeasuresTold(), others)
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


def test_the_record_has_the_code_and_the_parameters_of_wagons_and_the_options(
    request_of_parts: TrainRequest, tmp_path: Path
) -> None:
    with (tmp_path / "wagon.py").open("a", encoding="utf-8") as file:
        file.write("\n\ndef above(events, least: int = 5):\n    return int((events.x > least).to_numpy().sum())\n")
    request = replace(request_of_parts, wagons=f"{tmp_path}/wagon.py:above")
    here = run_train(request, Interruption()).record
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request, folder, unit_stage=0)
    work(folder, submission, 0, list(submission.tree.nodes(0)))
    there = finish(folder, submission).record
    assert [one.value for one in there.wagons[0].parameters] == [5]
    assert there.wagons[0].parameters == here.wagons[0].parameters
    assert there.wagons[0].code_sha256 == here.wagons[0].code_sha256 is not None
    assert there.options == here.options


def test_a_task_with_other_packages_than_planned_folds_nothing(
    request_of_parts: TrainRequest, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, unit_stage=0)
    units, node = list(submission.tree.nodes(0)), FoldNode(1, 0)
    work(folder, submission, 0, units)
    StepRecord("0.1", ((node,),)).write(folder)
    StepRecord("0.2", ((),)).write(folder)

    def planned_with(numpy: str) -> Submission:
        changed = replace(submission, code=PlannedCode({"numpy": numpy}))
        changed.write(folder)
        return changed

    other = planned_with("0.1")
    assert main([str(folder.out), "0.1", "0"]) == EXIT_ERROR
    assert f"numpy {version_text('numpy')} (planned: 0.1)" in capfd.readouterr().out
    assert not has_result(folder, node, submission.id)

    # The last task writes no sums either, says why, and leaves the results of sub-jobs where they are.
    refused = finish(folder, other)
    [error] = refused.record.errors
    assert error.type == "OtherVersionsError"
    assert dict(refused.outputs) == {"total": None}
    assert all(has_result(folder, one, submission.id) for one in units)

    right = planned_with(version_text("numpy"))
    assert main([str(folder.out), "0.1", "0"]) == EXIT_OK
    assert has_result(folder, node, submission.id)
    result = finish(folder, right)
    assert result.record.errors == []
    assert result.outputs["total"]["events"] == FILES * EVENTS


HARMFUL = """

import os
from pathlib import Path


class Harmful:
    name = "harmful"

    def __init__(self):
        self.state = "so that it is set"

    def process(self, events):
        return {}

    def __setstate__(self, state):
        with open(Path(__file__).with_name("unpickled"), "a") as file:
            file.write(f"{os.getpid()}\\n")
        if os.getpid() != TASK:
            os._exit(7)


wagons = [total, Harmful()]
"""


def test_a_wagon_that_ends_what_unpickles_it_is_unpickled_in_workers_alone(
    request_of_parts: TrainRequest, tmp_path: Path
) -> None:
    with (tmp_path / "wagon.py").open("a", encoding="utf-8") as file:
        file.write(HARMFUL.replace("TASK", str(os.getpid())))
    request = replace(request_of_parts, wagons=f"{tmp_path}/wagon.py")
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request, folder, unit_stage=0)
    work(folder, submission, 0, list(submission.tree.nodes(0)))
    result = finish(folder, submission)
    unpickled = set((tmp_path / "unpickled").read_text().split())
    assert unpickled
    assert str(os.getpid()) not in unpickled
    assert result.outputs["total"]["events"] == FILES * EVENTS
    [harmful] = [one for one in result.record.wagons if one.name == "harmful"]
    assert harmful.error is not None
    assert "exit code 7" in harmful.error.message


LARGE_WAGON = """
import numpy as np

def total(events):
    return {'events': len(events), 'bins': np.random.default_rng(1).normal(size=3000)}
"""


def run_while_disk_is_full(folder: BatchFolder, label: str) -> tuple[int, str]:
    """Run the first task of a step in a process that cannot write more than ``FULL_BYTES`` to a file, until it has
    failed to do so. Returns its exit code and its output.
    """
    words = [sys.executable, "-u", "-m", "branchline.trains.submitted.tasks.task", str(folder.out), label, "0"]
    limits = (FULL_BYTES, resource.RLIM_INFINITY)
    lines = []
    with subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, limits),
    ) as task:
        assert task.stdout is not None
        for line in task.stdout:
            lines.append(line)
            if "trying again" in line:
                resource.prlimit(task.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    return task.returncode, "".join(lines)


def test_tasks_wait_while_the_disk_is_full(request_of_parts: TrainRequest, tmp_path: Path) -> None:
    (tmp_path / "wagon.py").write_text(LARGE_WAGON, encoding="utf-8")
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, unit_stage=1)
    units = tuple(submission.tree.nodes(1))
    StepRecord("0.1", (units,)).write(folder)
    StepRecord("0.2", ((),)).write(folder)

    code, text = run_while_disk_is_full(folder, "0.1")
    assert code == EXIT_OK, text
    assert "File too large" in text
    assert "trying again for up to 10 min" in text
    assert all(has_result(folder, one, submission.id) for one in units)

    code, text = run_while_disk_is_full(folder, "0.2")
    assert code == EXIT_OK, text
    assert "job.json could not be written: File too large" in text
    assert f"finished: {FILES * EVENTS} events" in text
    record = json.loads((folder.out / "job.json").read_text())
    assert (record["status"], record["errors"]) == ("finished", [])


def test_a_full_disk_that_stays_full_is_reported(
    request_of_parts: TrainRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("branchline.trains.submitted.submission_folder.OUT_REFUSES_WAIT_S", 0.1)
    (tmp_path / "wagon.py").write_text(LARGE_WAGON, encoding="utf-8")
    folder = BatchFolder(tmp_path / "out")
    submission = submitted(request_of_parts, folder, unit_stage=1)
    StepRecord("0.1", (tuple(submission.tree.nodes(1)),)).write(folder)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (FULL_BYTES, limit[1]))
    try:
        assert main([str(folder.out), "0.1", "0"]) == EXIT_ERROR
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert "failed: cannot write" in capfd.readouterr().out


def test_a_task_reads_only_the_sub_jobs_of_its_units(
    request_of_parts: TrainRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("branchline.trains.submitted.stored_shares.SHARES_AT_A_TIME", 3)
    here = run_train(request_of_parts, Interruption())
    folder = BatchFolder(tmp_path / "out")
    made = submitted(request_of_parts, folder, unit_stage=0)
    shares, units = made.plan.shares, list(made.tree.nodes(0))
    stored = Submission.read(folder)
    assert [stored.plan.shares[index] for index in range(len(shares))] == list(stored.plan.shares) == list(shares)
    assert stored.plan.shares[1:5] == list(shares[1:5])
    with pytest.raises(IndexError):
        stored.plan.shares[len(shares)]
    half = len(units) // 2 // 3 * 3
    away = tmp_path / "away"
    for first, own in ((0, units[:half]), (half, units[half:])):
        # The files of the other task are missing.
        others = [one for one in folder.shares.iterdir() if (int(one.name) * 3 < half) != (first == 0)]
        away.mkdir()
        for one in others:
            one.rename(away / one.name)
        work(folder, Submission.read(folder), first, own)
        for one in others:
            (away / one.name).rename(one)
        away.rmdir()
    there = finish(folder, Submission.read(folder))
    assert there.outputs == here.outputs
    assert [one.path for one in there.record.dataset] == [one.path for one in here.record.dataset]
    assert there.record.errors == []
