"""Studies in the quick form: files are made, disks emulated, arms measured, and pages written without verdicts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from studies import pages, records
from studies.findings import FOUND, NOT_FOUND, OTHER_MECHANISM, UNSURE
from studies.published import all_studies


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["esd-cpu-utilisation", "esd-table-2"])
def test_a_study_is_measured_and_shown_on_its_page(name: str, tmp_path: Path, repository: Path) -> None:
    (pair,) = (one for one in all_studies() if one.name == name)
    official = {one: one.stat().st_mtime_ns for folder in (records.RECORDS, pages.FOLDER) for one in folder.iterdir()}
    command = [sys.executable, "-m", "studies", "--quick", "--study", name, "--data", str(tmp_path)]
    done = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=500, check=False)
    if f"{name} failed: the emulated" in done.stderr:
        pytest.skip("other programs keep the machine too busy to emulate a disk")
    assert done.returncode == 0, done.stderr
    assert not list((tmp_path / "quick").glob("run-*.json")), "the run is complete"
    record = records.read(name, tmp_path / "quick" / "results")
    assert record is not None
    if record.skipped:
        assert f"{name}: left out: {record.skipped}" in done.stderr
        pytest.skip(record.skipped)
    assert record.result is not None
    assert all(one.samples and not one.lost for one in record.result.arms), record.result.arms
    assert all(one.bound for one in record.result.arms), record.result.arms
    page = (tmp_path / "quick" / "docs" / f"{pair.published.document}.md").read_text()
    assert "measured with small files and one round" in page
    assert not any(f"| {one} |" in page or one in done.stderr for one in (FOUND, OTHER_MECHANISM, NOT_FOUND, UNSURE))
    assert list((tmp_path / "quick" / "docs").glob(f"{name}-*.svg"))
    assert all(one.stat().st_mtime_ns == before for one, before in official.items())
