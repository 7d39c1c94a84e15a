"""Studies in the quick form: files are made, disks emulated, arms measured, and pages written without verdicts."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import pages, records
from studies.findings import FOUND, NOT_FOUND, OTHER_MECHANISM, UNSURE
from studies.making.sets import QUICK, Sets
from studies.published import all_studies
from studies.running import Runner


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["esd-cpu-utilisation", "esd-table-2"])
def test_a_study_is_measured_and_shown_on_its_page(name: str, tmp_path: Path) -> None:
    (pair,) = (one for one in all_studies() if one.name == name)
    sets = Sets(tmp_path / "files", QUICK, print)
    record = Runner(sets, tmp_path / "samples", tmp_path / "kept", True, print).run(pair, 60.0)
    if record.skipped:
        pytest.skip(record.skipped)
    assert record.result is not None
    assert all(one.samples and not one.lost for one in record.result.arms), record.result.arms
    assert records.read(name, tmp_path / "kept") == record
    pages.write(tmp_path / "docs", tmp_path / "kept")
    page = (tmp_path / "docs" / f"{pair.published.document}.md").read_text()
    assert "measured with small files and one round" in page
    assert not any(f"| {one} |" in page for one in (FOUND, OTHER_MECHANISM, NOT_FOUND, UNSURE))
    assert list((tmp_path / "docs").glob(f"{name}-*.svg"))
