"""The environment of the commands in the Makefile."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path


def test_processes_of_make_keep_what_python_compiled(repository: Path) -> None:
    command = ["make", "--silent", "--eval", "shown: ; @env", "shown"]
    environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True, check=True)
    shown = {line.partition("=")[0] for line in done.stdout.splitlines()}
    assert "PATH" in shown
    assert "PYTHONDONTWRITEBYTECODE" not in shown
