"""SimGrid in a folder of its own with Debian 13, which has a package of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[2]
#: The folder with SimGrid, if it is somewhere else than below target.
VARIABLE = "BRANCHLINE_SIMGRID"
MAKE_TIMEOUT_S = 900
RUN_TIMEOUT_S = 600


def simgrid_folder() -> Path:
    """The folder; made if it is not there, which takes a minute. Skips where it cannot."""
    folder = Path(os.environ.get(VARIABLE) or REPOSITORY / "target" / "clusters" / "trixie-simgrid")
    if (folder / "usr" / "bin" / "python3").exists():
        return folder
    maker = shutil.which("mmdebstrap")
    if os.geteuid() != 0 or maker is None:
        pytest.skip("only root may make the folder with SimGrid, with mmdebstrap")
    making = folder.with_suffix(".making")
    shutil.rmtree(making, ignore_errors=True)
    making.parent.mkdir(parents=True, exist_ok=True)
    words = [maker, "--variant=apt", "--include=python3-simgrid", "trixie", str(making), *_mirror()]
    done = subprocess.run(words, capture_output=True, text=True, timeout=MAKE_TIMEOUT_S, check=False)
    if done.returncode:
        shutil.rmtree(making, ignore_errors=True)
        pytest.skip(f"SimGrid cannot be installed: {done.stderr[-500:]}")
    making.rename(folder)
    return folder


def _mirror() -> list[str]:
    """Where this machine gets its packages."""
    for path in Path("/etc/apt/sources.list.d").glob("*.sources"):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("URIs:"):
                return line.split()[1:2]
    return []


def ends_in_simgrid(case: dict[str, Any]) -> list[float]:
    """When the jobs of a case end, by SimGrid."""
    if os.geteuid() != 0:
        pytest.skip("only root may enter the folder with SimGrid")
    program = Path(__file__).with_name("in_simgrid.py").read_text(encoding="utf-8")
    done = subprocess.run(
        ["chroot", str(simgrid_folder()), "python3", "-c", program],
        input=json.dumps(case),
        capture_output=True,
        text=True,
        timeout=RUN_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    ends: list[float] = json.loads(done.stdout[done.stdout.index("[") :])
    return ends
