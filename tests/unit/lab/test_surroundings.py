"""What happens on a machine beside a sample is noted with it, also where the sample failed."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from branchline.lab.sampling.machine import CLOCK_STEP_TELLING_S, DISK_LOW_BYTES, Moment, Surroundings
from branchline.lab.sampling.sampler import HereAtOnce, Turn
from branchline.lab.sampling.samples import StudySample
from branchline.lab.sampling.study_files import files_of
from branchline.lab.studies.study_result import result_of
from branchline.lab.studies.verdict import sentences
from branchline.lab.study import JobSettings, Study

WAIT_S = 60.0
BUSY = "other programs were at work"


def sample(folder: Path, command: str, kind: str = "arm") -> StudySample:
    """One of a command."""
    settings = JobSettings(client="command", command=command)
    return HereAtOnce(folder).take(settings, files_of(settings), Turn(0, 0, "the only arm", kind), WAIT_S)


def moment() -> Moment:
    """A moment of this machine, after which nothing happens for a second."""
    return Moment.now()


def later(before: Moment, **changed: float) -> Moment:
    """A second later, in which ``changed`` went up by so much and nothing else did."""
    after = replace(before, monotonic_s=before.monotonic_s + 1.0, clock_s=before.clock_s + 1.0)
    return replace(after, **{name: getattr(after, name) + by for name, by in changed.items()})


def test_a_program_beside_a_sample_is_noted(busy: None, tmp_path: Path) -> None:
    taken = sample(tmp_path, "sleep 1.5")
    assert taken.error == ""
    assert BUSY in taken.surroundings.notes
    assert taken.surroundings.others_share > 0.05


@pytest.mark.long
def test_it_is_noted_with_a_sample_that_failed_and_in_the_sentences(busy: None, tmp_path: Path) -> None:
    failed = sample(tmp_path, "sh -c 'sleep 1.5; exit 3'")
    assert "code 3" in failed.error
    control = sample(tmp_path, "sh -c 'sleep 1.5; exit 4'", kind="control")
    study = Study("What was it?", JobSettings(client="command", command="x"))
    said = sentences(result_of(study, 1, [failed, control]))
    assert f"in 2 of 2 samples {BUSY}" in said
    assert any(one.startswith("the only arm: its control was left out 1 time: ") and "code 4" in one for one in said)


@pytest.mark.parametrize(
    ("changed", "notes"),
    [
        ({}, ()),
        ({"clock_s": 1.1 * CLOCK_STEP_TELLING_S}, ("the clock was set",)),
        ({"clock_s": -3600.0}, ("the clock was set",)),
        ({"throttled": 1}, ("the processor was throttled",)),
        ({"stolen_s": 0.5, "busy_s": 0.5}, ("the host of this virtual machine took time away",)),
        ({"busy_s": 0.9}, (BUSY,)),
    ],
)
def test_each_disturbance_has_its_note(changed: dict[str, float], notes: tuple[str, ...], tmp_path: Path) -> None:
    before = moment()
    found = Surroundings.between(before, later(before, **changed), 0.0, tmp_path)
    assert found.notes == notes


def test_the_time_of_the_jobs_themselves_is_none_of_others(tmp_path: Path) -> None:
    before = moment()
    assert Surroundings.between(before, later(before, busy_s=0.9), 0.9, tmp_path).notes == ()


def test_a_disk_that_is_nearly_full_is_noted(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    small = tmp_path / "small"
    small.mkdir()
    options = f"size={DISK_LOW_BYTES // 2}"
    if subprocess.run(["mount", "-t", "tmpfs", "-o", options, "none", small], check=False).returncode:
        pytest.skip("nothing can be mounted here")
    try:
        before = moment()
        assert Surroundings.between(before, later(before), 0.0, small).notes == ("the disk was nearly full",)
    finally:
        subprocess.run(["umount", small], check=True)
