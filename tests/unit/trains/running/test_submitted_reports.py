"""The token of a control room travels with a submitted train only where nobody else sees it."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.records.sending.address import ReportTarget
from branchline.trains.out_folder.live_report import ReportsTo
from branchline.trains.submitted.reports import check_token_travels


def reports(address: str) -> ReportsTo:
    target = ReportTarget.of(address)
    assert target is not None
    return ReportsTo(target)


@pytest.fixture(autouse=True)
def _no_token_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BRANCHLINE_REPORT_TOKEN", "BRANCHLINE_REPORT_TOKEN_FILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("system", ["slurm", "htcondor"])
def test_a_token_in_the_address_does_not_travel(system: str) -> None:
    with pytest.raises(OptionError, match="is not passed on to the jobs of a submitted train") as caught:
        check_token_travels(reports("http://room.example?token=secret"), system)
    assert "secret" not in str(caught.value)
    check_token_travels(reports("http://room.example"), system)
    check_token_travels(None, system)


def test_a_token_needs_a_system_that_passes_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN", "secret")
    check_token_travels(reports("http://room.example"), "slurm")
    with pytest.raises(OptionError, match="htcondor does not pass the environment"):
        check_token_travels(reports("http://room.example"), "htcondor")
    file = tmp_path / "token"
    file.write_text("secret")
    monkeypatch.setenv("BRANCHLINE_REPORT_TOKEN_FILE", str(file))
    check_token_travels(reports("http://room.example"), "htcondor")
