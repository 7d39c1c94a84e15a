"""File copy, reading and a real job, for any storages, in one command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import uproot

from branchline.errors import OptionError
from branchline.lab.storage_study import StorageTests
from branchline.lab.study_page import kept_result


def test_storages_are_compared_in_each_test_with_the_first_one() -> None:
    study = StorageTests(where=("/a", "root://b//c"), train="w.py", jobs=(1, 4)).study()
    arms = {one.name: one for one in study.arms()}
    assert len(arms) == 12
    far = arms["storage root://b//c, test real job, jobs 4"]
    assert (far.settings.client, far.settings.train, far.settings.jobs) == ("train", "w.py", 4)
    assert study.baseline_of(far) == "storage /a, test real job, jobs 4"
    with pytest.raises(OptionError, match="given twice"):
        StorageTests(where=("/a", "/a")).study()


def test_the_command_measures_all_three_tests(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(2):
        with uproot.recreate(tmp_path / "data" / f"{number}.root") as file:
            file["events"] = {"x": np.arange(1000.0)}
    (tmp_path / "w.py").write_text("class W:\n    def process(self, events):\n        return len(events.x)\n")
    words = [sys.executable, "-m", "branchline", "study", "storage", str(tmp_path / "data"), "-o", "out"]
    words += ["--train", "w.py", "--minutes", "1", "--warm", "--seed", "1"]
    for _ in range(2):
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False)
        assert done.returncode == 0, done.stderr
    found = kept_result(tmp_path / "out")
    assert [one.levels["test"] for one in found.arms] == ["file copy", "reading", "real job"]
    assert all(one.samples and not one.lost for one in found.arms)
    assert found.arms[2].events_per_s
    assert (tmp_path / "out" / "study.html").exists()
