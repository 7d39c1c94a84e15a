"""What the lab says of files that lie in a FUSE mount, whose cache is that of a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import uproot
from tests.storage.machine import Room
from tests.storage.xrootdfs import mounted

from branchline.lab.comparison.command_samples import ShellCommand
from branchline.lab.comparison.compare import ComparisonPlan, compare, verdict
from branchline.lab.comparison.reading_samples import Reading, ReadingOptions
from branchline.lab.sampling.page_cache import fuse_remark
from branchline.lab.sampling.sampler import HereAtOnce, Turn
from branchline.lab.sampling.study_files import files_of
from branchline.lab.study import JobSettings

WAIT_S = 120.0


@pytest.fixture(scope="module")
def place() -> Iterator[Path]:
    """A mount with a file."""
    room = Room("cold")
    try:
        place = mounted(room)
        with uproot.recreate(room.path / "data" / "f.root") as file:
            file.mktree("events", {"x": "f8"}).extend({"x": np.arange(5000.0)})
        yield place
    finally:
        room.close()


def test_cold_samples_from_a_mount_say_that_its_own_cache_is_not_known(place: Path, tmp_path: Path) -> None:
    settings = JobSettings(where=(str(place),), tree="events", cold=True)
    files = files_of(settings)
    sample = HereAtOnce(tmp_path).take(settings, files, Turn(0, 0, "only", "arm"), WAIT_S)
    assert sample.error == ""
    assert sample.cold_remark == f"{place} is a FUSE mount, whose own cache is not known and may be warm"
    # Who names what the mount is served from has it made cold there.
    served = replace(settings, served_from=(str(place.parent / "data"),))
    sample = HereAtOnce(tmp_path).take(served, files_of(served), Turn(0, 0, "only", "arm"), WAIT_S)
    assert (sample.error, sample.cold_remark) == ("", "")


def test_a_comparison_of_readings_says_so_too(place: Path) -> None:
    reading = Reading.of("a", str(place), "", ReadingOptions())
    assert "is a FUSE mount" in reading.taken(0, 0, None, WAIT_S).temperature.remark  # type: ignore[union-attr]


def test_a_comparison_of_commands_says_so_too(place: Path) -> None:
    one, other = (ShellCommand(name, ("cat", str(place / "f.root"))) for name in "AB")
    cold = (str(place / "f.root"),)
    lines = verdict(compare(ComparisonPlan(one, other, precision=0.9, budget_s=1.0, cold=cold)))
    assert any(line.startswith("cold: ") and "is a FUSE mount" in line for line in lines)


def test_files_of_the_kernels_own_file_systems_have_no_remark(place: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert fuse_remark([str(tmp_path / "file")]) == ""
    # A link leads into the mount all the same.
    (tmp_path / "link").symlink_to(place / "f.root")
    assert "is a FUSE mount" in fuse_remark([str(tmp_path / "link")])
