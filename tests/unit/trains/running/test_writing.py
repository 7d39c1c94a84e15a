"""However often a run is interrupted while its results are written, its record says how it stands."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest

from branchline.records import output  # noqa: F401

# `writing` takes functions of `job_files` by name: imported later it would keep one that stands in for another.
from branchline.records.result_files import job_files
from branchline.records.sensors.record import JobRecord
from branchline.trains.out_folder.claim import claimed
from branchline.trains.out_folder.write_results import write


def test_two_ctrl_c_while_the_record_is_written_leave_it_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_job = job_files.write_job

    def interrupted(out: Path, job: JobRecord) -> None:
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGINT)
        write_job(out, job)

    result = SimpleNamespace(record=JobRecord(status="finished"), errors=[], out=None)
    with claimed(tmp_path / "out", force=False) as claim:
        claim.begin("branchline run")
        monkeypatch.setattr(job_files, "write_job", interrupted)
        write(result, claim)
    assert json.loads((tmp_path / "out" / "job.json").read_text())["status"] == "partial"
    assert (result.record.status, result.record.interrupted) == ("partial", True)
