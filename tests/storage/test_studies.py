"""A study in its quick form: files are made, disks emulated, the lab measures, and its page has theirs beside ours."""

from __future__ import annotations

from pathlib import Path

import pytest
from studies import pages, records
from studies.making.sets import QUICK, Sets
from studies.published import all_studies
from studies.running import Runner


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["esd-table-3", "uk-figure-6"])
def test_a_study_is_measured_and_told_on_its_page(name: str, tmp_path: Path) -> None:
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
    assert "not sure" in page, "one round has no interval, so that nothing can be found"
    assert list((tmp_path / "docs").glob(f"{name}-*.svg"))
