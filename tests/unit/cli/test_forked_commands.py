"""Commands of tests are forked from a loaded process unless a test wants another environment for them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tests import branchline_command
from tests.branchline_command import run_branchline


@pytest.fixture
def new_pythons(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The calls of `subprocess.run`."""
    calls: list[object] = []
    run = subprocess.run

    def counted(words: list[str], **options: object) -> object:
        calls.append(words)
        return run(words, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(subprocess, "run", counted)
    # Without what other tests have left in the environment.
    server = branchline_command._ENVIRONMENT
    for name in {*os.environ, *server} - set(branchline_command.TEST_VARIABLES):
        if name in server:
            monkeypatch.setenv(name, server[name])
        else:
            monkeypatch.delenv(name)
    return calls


@pytest.mark.parametrize("name", ["CPPYY_API_PATH", "_RJEM_MALLOC_CONF"])
def test_variables_of_test_libraries_cost_no_new_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_pythons: list[object], name: str
) -> None:
    monkeypatch.setenv(name, "none")
    assert run_branchline(tmp_path, ["--version"]).returncode == 0
    assert not new_pythons


def test_a_changed_environment_is_that_of_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, new_pythons: list[object]
) -> None:
    monkeypatch.delenv("BRANCHLINE_REPORT_TO", raising=False)
    words = ["report", "send", "."]
    without = run_branchline(tmp_path, words).stderr
    assert not new_pythons
    given = run_branchline(tmp_path, words, {"BRANCHLINE_REPORT_TO": "http://127.0.0.1:9"}).stderr
    monkeypatch.setenv("BRANCHLINE_REPORT_TO", "http://127.0.0.1:9")
    assert run_branchline(tmp_path, words).stderr == given != without
    assert len(new_pythons) == 2
