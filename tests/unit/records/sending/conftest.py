"""A job that reports, and where it keeps reports."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.records.sending.taking_server import TakingServer

from branchline.records.sending.address import ADDRESS_VARIABLE, TOKEN_FILE_VARIABLE, TOKEN_VARIABLE
from branchline.records.sending.message import JobIdentity
from branchline.records.sending.spool import Spool


@pytest.fixture(autouse=True)
def _no_address_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (ADDRESS_VARIABLE, TOKEN_VARIABLE, TOKEN_FILE_VARIABLE, "X509_CERT_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture
def identity() -> JobIdentity:
    return JobIdentity(uuid.uuid4().hex, name="a job", started="2026-01-01T00:00:00+00:00")


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "state" / "spool")


@pytest.fixture
def server() -> Iterator[TakingServer]:
    with TakingServer() as found:
        yield found
