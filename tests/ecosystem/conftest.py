"""Two storage elements and a Rucio server, and the rule that a skipped test is a failure here."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterator

import pytest
from tests.ecosystem.rucio_server import Rucio
from tests.stores.servers import Folder

REASON = "a skip is a failure in `make test-ecosystem`"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.skipped and not hasattr(report, "wasxfail"):
        report.outcome, report.longrepr = "failed", f"{REASON}: {report.longrepr}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.skipped:
        report.outcome, report.longrepr = "failed", f"{REASON}: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def rucio() -> Iterator[Rucio]:
    """A Rucio server, filled, and the storage elements of its files."""
    environment = dict(os.environ)
    folder = Folder()
    try:
        server = Rucio(folder)
        try:
            server.start()
            yield server
        finally:
            server.kill()
    finally:
        folder.remove()
        os.environ.clear()
        os.environ.update(environment)
