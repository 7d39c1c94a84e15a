"""A pytest plugin that runs uproot's tests on Branchline, and writes the outcome of each test."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.peers.peers import imported
from tests.peers.uproot_tests.classes import reasons_of
from tests.peers.uproot_tests.shim import replace_uproot, replace_writers, with_test_files

#: Environment variable with the path of the file in which the plugin writes a line for each test.
OUTPUT = "BRANCHLINE_UPROOT_TESTS"
#: Environment variable that selects the tests: tests of reading, tests of writing, or, as a baseline, the tests of
#: writing on uproot itself.
KIND = "BRANCHLINE_UPROOT_TESTS_KIND"
READING, WRITING, BASELINE = "reading", "writing", "baseline"

_reasons = functools.lru_cache(maxsize=None)(reasons_of)


def pytest_configure() -> None:
    with_test_files()
    if os.environ[KIND] == READING:
        replace_uproot()
    elif os.environ[KIND] == WRITING:
        replace_writers()


@pytest.fixture(scope="module")
def tests_directory() -> str:
    """Return the folder of uproot's tests."""
    return str(Path.cwd())


@pytest.fixture
def reset_classes() -> None:
    """Remove the classes that uproot has created from streamer infos."""
    imported("uproot").model.reset_classes()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        # Look up the test class of a method, or the name of a function without parameters.
        parents = [one.name for one in item.listchain() if isinstance(one, pytest.Class)]
        reasons = _reasons(item.path, writing=os.environ[KIND] != READING)
        reason = reasons.get(parents[0] if parents else getattr(item, "originalname", item.name))
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=f"not counted: {reason}"))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    if report.when != "call" and report.passed:
        return
    line = {"test": item.nodeid, "outcome": report.outcome, "error": "", "why": ""}
    if report.skipped and isinstance(report.longrepr, tuple):
        line["why"] = report.longrepr[2].removeprefix("Skipped: ")
    elif report.failed and call.excinfo is not None:
        where = call.excinfo.traceback[-1]
        line["error"] = call.excinfo.typename
        line["why"] = str(call.excinfo.value).partition("\n")[0][:300] or str(where.statement).strip()[:300]
    with Path(os.environ[OUTPUT]).open("a") as file:
        file.write(json.dumps(line) + "\n")
