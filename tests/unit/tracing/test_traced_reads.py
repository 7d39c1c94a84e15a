"""What a traced program read, as records for a control room."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from branchline.base.plain import check_types
from branchline.tracing.facts import FileReads, RequestTotals, Summary
from branchline.tracing.trace import TracedJob
from branchline.tracing.traced_record import TracedReads

NOTHING = RequestTotals(**dict.fromkeys(RequestTotals.__dataclass_fields__, 0))


def row(file: str, read_bytes: int, unwanted_bytes: int = 0) -> FileReads:
    return FileReads(file, 1000, 4, read_bytes, read_bytes, unwanted_bytes, 2, 50, 0, 0, 0.5)


def summary(exit_code: int | None = 0) -> Summary:
    files = [row("/data/a.root", 100, 30), row("/store/b.root", 50)]
    job = TracedJob("root -b macro.C", "strace", "node1", 1_700_000_000_000_000_000, 3_000_000_000, 2, exit_code)
    return Summary(job, replace(NOTHING, files=2), [], files, [], [], [], [])


@pytest.fixture(autouse=True)
def _at_a_site(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "site.toml"
    path.write_text('[sites.FAR]\nstorage = ["/store"]\n')
    monkeypatch.setenv("BRANCHLINE_SITE_CONFIG", str(path))
    monkeypatch.setenv("BRANCHLINE_SITE", "HERE")


def test_files_are_read_at_the_site_that_the_configuration_names() -> None:
    found = TracedReads.of(summary())
    assert [(one.path, one.bytes_read, one.bytes_asked, one.read_calls, one.site) for one in found.files] == [
        ("/data/a.root", 100, 70, 4, "HERE"),
        ("/store/b.root", 50, 50, 4, "HERE"),
    ]
    assert [(one.nearness, one.files, one.bytes_read) for one in found.sites] == [
        ("host", 1, 100),
        ("elsewhere", 1, 50),
    ]


def test_the_record_has_the_sums_the_times_and_the_end() -> None:
    record = TracedReads.of(summary()).record
    check_types(record)
    assert (record.status, record.wall_s, record.started) == ("finished", 3.0, "2023-11-14T22:13:20+00:00")
    assert (record.totals.bytes_read, record.storage_elements[0].files, record.errors) == (150, 2, [])
    failed = TracedReads.of(summary(139)).record
    assert (failed.status, failed.errors[0].message) == ("failed", "the program ended with exit code 139")


def test_a_site_file_that_is_wrong_costs_no_trace(tmp_path: Path) -> None:
    (tmp_path / "site.toml").write_text("[sites]\nFAR = 1\n")
    assert len(TracedReads.of(summary()).sites) == 2
