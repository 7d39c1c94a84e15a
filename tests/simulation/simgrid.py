"""SimGrid in a folder of its own with Debian 13, which has a package of it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from tests.debian_folder import debian_folder

REPOSITORY = Path(__file__).parents[2]
#: The folder with SimGrid, if it is somewhere else than below target.
VARIABLE = "BRANCHLINE_SIMGRID"
RUN_TIMEOUT_S = 600


def simgrid_folder() -> Path:
    """The folder; made if it is not there. Skips where it cannot."""
    folder = Path(os.environ.get(VARIABLE) or REPOSITORY / "target" / "clusters" / "trixie-simgrid")
    return debian_folder(folder, ["python3-simgrid"], ["usr/bin/python3"], "SimGrid")


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
