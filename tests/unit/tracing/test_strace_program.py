"""The strace of this machine is looked at before it is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from branchline.errors import OptionError
from branchline.tracing import strace


@pytest.mark.parametrize(
    ("script", "what"),
    [
        ("sleep 60", r"strace --version did not answer within 1 s"),
        ("echo strace -- version 4.26", "strace 4.26 is too old"),
    ],
)
def test_a_strace_that_hangs_or_is_too_old_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, what: str
) -> None:
    program = tmp_path / "strace"
    program.write_text(f"#!/bin/sh\nexec {script}\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    if script.startswith("sleep"):
        # On a busy machine another one may need longer than that.
        monkeypatch.setattr(strace, "STRACE_ANSWER_S", 1.0)
    with pytest.raises(OptionError, match=what):
        strace.follow(["true"])
