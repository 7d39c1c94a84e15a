"""What takes long to import is imported by the commands that use it, and by no others."""

from __future__ import annotations

import subprocess
import sys

HEAVY = ("awkward", "hist", "matplotlib", "numpy", "pyarrow", "uproot")


def test_merging_imports_nothing_that_takes_longer_than_it() -> None:
    code = "import sys, branchline.cli.merging; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    loaded = {name.partition(".")[0] for name in done.stdout.split()}
    assert not loaded.intersection(HEAVY)
    assert "branchline" in loaded


def test_names_of_the_package_are_there_when_they_are_asked_for() -> None:
    import branchline

    for name in branchline.__all__:
        assert getattr(branchline, name) is not None
        assert name in dir(branchline)
