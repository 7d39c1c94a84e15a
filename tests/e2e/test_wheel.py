"""The wheel is one for the stable ABI of Python 3.11 and later, and holds all that the package needs at run time."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_is_whole_and_for_the_stable_abi(repository: Path, tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "maturin", "build", "--release", "--out", tmp_path],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    package = repository / "python" / "branchline"
    needed = {
        f"branchline/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.suffix in (".py", ".pyi", ".html", ".css", ".mplstyle", ".typed")
    }
    assert needed | {"branchline/_core.abi3.so"} <= held
    tops = {name.split("/")[0] for name in held}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"branchline"}
