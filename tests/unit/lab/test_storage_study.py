"""File copy, reading and a real job, for any storages, in one command."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import uproot

from branchline.errors import OptionError
from branchline.lab.sampling.sampler import HereAtOnce
from branchline.lab.studies.study_page import kept_result, write_report
from branchline.lab.studies.study_run import StudyRun
from branchline.lab.study import StorageTests


def test_storages_are_compared_in_each_test_with_the_first_one() -> None:
    study = StorageTests(where=("/a", "root://b//c"), train="w.py", jobs=(1, 4)).study()
    arms = {one.name: one for one in study.arms()}
    assert len(arms) == 12
    far = arms["storage root://b//c, test real job, jobs 4"]
    assert (far.settings.client, far.settings.train, far.settings.jobs) == ("train", "w.py", 4)
    assert study.baseline_of(far) == "storage /a, test real job, jobs 4"
    with pytest.raises(OptionError, match="given twice"):
        StorageTests(where=("/a", "/a")).study()


@pytest.mark.long
def test_files_are_copied_and_read_and_a_train_runs(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(2):
        with uproot.recreate(tmp_path / "data" / f"{number}.root") as file:
            file["events"] = {"x": np.arange(1000.0)}
    (tmp_path / "w.py").write_text("class W:\n    def process(self, events):\n        return len(events.x)\n")
    tests = StorageTests(where=(str(tmp_path / "data"),), train=str(tmp_path / "w.py"), cold=False, rounds_max=1)
    StudyRun(tests.study(), tmp_path / "out", 1, HereAtOnce(tmp_path), lambda _: None).run()
    write_report(tmp_path / "out")
    found = kept_result(tmp_path / "out")
    assert [one.levels["test"] for one in found.arms] == ["file copy", "reading", "real job"]
    assert all(one.samples and not one.lost for one in found.arms)
    assert found.arms[2].events_per_s
    assert (tmp_path / "out" / "study.html").exists()
