"""The wheel is one for the stable ABI of Python 3.11 and later, holds all that the package needs at run time, and reads
files with the dependencies of the core alone.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.wheel.fresh import FreshEnvironment
from tests.wheel.try_wheel import OPEN


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, linked against the glibc of this machine: `make wheel` takes an older one, and compiles for minutes."""
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "maturin", "build", "--release", "--out", folder],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_wheel_is_whole_and_for_the_stable_abi(repository: Path, wheel: Path) -> None:
    assert "-cp311-abi3-" in wheel.name
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    package = repository / "python" / "branchline"
    needed = {
        f"branchline/{path.relative_to(package)}"
        for path in package.rglob("*")
        if path.suffix in (".py", ".pyi", ".html", ".css", ".mplstyle", ".typed", ".json", ".js", ".svg", ".yml")
    }
    assert needed | {"branchline/_core.abi3.so"} <= held
    tops = {name.split("/")[0] for name in held}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"branchline"}


@pytest.mark.long
@pytest.mark.timeout(600)
def test_the_core_reads_files_without_any_extra(
    repository: Path, wheel: Path, collisions: Path, tmp_path: Path
) -> None:
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = {"boost-histogram", "hist", "matplotlib", "pyarrow", "cloudpickle", "psutil", "uproot"}
    assert {name.partition(">")[0] for name in project["dependencies"]} == {"awkward", "numpy", "rich", "shtab"}
    fresh = FreshEnvironment(tmp_path / "core")
    fresh.install(str(wheel))
    assert not fresh.packages() & extras
    printed = fresh.run("python", "-c", OPEN, f"{next(collisions.glob('*.root'))}:events", cwd=tmp_path)
    assert printed == "read 20 events\n"
