"""Files of wagons are loaded as they are now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from branchline.jobs.worker import load_module


def test_a_file_that_was_written_again_within_a_second_is_loaded_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    file = tmp_path / "cuts.py"
    found = []
    for cut in (20, 30):
        file.write_text(f"CUT = {cut}\n")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        found.append(load_module("cuts_of_a_test", str(file)).CUT)
        del sys.modules["cuts_of_a_test"]
    assert found == [20, 30]
