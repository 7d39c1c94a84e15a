"""Files of wagons are loaded as they are now."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from branchline.jobs.workers.worker import load_module


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


def test_modules_that_a_file_imports_are_loaded_as_they_are_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "package_of_a_test").mkdir()
    (tmp_path / "wagons.py").write_text(
        "import module_of_a_test as m, package_of_a_test.cuts as p\nCUTS = m.CUT, p.CUT\n"
    )
    imported = [tmp_path / "module_of_a_test.py", tmp_path / "package_of_a_test" / "cuts.py"]
    found = []
    for cut in (20, 30):
        for file in imported:
            file.write_text(f"CUT = {cut}\n")
            os.utime(file, (1_700_000_000, 1_700_000_000))
        found.append(load_module("wagons_of_a_test", str(tmp_path / "wagons.py")).CUTS)
        for name in [one for one in sys.modules if one.endswith("of_a_test") or one.startswith("package_of_a_test")]:
            del sys.modules[name]
    assert found == [(20, 20), (30, 30)]
